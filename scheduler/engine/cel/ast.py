"""The syntax tree of an expression after macros are expanded, and the position of each node in the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.engine.cel.types import DYN, Type


@dataclass(slots=True, eq=False)
class Expression:
    """A node of the tree.

    `offset` counts characters from the start of the text. The parser fills in `depth`, the number of operators, fields
    and methods nested in the text of the node, and the type checker fills in `type`.
    """

    offset: int
    depth: int = field(default=0, init=False)
    type: Type = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expression):
    """A constant: None, bool, int, Uint, float, str or bytes."""

    value: object


@dataclass(slots=True, eq=False)
class Ident(Expression):
    """A name. `instance` is set if it names a type."""

    name: str
    instance: Type | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Select(Expression):
    """`operand.name`, or `has(operand.name)` if `test_only`."""

    operand: Expression
    name: str
    test_only: bool = False


@dataclass(slots=True, eq=False)
class Call(Expression):
    """A call of a function or operator. The type checker fills in the overloads that the arguments may match."""

    function: str
    target: Expression | None
    arguments: list[Expression]
    overloads: tuple[str, ...] = field(default=(), init=False)

    @property
    def operands(self) -> list[Expression]:
        """The target, if there is one, and the arguments."""
        return self.arguments if self.target is None else [self.target, *self.arguments]


@dataclass(slots=True, eq=False)
class ListLiteral(Expression):
    """`[a, ?b]`: the indices of optional elements are in `optional`."""

    elements: list[Expression]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class MapEntry:
    """One `key: value` of a map; `?key: value` is optional."""

    offset: int
    key: Expression
    value: Expression
    optional: bool


@dataclass(slots=True, eq=False)
class MapLiteral(Expression):
    """A map with the given entries."""

    entries: list[MapEntry]


@dataclass(slots=True, eq=False)
class StructLiteral(Expression):
    """`Name{field: value}`, an object with fields."""

    name: str
    values: list[Expression]


@dataclass(slots=True, eq=False)
class Comprehension(Expression):
    """A loop over a list or map, which macros expand to.

    `accumulator` starts as `initial` and becomes `step` for each element while `condition` holds; `result` is the value
    of the whole. `second` is the second iteration variable or empty. A local variable (`cel.bind`) is a loop over an
    empty list.
    """

    range: Expression
    variable: str
    second: str
    accumulator: str
    initial: Expression
    condition: Expression
    step: Expression
    result: Expression

    @property
    def is_binding(self) -> bool:
        """Whether the loop only binds a local variable."""
        return (
            isinstance(self.range, ListLiteral)
            and not self.range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accumulator != ACCUMULATOR
        )


ACCUMULATOR = "__result__"


def copy_tree(node: Expression) -> Expression:
    """Return a copy of a tree that shares no node with it."""
    if isinstance(node, Ident):
        return Ident(node.offset, node.name)
    if isinstance(node, Select):
        return Select(node.offset, copy_tree(node.operand), node.name, node.test_only)
    if isinstance(node, Call):
        target = copy_tree(node.target) if node.target else None
        return Call(node.offset, node.function, target, [copy_tree(a) for a in node.arguments])
    if isinstance(node, ListLiteral):
        return ListLiteral(node.offset, [copy_tree(e) for e in node.elements], node.optional)
    if isinstance(node, MapLiteral):
        entries = [MapEntry(e.offset, copy_tree(e.key), copy_tree(e.value), e.optional) for e in node.entries]
        return MapLiteral(node.offset, entries)
    if isinstance(node, StructLiteral):
        return StructLiteral(node.offset, node.name, [copy_tree(v) for v in node.values])
    if isinstance(node, Comprehension):
        parts = (node.initial, node.condition, node.step, node.result)
        initial, condition, step, result = map(copy_tree, parts)
        loop = copy_tree(node.range), node.variable, node.second, node.accumulator
        return Comprehension(node.offset, *loop, initial, condition, step, result)
    assert isinstance(node, Literal)
    return Literal(node.offset, node.value)


def children(node: Expression) -> list[Expression]:
    """Return the nodes directly below a node."""
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, Call):
        return node.operands
    if isinstance(node, ListLiteral):
        return node.elements
    if isinstance(node, MapLiteral):
        return [part for entry in node.entries for part in (entry.key, entry.value)]
    if isinstance(node, StructLiteral):
        return node.values
    if isinstance(node, Comprehension):
        return [node.range, node.initial, node.condition, node.step, node.result]
    return []
