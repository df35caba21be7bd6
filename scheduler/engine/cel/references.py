"""Finds which values of a device an expression reads, so that equal devices are evaluated once."""

from __future__ import annotations

from typing import Final

from scheduler.engine.cel.ast import Call, Comprehension, Expression, Ident, Literal, Select, children
from scheduler.engine.cel.device import Reference

_TABLES: Final = (("attributes",), ("capacity",))  # a variable bound to an empty one has no empty domains


def find_references(root: Expression) -> tuple[Reference, ...]:
    """Return the paths of the device's parts that a checked tree reads, without paths below others in the result."""
    references: set[Reference] = set()
    _visit(root, {"device": ()}, references)
    return tuple(sorted(r for r in references if not any(r[:n] in references for n in range(len(r)))))


def _visit(node: Expression, paths: dict[str, Reference | None], references: set[Reference]) -> None:
    """Add the paths of the device's parts that a node reads to `references`.

    `paths` maps each variable to the path of the part that is its value, or to None for any other value.
    """
    path = _path(node, paths)
    if path is not None:
        references.add(path)
        return
    if not isinstance(node, Comprehension):
        for child in children(node):
            _visit(child, paths, references)
        return
    _visit(node.range, paths, references)
    if node.is_binding:
        bound = _path(node.initial, paths)
        if bound is None or bound in _TABLES:
            _visit(node.initial, paths, references)
            bound = None
        _visit(node.result, {**paths, node.accumulator: bound}, references)
        return
    _visit(node.initial, paths, references)
    inner = {**paths, node.accumulator: None}
    _visit(node.result, inner, references)
    inner = {**inner, node.variable: None, node.second: None}
    _visit(node.condition, inner, references)
    _visit(node.step, inner, references)


def _path(node: Expression, paths: dict[str, Reference | None]) -> Reference | None:
    """Return the path of the device's part that a node selects with constant names, or None for another node.

    The path ends at an attribute or capacity, even if the node selects a part of its value.
    """
    if isinstance(node, Ident):
        return None if node.instance is not None else paths.get(node.name)
    if isinstance(node, Select):
        above, key = _path(node.operand, paths), node.name
    elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._"):
        last = node.arguments[1]
        if not isinstance(last, Literal) or type(last.value) is not str:
            return None
        above, key = _path(node.arguments[0], paths), last.value
    else:
        return None
    if above is None:
        return None
    return (*above, key) if len(above) < 3 and above[:1] not in (("driver",), ("allowMultipleAllocations",)) else above
