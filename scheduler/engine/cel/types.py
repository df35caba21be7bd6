"""Static types of expressions, their names in messages, and the unification that type checking needs.

Source: the CEL language definition and cel-go v0.26 (checker/types.go). `dyn` and `any` unify with every type; a type
parameter stands for one type that `Substitutions` finds out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import is_
from typing import Final


class Kind(Enum):
    """What a type is, without its parameters."""

    ANY = auto()
    BOOL = auto()
    BYTES = auto()
    DOUBLE = auto()
    DURATION = auto()
    DYN = auto()
    ERROR = auto()
    INT = auto()
    LIST = auto()
    MAP = auto()
    NULL = auto()
    OPAQUE = auto()
    PARAMETER = auto()
    STRING = auto()
    STRUCT = auto()
    TIMESTAMP = auto()
    TYPE = auto()
    UINT = auto()


@dataclass(frozen=True, slots=True)
class Type:
    """A static type: its kind, its name at run time, and the types of its elements."""

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind, self.name, self.parameters)))

    def __hash__(self) -> int:
        return self._hash  # types are keys while they are unified, and may be nested deeply

    def __str__(self) -> str:
        """Return the type as error messages of the type checker show it."""
        if self.kind is Kind.TYPE and not self.parameters:
            return "type"
        name = _CHECKER_NAMES.get(self.kind, self.name)
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name

    @property
    def declared(self) -> str:
        """The type's name in the message that an expression's result is not a bool."""
        name = f"<{self.name}>" if self.kind is Kind.PARAMETER else self.name
        return f"{name}({', '.join(p.declared for p in self.parameters)})" if self.parameters else name

    @property
    def is_dynamic(self) -> bool:
        return self.kind in (Kind.DYN, Kind.ANY)

    @property
    def is_optional(self) -> bool:
        return self.kind is Kind.OPAQUE and self.name == OPTIONAL_NAME

    def is_equivalent(self, other: Type) -> bool:
        """Return whether both types are the same apart from the names of their type parameters."""
        return (
            self.kind is other.kind
            and (self.kind is Kind.PARAMETER or self.name == other.name)
            and len(self.parameters) == len(other.parameters)
            and all(a.is_equivalent(b) for a, b in zip(self.parameters, other.parameters, strict=True))
        )


OPTIONAL_NAME: Final = "optional_type"
_CHECKER_NAMES: Final = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}

ANY: Final = Type(Kind.ANY, "google.protobuf.Any")
BOOL: Final = Type(Kind.BOOL, "bool")
BYTES: Final = Type(Kind.BYTES, "bytes")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
DYN: Final = Type(Kind.DYN, "dyn")
ERROR: Final = Type(Kind.ERROR, "error")
INT: Final = Type(Kind.INT, "int")
NULL: Final = Type(Kind.NULL, "null_type")
STRING: Final = Type(Kind.STRING, "string")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
UINT: Final = Type(Kind.UINT, "uint")
TYPE: Final = Type(Kind.TYPE, "type")
QUANTITY: Final = Type(Kind.STRUCT, "kubernetes.Quantity")
SEMVER: Final = Type(Kind.STRUCT, "kubernetes.Semver")
URL: Final = Type(Kind.STRUCT, "kubernetes.URL")
FORMAT: Final = Type(Kind.STRUCT, "kubernetes.NamedFormat")
IP: Final = Type(Kind.OPAQUE, "net.IP")
CIDR: Final = Type(Kind.OPAQUE, "net.CIDR")
DEVICE: Final = Type(Kind.STRUCT, "kubernetes.DRADevice")


def list_of(element: Type) -> Type:
    """Return the type of lists with the given elements."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps with the given keys and values."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of an optional value."""
    return Type(Kind.OPAQUE, OPTIONAL_NAME, (value,))


def type_of(instance: Type) -> Type:
    """Return the type of a value that is itself a type, such as `int` in `type(x) == int`."""
    return Type(Kind.TYPE, "type", (instance,))


def parameter(name: str) -> Type:
    """Return a type parameter with this name."""
    return Type(Kind.PARAMETER, name)


def unwrap_optional(wrapped: Type) -> tuple[Type, bool]:
    """Return the type inside an optional type and True, or any other type itself and False."""
    return (wrapped.parameters[0], True) if wrapped.is_optional else (wrapped, False)


_NULLABLE: Final = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP, Kind.NULL, Kind.DYN})
_CONTAINERS: Final = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})
_WITH_PARAMETERS: Final = _CONTAINERS | {Kind.TYPE}


class Substitutions:
    """The types that type parameters stand for. A failed unification leaves no trace."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._journal: list[tuple[Type, Type | None]] = []
        self._count = 0

    def fresh(self) -> Type:
        """Return a new type parameter that is not bound to a type yet."""
        self._count += 1
        return parameter(f"_var{self._count - 1}")

    def resolve(self, original: Type, free_as_dyn: bool = False) -> Type:
        """Return the type with bound type parameters replaced by their types and, if `free_as_dyn`, others by dyn."""
        bound = self._bound.get(original)
        if bound is not None:
            return self.resolve(bound, free_as_dyn)
        if original.kind is Kind.PARAMETER:
            return DYN if free_as_dyn else original
        if original.parameters and original.kind in _WITH_PARAMETERS:
            parts = tuple(self.resolve(p, free_as_dyn) for p in original.parameters)
            return original if all(map(is_, parts, original.parameters)) else Type(original.kind, original.name, parts)
        return original

    def unify(self, types: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Return whether each of `types` is assignable to that of `wanted`; bind type parameters for that.

        If it is False, no type parameter is bound.
        """
        self._journal.clear()
        if len(types) == len(wanted) and all(map(self._assignable, types, wanted)):
            return True
        for bound, before in reversed(self._journal):
            if before is None:
                del self._bound[bound]
            else:
                self._bound[bound] = before
        return False

    def _bind(self, bound: Type, to: Type) -> None:
        self._journal.append((bound, self._bound.get(bound)))
        self._bound[bound] = to

    def _assignable(self, one: Type, two: Type) -> bool:
        if two.kind is Kind.PARAMETER:
            valid, has_substitution = self._substitutes(one, two)
            if valid or has_substitution:
                return valid
        if one.kind is Kind.PARAMETER:
            return self._substitutes(two, one)[0]
        if one.is_dynamic or two.is_dynamic or Kind.ERROR in (one.kind, two.kind):
            return True
        if Kind.NULL in (one.kind, two.kind):
            return (two if one.kind is Kind.NULL else one).kind in _NULLABLE
        if one.kind is Kind.TYPE:
            return two.kind is Kind.TYPE
        if one.kind in _CONTAINERS:
            return (
                one.kind is two.kind
                and one.name == two.name
                and len(one.parameters) == len(two.parameters)
                and all(map(self._assignable, one.parameters, two.parameters))
            )
        return one.kind is two.kind and one.name == two.name

    def _substitutes(self, one: Type, variable: Type) -> tuple[bool, bool]:
        """Bind the type parameter `variable` to `one` if that is possible.

        Returns whether `one` is assignable to it, and whether this was decided by equality or an earlier binding.
        """
        if one == variable:
            return True, True
        bound = self._bound.get(variable)
        if bound is not None:
            if one == bound:
                return True, True
            if not self._assignable(one, bound):
                return False, True
            general = most_general(one, bound)
            if not self._occurs(variable, general):
                self._bind(variable, general)
            return True, True
        if self._occurs(variable, one):
            return False, False
        self._bind(variable, one)
        return True, False

    def _occurs(self, variable: Type, within: Type) -> bool:
        if variable == within:
            return True
        if within.kind is Kind.PARAMETER:
            bound = self._bound.get(within)
            return bound is not None and self._occurs(variable, bound)
        return within.kind in _WITH_PARAMETERS and any(self._occurs(variable, p) for p in within.parameters)


def most_general(one: Type, two: Type) -> Type:
    """Return the more general of two types that unify; `two` if they are equally general."""
    return one if _is_less_specific(one, two) else two


def _is_less_specific(one: Type, two: Type) -> bool:
    if one.is_dynamic or one.kind is Kind.PARAMETER:
        return True
    if two.is_dynamic or two.kind is Kind.PARAMETER or one.kind is not two.kind:
        return False
    if one.kind in _CONTAINERS:
        return (
            one.name == two.name
            and len(one.parameters) == len(two.parameters)
            and all(map(_is_less_specific, one.parameters, two.parameters))
        )
    return one.kind is Kind.TYPE or one == two
