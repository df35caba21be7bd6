"""Makes up random expressions from the declarations of the library: of the right types, over every function.

An expression that the checker accepts is rare among random texts. Here each operand has the type that the declaration
wants, or is an attribute of the device, whose type is known only at run time.
"""

from __future__ import annotations

import random
from typing import Final

from scheduler.engine.cel import types
from scheduler.engine.cel.environment import FUNCTIONS
from scheduler.engine.cel.library.declaration import Overload
from scheduler.engine.cel.types import Kind, Type

A: Final = 'device.attributes["gpu.example.com"]'
C: Final = 'device.capacity["gpu.example.com"]'
_ANY: Final = (
    *(f"{A}.{name}" for name in ("model", "index", "ecc", "numa", "driverVersion", "missing")),
    'device.attributes["other.example.org"].name',
    f'{A}["model"]',
)
_TEXTS: Final = (
    *("", "A100", "a", "1.2.3", "10.0.0.1", "10.0.0.0/8", "1Gi", "1h", "2024-02-29T12:00:00Z", "héllo", "x,y", "true"),
    *("https://a.b:1/c?d=e", "%s %d", "[a-z]+", ",", "fe80::1", "-5", "1.5"),
)
_LEAVES: Final[dict[Type, tuple[str, ...]]] = {
    types.BOOL: ("true", "false", "device.allowMultipleAllocations", f"has({A}.numa)", f"has({A}.ecc)"),
    types.INT: ("0", "1", "-1", "3", "7", "100", "9223372036854775807", "-9223372036854775808"),
    types.UINT: ("0u", "1u", "3u", "18446744073709551615u"),
    types.DOUBLE: ("0.0", "1.5", "-2.25", "1e10", "3.0", "1e-7", "123456789.5"),
    types.STRING: ("device.driver", *(f'"{text}"' for text in _TEXTS)),
    types.BYTES: ('b"ab"', 'b""', 'b"\\xff"'),
    types.DURATION: ('duration("1h30m")', 'duration("-5s")', 'duration("1ns")'),
    types.TIMESTAMP: ('timestamp("2024-02-29T12:34:56.789Z")', "timestamp(0)"),
    types.QUANTITY: (f"{C}.memory", f"{C}.cores", 'quantity("40Gi")', 'quantity("1500m")', 'quantity("-3")'),
    types.SEMVER: ('semver("1.2.3")', 'semver("2.0.0-rc.1")', 'semver("v1", true)'),
    types.IP: ('ip("10.0.0.1")', 'ip("::1")'),
    types.CIDR: ('cidr("10.0.0.0/8")', 'cidr("fe80::/10")'),
    types.URL: ('url("https://a.b:1/c?d=e&d=f")', 'url("/p")'),
    types.FORMAT: ("format.dns1123Label()", "format.uuid()"),
}
_CONCRETE: Final = tuple(_LEAVES)[:10]
_SIGNS: Final = ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||")
_OPERATORS: Final = {f"_{sign}_": sign for sign in _SIGNS} | {"@in": "in"}
_INTERNAL: Final = frozenset({"@not_strictly_false", "cel.@mapInsert", "@sortByAssociatedKeys", "_?._", "lists.range"})
_OVERLOADS: Final = [
    overload
    for overloads in FUNCTIONS.values()
    for overload in overloads
    if overload.function not in _INTERNAL and not any("authorization" in each.name for each in overload.arguments)
]
_TRIES: Final = 60  # overloads that are drawn until one has the wanted result


class TypedGenerator:
    """Draws expressions of a given type."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._variables: list[tuple[str, Type]] = []

    def draw(self, wanted: Type, depth: int) -> str:
        """Return an expression of a type with at most about `depth` nested calls."""
        if wanted.is_dynamic:
            return self._random.choice(_ANY)
        if depth <= 0 or self._random.random() < 0.3:
            return self._leaf(wanted, depth)
        kind = self._random.random()
        if kind < 0.12:
            parts = self.draw(types.BOOL, depth - 1), self.draw(wanted, depth - 1), self.draw(wanted, depth - 1)
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        return self._macro(wanted, depth) if kind < 0.24 else self._call(wanted, depth)

    def _leaf(self, wanted: Type, depth: int) -> str:
        choose = self._random.choice
        if wanted.kind is Kind.LIST:
            elements = [self.draw(wanted.parameters[0], depth - 2) for _ in range(choose((0, 1, 2, 2, 3)))]
            return f"[{', '.join(elements)}]"
        if wanted.kind is Kind.MAP:
            key, value = wanted.parameters
            entries = [f"{self.draw(key, 0)}: {self.draw(value, depth - 2)}" for _ in range(choose((0, 1, 2)))]
            return f"{{{', '.join(entries)}}}"
        if wanted.is_optional:
            inner = self.draw(wanted.parameters[0], depth - 1)
            return choose((f"optional.of({inner})", "optional.none()", f"{A}.?model", f"{A}.?numa"))
        if wanted.kind is Kind.TYPE:
            return choose(("int", "string", f"type({choose(_ANY)})"))
        variables = [name for name, each in self._variables if each == wanted]
        if variables and self._random.random() < 0.5:
            return choose(variables)
        return choose(_ANY if self._random.random() < 0.25 else _LEAVES[wanted])

    def _macro(self, wanted: Type, depth: int) -> str:
        element = self._random.choice(_CONCRETE)
        name = f"x{len(self._variables)}"
        loops = wanted == types.BOOL or wanted.kind is Kind.LIST
        over = self.draw(types.list_of(element) if loops else element, depth - 1)
        self._variables.append((name, element))
        inner = self.draw(wanted.parameters[0] if wanted.kind is Kind.LIST else wanted, depth - 1)
        self._variables.pop()
        if wanted == types.BOOL:
            return f"{over}.{self._random.choice(('all', 'exists', 'exists_one'))}({name}, {inner})"
        return f"{over}.map({name}, {inner})" if loops else f"cel.bind({name}, {over}, {inner})"

    def _call(self, wanted: Type, depth: int) -> str:
        for _ in range(_TRIES):
            overload = self._random.choice(_OVERLOADS)
            bound: dict[Type, Type] = {}
            if _matches(overload.result, wanted, bound):
                arguments = [self.draw(self._fill(each, bound), depth - 1) for each in overload.arguments]
                return _write(overload, arguments)
        return self._leaf(wanted, depth)

    def _fill(self, declared: Type, bound: dict[Type, Type]) -> Type:
        """Replace the type parameters of a declaration, free ones by any type."""
        if declared.kind is Kind.PARAMETER:
            return bound.setdefault(declared, self._random.choice(_CONCRETE))
        return Type(declared.kind, declared.name, tuple(self._fill(each, bound) for each in declared.parameters))


def _matches(declared: Type, wanted: Type, bound: dict[Type, Type]) -> bool:
    if declared.kind is Kind.PARAMETER:
        return bound.setdefault(declared, wanted) == wanted
    return (
        declared.kind is wanted.kind
        and declared.name == wanted.name
        and len(declared.parameters) == len(wanted.parameters)
        and all(_matches(a, b, bound) for a, b in zip(declared.parameters, wanted.parameters, strict=True))
    )


def _write(overload: Overload, arguments: list[str]) -> str:
    function = overload.function
    if function in _OPERATORS:
        return f"({arguments[0]} {_OPERATORS[function]} {arguments[1]})"
    if function in ("!_", "-_"):
        return f"{function[0]}({arguments[0]})"
    if function == "_?_:_":
        return f"({arguments[0]} ? {arguments[1]} : {arguments[2]})"
    if function in ("_[_]", "_[?_]"):
        return f"{arguments[0]}[{'?' if function == '_[?_]' else ''}{arguments[1]}]"
    if overload.is_member:
        return f"{arguments[0]}.{function}({', '.join(arguments[1:])})"
    return f"{function}({', '.join(arguments)})"
