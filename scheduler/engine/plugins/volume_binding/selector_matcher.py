"""Evaluates node selectors to slots: node affinity of volumes, topologies of classes and of capacities.

A selector for one of many values, such as a local volume's host name, costs one comparison of a column.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns, match_node_requirement
from scheduler.engine.framework.interface import Mask
from scheduler.engine.objects import selectors
from scheduler.engine.objects.selectors import InvalidSelectorError, is_valid
from scheduler.engine.objects.storage import TopologyTerm
from scheduler.engine.objects.types import LabelSelector, NodeSelector, NodeSelectorTerm

Slots = NDArray[np.intp]


class SelectorMatcher:
    """An evaluator of node selectors and label selectors on the labels of all nodes of `nodes`.

    It evaluates each distinct node affinity of volumes once.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._known: dict[bytes, Slots] = {}
        self._all_slots = np.arange(nodes.slots)

    def match_affinity(self, required: NodeSelector | None) -> Slots:
        """Return the slots of the nodes that match a volume's required node affinity; all slots for None."""
        if required is None:
            return self._all_slots
        key = msgspec.msgpack.encode(required)
        slots = self._known.get(key)
        if slots is None:
            slots = self._known[key] = np.flatnonzero(self._match_any(required.node_selector_terms or ()))
        return slots

    def match_topologies(self, terms: Iterable[TopologyTerm] | None) -> Mask:
        """Return a mask of the nodes in the allowed topologies of a storage class; all nodes if it has none.

        A term without requirements matches no node.
        """
        masks = [
            np.logical_and.reduce([self._match_values(r.key, r.values or ()) for r in term.match_label_expressions])
            for term in terms or ()
            if term.match_label_expressions
        ]
        if not terms:
            return np.ones(self._nodes.slots, np.bool_)
        return np.logical_or.reduce(masks) if masks else np.zeros(self._nodes.slots, np.bool_)

    def match_labels(self, selector: LabelSelector | None) -> Slots:
        """Return the slots of the nodes that match a label selector; no slots if it is None or malformed."""
        if selector is None:
            return self._all_slots[:0]
        try:
            selectors.validate_selector(selector)
        except InvalidSelectorError:
            return self._all_slots[:0]
        matches = np.ones(self._nodes.slots, np.bool_)
        for key, value in (selector.match_labels or {}).items():
            matches &= self._match_values(key, (value,))
        for requirement in selector.match_expressions or ():
            matches &= match_node_requirement(self._nodes.label(requirement.key), self._nodes.slots, requirement)
        return np.flatnonzero(matches)

    def to_mask(self, slots: Slots) -> Mask:
        """Return a mask of all node slots that is True for the given slots."""
        mask = np.zeros(self._nodes.slots, np.bool_)
        mask[slots] = True
        return mask

    def _match_any(self, terms: Iterable[NodeSelectorTerm]) -> Mask:
        """Return a mask of the nodes that match any of the terms. An empty or malformed term matches none."""
        matches = np.zeros(self._nodes.slots, np.bool_)
        for term in terms:
            if selectors.is_empty_term(term) or not is_valid(term):
                continue
            # upstream matches a volume against a node without a name, for which it skips matchFields
            here = np.ones(len(matches), np.bool_)
            for requirement in term.match_expressions or ():
                here &= match_node_requirement(self._nodes.label(requirement.key), self._nodes.slots, requirement)
            matches |= here
        return matches

    def _match_values(self, key: str, values: Iterable[str]) -> Mask:
        return self._nodes.label(key).among(self._nodes.slots, values)
