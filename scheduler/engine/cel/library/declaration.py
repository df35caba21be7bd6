"""How a function of the library is declared: its overloads with their types and implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from scheduler.engine.cel import types
from scheduler.engine.cel.errors import CelRuntimeError
from scheduler.engine.cel.types import Type
from scheduler.engine.cel.values import Value

Implementation: TypeAlias = Callable[..., Value]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    `accepts_all` makes the implementation check the types of its arguments itself. An overload without an
    implementation belongs to a function with one implementation for all overloads, or to one that expressions for
    devices cannot call.
    """

    function: str
    id: str
    arguments: tuple[Type, ...]
    result: Type
    is_member: bool
    implementation: Implementation | None = None
    accepts_all: bool = False

    @property
    def parameters(self) -> tuple[Type, ...]:
        """The type parameters of the signature."""
        parameters_seen: dict[Type, None] = {}
        _collect_parameters((*self.arguments, self.result), parameters_seen)
        return tuple(parameters_seen)


def _collect_parameters(signature: tuple[Type, ...], parameters: dict[Type, None]) -> None:
    for part in signature:
        if part.kind is types.Kind.PARAMETER:
            parameters[part] = None
        _collect_parameters(part.parameters, parameters)


_NAMED: Final = {
    "any": types.ANY,
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "cidr": types.CIDR,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "dyn": types.DYN,
    "format": types.FORMAT,
    "int": types.INT,
    "ip": types.IP,
    "quantity": types.QUANTITY,
    "semver": types.SEMVER,
    "string": types.STRING,
    "timestamp": types.TIMESTAMP,
    "type": types.TYPE,
    "uint": types.UINT,
    "url": types.URL,
}


def declare(
    function: str,
    overload: str,
    signature: str,
    implementation: Implementation | None = None,
    accepts_all: bool = False,
) -> Overload:
    """Return the overload with the ID `overload` and a signature.

    A signature is `(string) -> bool`, or `string.(int) -> string` for a method. `Overload` explains the other
    parameters.
    """
    inputs, result = signature.split(" -> ")
    target, _, rest = inputs.rpartition(".(") if ".(" in inputs else ("", "", inputs[1:])
    arguments = ([target] if target else []) + _split(rest[:-1])
    parsed = tuple(parse_type(argument) for argument in arguments)
    return Overload(function, overload, parsed, parse_type(result), bool(target), implementation, accepts_all)


def _split(arguments: str) -> list[str]:
    """Return the arguments of a signature: the text split at commas outside parentheses; an empty list for ""."""
    parts: list[str] = []
    depth = 0
    for piece in arguments.split(",") if arguments else []:
        if depth:
            parts[-1] += "," + piece
        else:
            parts.append(piece)
        depth += piece.count("(") - piece.count(")")
    return parts


def parse_type(text: str) -> Type:
    """Return the type of a text such as `map(K, list(int))`; a capital letter is a type parameter."""
    name, _, rest = text.strip().partition("(")
    parameters = tuple(parse_type(part) for part in _split(rest[:-1]))
    if name == "list":
        return types.list_of(parameters[0])
    if name == "map":
        return types.map_of(*parameters)
    if name == "type" and parameters:
        return types.type_of(parameters[0])
    if name == "optional":
        return types.optional_of(parameters[0])
    if len(name) == 1:
        return types.parameter(name)
    if "." in name:
        return Type(types.Kind.STRUCT, name)
    return _NAMED[name]


def is_parsed_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a function that returns whether `parse` accepts a text, and False if `parse` raises CelRuntimeError."""

    def is_parsed(text: str) -> bool:
        try:
            parse(text)
        except CelRuntimeError:
            return False
        return True

    return is_parsed
