"""Estimates the worst cost of an expression, by which the API server refuses selectors that are too complex.

Source: cel-go v0.26 (checker/cost.go, ext/lists.go, ext/sets.go) and Kubernetes v1.36
(apiserver/pkg/cel/library/cost.go, dynamic-resource-allocation/cel/compile.go). Amounts are ranges of unsigned integers
that stop at 2^64 - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.engine.cel import types
from scheduler.engine.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)
from scheduler.engine.cel.types import Kind, Type
from scheduler.engine.cel.values import UINT64_MAX

_STRING_FACTOR: Final = 0.1
_PATTERN_FACTOR: Final = 0.25
_LIST_COST: Final = 10
_MAP_COST: Final = 30
_STRUCT_COST: Final = 40
_NAME_FORMAT_PATTERN: Final = 128  # characters of the longest pattern of a named format
_FORMAT_SIZE: Final = 64
_AUTHORIZATION_COST: Final = 350_000

# The largest sizes of what `device` contains, from the validation of ResourceSlices.
_DOMAIN_LENGTH: Final = 63
_IDENTIFIER_LENGTH: Final = 32
_ENTRIES: Final = 32
_VALUE_LENGTH: Final = 64


class Range(NamedTuple):
    """The least and the greatest amount of a size or cost."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return Range(_cap(self.low + other.low), _cap(self.high + other.high))

    def times(self, other: Range) -> Range:
        return Range(_cap(self.low * other.low), _cap(self.high * other.high))

    def scaled(self, factor: float) -> Range:
        """Return the range with both limits multiplied by a factor and rounded up."""
        return Range(_scale(self.low, factor), _scale(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _cap(amount: int) -> int:
    return min(amount, UINT64_MAX)


def _scale(amount: int, factor: float) -> int:
    return _cap(math.ceil(float(amount) * factor))


def _fixed(amount: int) -> Range:
    return Range(amount, amount)


_NOTHING: Final = _fixed(0)
_ONE: Final = _fixed(1)
_UNKNOWN: Final = Range(0, UINT64_MAX)
_NO_ELEMENT: Final = Range(UINT64_MAX, 0)


class _Entries(NamedTuple):
    """The sizes of the keys and values of a list or map."""

    is_list: bool
    keys: Range
    values: Range

    def union(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.keys.union(other.keys), self.values.union(other.values))


class _Estimate(NamedTuple):
    """The cost of a call without its arguments, and the size of its result."""

    cost: Range
    size: Range | None = None


_Path = tuple[str, ...]


@dataclass
class _Variable:
    """What is known about a variable of a loop or binding."""

    path: _Path
    size: Range | None
    entries: _Entries | None


@dataclass
class _Operand:
    """An argument of a call, or an element of a list, with what is known about its size to estimate the call's cost."""

    type: Type
    path: _Path
    node: Expression | None = None
    size: Range | None = field(default=None)

    @property
    def known_size(self) -> Range:
        """The computed size or, if there is none, the size that is declared for this part of `device`, or any size."""
        return self.size or _declared_size(self.path) or _UNKNOWN


def _declared_size(path: _Path) -> Range | None:
    """Return the limits of the size of a part of `device`, or None if the path leads to no part of `device`."""
    if not path or path[0] != "device":
        return None
    names = path[1:]
    if not names:
        return _NOTHING
    if len(names) == 1 and names[0] in ("driver", "allowMultipleAllocations"):
        return Range(0, _DOMAIN_LENGTH if names[0] == "driver" else 1)
    if names[0] not in ("attributes", "capacity"):
        return None
    if len(names) == 1:
        return Range(0, _ENTRIES)
    if names[1] == "@keys":
        return Range(0, _DOMAIN_LENGTH) if len(names) == 2 else None
    if names[1] not in ("@values", "@items"):
        return None
    if len(names) == 2:
        return Range(0, _ENTRIES)
    is_key = names[2] == "@keys"
    if len(names) == 3 and is_key:
        return Range(0, _IDENTIFIER_LENGTH)
    if len(names) > 3 or is_key:
        return None
    if names[0] == "attributes":
        return Range(0, _VALUE_LENGTH)
    return _NOTHING if names[2] in ("@values", "@items") else None


def estimate_cost(root: Expression) -> int:
    """Return the greatest cost that the evaluation of a checked tree may have."""
    return _Coster().cost(root).high


class _Coster:
    """Walks a tree in the order of its evaluation."""

    def __init__(self) -> None:
        self._paths: dict[int, _Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._variables: dict[str, list[_Variable]] = {}

    def cost(self, node: Expression) -> Range:
        if isinstance(node, Literal):
            return _NOTHING
        if isinstance(node, Ident):
            variable = self._variable(node.name)
            self._paths[id(node)] = variable.path if variable else (node.name,)
            return _ONE
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._binding(node) if node.is_binding else self._loop(node)
        assert isinstance(node, StructLiteral)
        return self._sum(node.values).plus(_fixed(_STRUCT_COST))

    def _sum(self, nodes: list[Expression]) -> Range:
        total = _NOTHING
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    def _variable(self, name: str) -> _Variable | None:
        estimate = self._variables.get(name)
        return estimate[-1] if estimate else None

    def _push(self, name: str, variable: _Variable) -> None:
        self._variables.setdefault(name, []).append(variable)

    def _path(self, node: Expression) -> _Path:
        if isinstance(node, Ident):
            variable = self._variable(node.name)
            if variable is not None:
                return variable.path
        return self._paths.get(id(node), ())

    def _select(self, node: Select) -> Range:
        total = self.cost(node.operand)
        if node.test_only:
            return total
        if node.operand.type.kind in (Kind.MAP, Kind.STRUCT, Kind.PARAMETER):
            total = total.plus(_ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.name)
        return total

    def _list(self, node: ListLiteral) -> Range:
        total = _NOTHING
        element_size = _NO_ELEMENT if node.elements else _NOTHING
        for element in node.elements:
            total = total.plus(self.cost(element))
            element_size = element_size.union(self._size(element) or _UNKNOWN)
        self._entries[id(node)] = _Entries(True, _ONE, element_size)
        return total.plus(_fixed(_LIST_COST))

    def _map(self, node: MapLiteral) -> Range:
        total = _NOTHING
        keys = values = _NO_ELEMENT if node.entries else _NOTHING
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._size(entry.key) or _UNKNOWN)
            values = values.union(self._size(entry.value) or _UNKNOWN)
        self._entries[id(node)] = _Entries(False, keys, values)
        return total.plus(_fixed(_MAP_COST))

    def _binding(self, node: Comprehension) -> Range:
        total = self.cost(node.range).plus(self.cost(node.initial))
        self._push_local(node)
        total = total.plus(self.cost(node.result))
        self._variables[node.accumulator].pop()
        self._copy_sizes(node, node.result)
        return total

    def _push_local(self, node: Comprehension) -> None:
        initial = node.initial
        variable = _Variable(self._path(initial), self._size(initial), self._entry_sizes(initial))
        self._push(node.accumulator, variable)

    def _loop(self, node: Comprehension) -> Range:
        total = self.cost(node.range).plus(self.cost(node.initial))
        self._push_local(node)
        self._push_iteration(node)
        loop = self.cost(node.condition)
        step = self.cost(node.step)
        self._variables[node.variable].pop()
        if node.second:
            self._variables[node.second].pop()
        total = total.plus(self.cost(node.result))
        self._variables[node.accumulator].pop()
        count = self._size(node.range) or _UNKNOWN
        total = total.plus(count.times(step.plus(loop)))
        if isinstance(node.initial, Literal):
            self._set_size(node, self._size(node.initial))
        elif isinstance(node.initial, (ListLiteral, MapLiteral)):
            self._set_size(node, count)
            entries = self._entry_sizes(node.step)
            if entries is not None:
                self._entries[id(node)] = entries
        return total

    def _push_iteration(self, node: Comprehension) -> None:
        entries = self._entry_sizes(node.range)
        is_list = entries.is_list if entries is not None else node.range.type.kind is Kind.LIST
        keys = entries.keys if entries is not None else None
        values = entries.values if entries is not None else None
        path = self._path(node.range)
        if node.second:
            self._push(node.variable, _Variable((*path, "@indices" if is_list else "@keys"), keys, None))
            self._push(node.second, _Variable((*path, "@items" if is_list else "@values"), values, None))
        elif is_list:
            self._push(node.variable, _Variable((*path, "@items"), values, None))
        else:
            self._push(node.variable, _Variable((*path, "@keys"), keys, None))

    def _set_size(self, node: Expression, size: Range | None) -> None:
        if size is not None:
            self._sizes[id(node)] = size

    def _copy_sizes(self, node: Expression, source: Expression) -> None:
        self._set_size(node, self._size(source))
        entries = self._entry_sizes(source)
        if entries is not None:
            self._entries[id(node)] = entries

    def _size(self, node: Expression) -> Range | None:
        """Return the size of a node's value, or None if nothing is known about it."""
        size = self._sizes.get(id(node)) or _literal_size(node)
        if size is not None:
            return size
        declared = _declared_size(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type):
            return _ONE
        variable = self._variable(node.name) if isinstance(node, Ident) else None
        return variable.size if variable is not None else None

    def _entry_sizes(self, node: Expression) -> _Entries | None:
        sizes = self._entries.get(id(node))
        if sizes is None and isinstance(node, Ident):
            variable = self._variable(node.name)
            sizes = variable.entries if variable is not None else None
        return sizes

    def _operand(self, node: Expression) -> _Operand:
        path = self._path(node)
        if path[:1] == (ACCUMULATOR,):
            path = ()
        return _Operand(node.type, path, node, self._size(node))

    def _call(self, node: Call) -> Range:
        if node.function == "dyn" and len(node.arguments) == 1:
            total = _ONE.plus(self.cost(node.arguments[0]))
            self._copy_sizes(node, node.arguments[0])
            return total
        argument_costs = []
        arguments = []
        for argument in node.arguments:
            argument_costs.append(self.cost(argument))
            arguments.append(self._operand(argument))
        if not node.overloads:
            return _NOTHING
        total = _NOTHING
        target = None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._operand(node.target)
        call = Range(UINT64_MAX, 0)
        size: Range | None = None
        for overload in node.overloads:
            cost, result = self._overload_cost(node, overload, target, arguments, argument_costs)
            call = call.union(cost)
            if result is not None:
                size = result if size is None else size.union(result)
            if overload in ("index_list", "index_map"):
                container = node.arguments[0]
                entries = self._entry_sizes(container)
                size = entries.values if entries is not None else None
                below = "@items" if overload == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(container), below)
            if size is None:
                size = self._size(node)
        self._set_size(node, size)
        return total.plus(call)

    def _overload_cost(
        self,
        node: Call,
        overload: str,
        target: _Operand | None,
        arguments: list[_Operand],
        argument_costs: list[Range],
    ) -> _Estimate:
        """Return the cost of a call, including its arguments, if this overload is used, and the size of its result."""
        all_arguments = _NOTHING
        for cost in argument_costs:
            all_arguments = all_arguments.plus(cost)
        estimate = _list_library(overload, target, arguments) or _kubernetes(node.function, overload, target, arguments)
        if estimate is not None:
            return _Estimate(estimate.cost.plus(all_arguments), estimate.size)
        if overload in ("logical_and", "logical_or"):
            left, right = argument_costs
            return _Estimate(Range(left.low, left.plus(right).high))
        if overload == "conditional":
            return self._conditional(node, argument_costs)
        if overload in ("add_string", "add_bytes", "add_list"):
            return self._concatenation(node, overload, arguments, all_arguments)
        estimate = _standard(overload, target, arguments) or _Estimate(_ONE)
        return _Estimate(estimate.cost.plus(all_arguments), estimate.size)

    def _conditional(self, node: Call, costs: list[Range]) -> _Estimate:
        _, chosen, otherwise = node.arguments
        size = (self._size(chosen) or _UNKNOWN).union(self._size(otherwise) or _UNKNOWN)
        one, two = self._entry_sizes(chosen), self._entry_sizes(otherwise)
        if one is not None and two is not None:
            self._entries[id(node)] = one.union(two)
        return _Estimate(costs[0].plus(costs[1].union(costs[2])), size)

    def _concatenation(self, node: Call, overload: str, arguments: list[_Operand], all_arguments: Range) -> _Estimate:
        left, right = arguments
        size = (left.size or _UNKNOWN).plus(right.size or _UNKNOWN)
        one, two = map(self._entry_sizes, node.arguments)
        if one is not None and two is not None:
            self._entries[id(node)] = one.union(two)
        cost = _ONE if overload == "add_list" else size.scaled(_STRING_FACTOR)
        return _Estimate(cost.plus(all_arguments), size)


def _literal_size(node: Expression) -> Range | None:
    if isinstance(node, Literal):
        return _fixed(len(node.value)) if isinstance(node.value, (str, bytes)) else _ONE
    if isinstance(node, ListLiteral):
        return _fixed(len(node.elements))
    return _fixed(len(node.entries)) if isinstance(node, MapLiteral) else None


def _is_scalar(one: Type) -> bool:
    if one.is_optional:
        return _is_scalar(one.parameters[0])
    return one.kind in (Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT)


_COMPARISONS: Final = frozenset(
    f"{order}_{kind}" for order in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")
) | {"equals", "not_equals"}


def _standard(overload: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    """Return the estimate for a call of the standard library, or None if its cost is 1."""
    sizes = [argument.size or _UNKNOWN for argument in arguments]
    if overload == "string_format" and target is not None:
        return _Estimate((target.size or _UNKNOWN).scaled(_STRING_FACTOR))
    if overload == "string_to_bytes":
        return _Estimate(sizes[0].scaled(_STRING_FACTOR), Range(sizes[0].low, sizes[0].high * 4 & UINT64_MAX))
    if overload == "bytes_to_string":
        return _Estimate(sizes[0].scaled(_STRING_FACTOR), Range(sizes[0].low // 4, sizes[0].high))
    if overload == "strings_quote":
        size = Range(sizes[0].low + 2, sizes[0].high * 2 + 2 & UINT64_MAX)
        return _Estimate(sizes[0].scaled(_STRING_FACTOR), size)
    if overload in ("starts_with_string", "ends_with_string"):
        return _Estimate(sizes[0].scaled(_STRING_FACTOR))
    if overload == "in_list":
        return _Estimate(sizes[1].scaled(1))
    if overload == "matches_string" and target is not None:
        text = (target.size or _UNKNOWN).plus(_ONE).scaled(_STRING_FACTOR)
        return _Estimate(text.times(sizes[0].scaled(_PATTERN_FACTOR)))
    if overload == "contains_string" and target is not None:
        return _Estimate((target.size or _UNKNOWN).scaled(_STRING_FACTOR).times(sizes[0].scaled(_STRING_FACTOR)))
    if overload in _COMPARISONS:
        smallest = min(sizes[0].high, sizes[1].high)
        return _Estimate(Range(1 if smallest else 0, smallest).scaled(_STRING_FACTOR))
    return None


def _literal_int(operand: _Operand, default: int) -> int:
    """Return the value of an int literal, 0 if that is negative, or `default` if the operand is no int literal."""
    if not isinstance(operand.node, Literal) or type(operand.node.value) is not int:
        return default
    return max(operand.node.value, 0)


def _new_list(factor: float, size: Range) -> _Estimate:
    return _Estimate(size.scaled(factor).plus(_ONE).plus(_fixed(_LIST_COST)), size)


def _list_library(overload: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    """Return the estimate for a call of the libraries for lists and sets, or None for any other overload."""
    if overload.startswith("list_sets_"):
        size = arguments[0].known_size.times(arguments[1].known_size)
        return _Estimate(size.scaled(2.0 if "equivalent" in overload else 1.0).plus(_ONE))
    if overload == "lists_range":
        return _new_list(1, _fixed(_literal_int(arguments[0], UINT64_MAX)))
    if target is None:
        return None
    if overload == "list_slice":
        start, end = _literal_int(arguments[0], 0), _literal_int(arguments[1], target.known_size.high)
        return _new_list(1, _fixed(end - start & UINT64_MAX))
    if overload == "list_reverse":
        return _new_list(1, target.known_size)
    if overload in ("list_flatten", "list_flatten_int"):
        depth = _literal_int(arguments[0], UINT64_MAX) if arguments else 1
        return _new_list(float(depth), target.known_size)
    if overload == "list_distinct":
        return _new_list(2.0, target.known_size.times(target.known_size))
    if overload.endswith(("_sort", "_sortByAssociatedKeys")):
        keys = (arguments[0] if arguments else target).known_size
        factor = 2.0 + (_STRING_FACTOR if overload.startswith(("list_string_", "list_bytes_")) else 0)
        return _new_list(factor, keys.times(keys))
    return None


_Estimator = Callable[[str, _Operand | None, list[_Operand]], _Estimate | None]


def _element(container: _Operand) -> _Operand | None:
    """Return the element of a list, or the key of a map, as an operand of unknown value; None for another container."""
    if not container.type.parameters:
        return None
    return _Operand(container.type.parameters[0], (*container.path, "@items") if container.path else ())


def _traversal(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    if target is None:
        return None
    element = _element(target)
    if element is None:
        return _Estimate(target.known_size.scaled(_STRING_FACTOR))
    cost = _ONE
    if element.type.kind in (Kind.STRING, Kind.BYTES):
        cost = cost.plus(element.known_size.scaled(_STRING_FACTOR))
    return _Estimate(target.known_size.times(cost))


def _text_of_target(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    if target is None:
        return None
    return _Estimate(target.known_size.scaled(_STRING_FACTOR), target.known_size)


def _parse_argument(function: str, _: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    if not arguments:
        return None
    size = arguments[0].known_size
    return _Estimate(size.scaled(_STRING_FACTOR), size if function == "url" else None)


def _replacement(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    if target is None or len(arguments) < 2:
        return None
    size, old, new = target.known_size, arguments[0].known_size, arguments[1].known_size
    most, kept_most = 0, 0
    if old.low == 0:
        most, kept_most = _cap(size.high + 1), size.high
    elif new.high <= old.low:
        kept_most = size.high
    else:
        most = math.ceil(float(size.high) / float(old.low))
    least, kept_least = 0, 0
    if old.high == 0:
        least, kept_least = _cap(size.low + 1), size.low
    elif old.high <= new.low:
        kept_least = size.low
    else:
        least = math.ceil(float(size.low) / float(old.high))
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return _Estimate(size.scaled(2 * _STRING_FACTOR), result)


def _splitting(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    if target is None:
        return None
    size = target.known_size
    most = size.high
    node = arguments[1].node if len(arguments) > 1 else None
    if isinstance(node, Literal) and type(node.value) is int:
        most = node.value & UINT64_MAX
    return _Estimate(size.scaled(2 * _STRING_FACTOR), Range(0, most))


def _joining(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    if target is None:
        return None
    count = target.known_size
    element = _element(target)
    size = count.times(element.known_size) if element is not None else _NOTHING
    if arguments:
        size = size.plus(arguments[0].known_size.times(Range(max(count.low - 1, 0), max(count.high - 1, 0))))
    return _Estimate(size.scaled(_STRING_FACTOR), size)


def _finding(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    if target is None or not arguments:
        return None
    size = target.known_size
    text = size.plus(_ONE).scaled(_STRING_FACTOR)
    return _Estimate(text.times(arguments[0].known_size.scaled(_PATTERN_FACTOR)), Range(0, size.high))


_ADDRESS: Final = Range(4, 16)


def _containment(overload: str, _: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    cost = _ADDRESS.plus(_ADDRESS).scaled(_STRING_FACTOR)
    if overload.startswith("cidr_contains_cidr"):
        cost = cost.plus(_ADDRESS.scaled(_STRING_FACTOR)).plus(_ONE)
    if overload.endswith("_string"):
        cost = cost.plus(arguments[0].known_size.scaled(_STRING_FACTOR))
    return _Estimate(cost)


def _validation(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    text = arguments[0].known_size.scaled(_STRING_FACTOR)
    return _Estimate(text.scaled(_NAME_FORMAT_PATTERN * _PATTERN_FACTOR))


def _kubernetes_equality(_: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    left, right = arguments
    if left.type != right.type:
        return None
    if left.type in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER):
        return _Estimate(_ONE)
    if left.type == types.FORMAT:
        return _Estimate(Range(1, _FORMAT_SIZE).scaled(_STRING_FACTOR))
    if left.type == types.URL:
        high = right.size.high if right.size is not None else 1
        return _Estimate(Range(1, high).scaled(_STRING_FACTOR))
    return None


_NOMINAL: Final = frozenset(
    {"masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast"}
    | {"isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan"}
    | {"isLessThan", "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname", "getHost"}
    | {"getPort", "getEscapedPath", "getQuery", "serviceAccount", "path", "group", "resource", "subresource"}
    | {"namespace", "name", "allowed", "reason", "error", "errored"}
)
_BY_FUNCTION: Final[dict[str, _Estimator]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _text_of_target),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "url"), _parse_argument),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _parse_argument),
    "replace": _replacement,
    "split": _splitting,
    "join": _joining,
    **dict.fromkeys(("find", "findAll"), _finding),
    **dict.fromkeys(("containsIP", "containsCIDR"), _containment),
    "validate": _validation,
    "_==_": _kubernetes_equality,
}


def _kubernetes(function: str, overload: str, target: _Operand | None, arguments: list[_Operand]) -> _Estimate | None:
    """Return the estimate for a call of a function from Kubernetes' libraries, or None for any other function."""
    if function in _NOMINAL or overload == "cidr_ip":
        return _Estimate(_ONE)
    if function == "check":
        return _Estimate(_fixed(_AUTHORIZATION_COST))
    if function == "ip.isCanonical":
        return _Estimate(arguments[0].known_size.scaled(2 * _STRING_FACTOR))
    estimator = _BY_FUNCTION.get(function)
    if estimator is None:
        return None
    return estimator(overload if function.startswith("contains") else function, target, arguments)
