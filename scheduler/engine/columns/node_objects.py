"""Columns of Node objects alone, for plugins that run outside a scheduler.

Owns: `NodeObjectColumns`. Does not own: whether a plugin can run on it (`framework.plugin.PluginInput`).

Invariant: the columns hold the same values as `NodeColumns` to which the same nodes were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scheduler.engine.columns.declared import NodeColumn
from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.columns.keyed import KeyedColumns
from scheduler.engine.columns.nodes import NodeColumns
from scheduler.engine.columns.resources import Amounts
from scheduler.engine.objects import quantity
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.requests import CPU
from scheduler.engine.objects.types import Node


class MissingInputError(AttributeError):
    """A plugin reads a column, such as the pods on a node, although only Node objects are known.

    The extender service raises it: kube-scheduler sends it Node objects and no pods.
    """


class InvalidAmountError(ValueError):
    """An allocatable amount of a node is not a valid quantity; the message names the resource."""


class NodeObjectColumns(NodeColumns):
    """A read-only view of a list of Node objects as columns, without the pods on the nodes.

    The nodes keep their order. Each column is computed at its first access, because a plugin reads only a few. Reading
    a column that Node objects do not determine raises MissingInputError.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.generation = self.revision = self.node_generation = 0
        self.slots = self._capacity = len(nodes)
        self.nodes = list(nodes)
        self._objects = nodes
        self.live = np.ones(self.slots, np.bool_)
        self._cache, self._cache_generation = {}, (0, self.slots)

    def __getattr__(self, name: str) -> Any:
        declared = vars(NodeColumns).get(name)
        if not isinstance(declared, NodeColumn) or declared.read is None:
            raise MissingInputError(f"Node objects alone do not determine {name.lstrip('_')}")
        declared.fit(self, self.slots, self._capacity)
        values = vars(self)[name]
        for slot, node in enumerate(self._objects):
            declared.set(values, slot, declared.read(node))
        return values

    @lazy
    def names(self) -> list[str]:
        return [node.metadata.name for node in self._objects]

    @lazy
    def uids(self) -> list[str]:
        return [node.metadata.uid for node in self._objects]

    @lazy
    def index(self) -> dict[str, int]:
        return {name: slot for slot, name in enumerate(self.names)}

    def annotation(self, key: str) -> DictionaryColumn[str | None]:
        return self._annotations.column(key)

    @lazy
    def _labels(self) -> KeyedColumns:
        return KeyedColumns(self.slots, (node.metadata.labels or {} for node in self._objects))

    @lazy
    def _annotations(self) -> KeyedColumns:
        return KeyedColumns(self.slots, (node.metadata.annotations or {} for node in self._objects))

    def allocatable(self, resource: str) -> Amounts:
        """Return each node's allocatable amount of a resource in base units. Raises InvalidAmountError."""
        return self.cached(("allocatable", resource), lambda: self._parse_allocatable(resource))

    def allocatable_of(self, resources: Iterable[str]) -> Amounts:
        return np.array([self.allocatable(resource) for resource in resources], np.int64).reshape(-1, self.slots)

    def _parse_allocatable(self, resource: str) -> Amounts:
        scale = quantity.MILLI if resource == CPU else quantity.WHOLE
        amounts = [(node.status.allocatable or {}).get(resource, 0) for node in self._objects]
        try:
            parsed = {amount: quantity.scaled_value(amount, scale) for amount in set(amounts)}
        except ValueError as e:
            raise InvalidAmountError(f"{resource}: {e}") from e
        return np.fromiter(map(parsed.__getitem__, amounts), np.int64, self.slots)
