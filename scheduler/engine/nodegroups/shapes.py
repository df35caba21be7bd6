"""The shape of the nodes of a group: labels, taints and amounts, as far as the cluster tells them.

Owns: `NodeShape`, `FoundGroup`, and how shapes follow from the nodes of a group. Does not own: which nodes belong to a
group (`discovery`), the node objects that are made of a shape (`templates`).

A shape is what most nodes of the same zone and instance type have in common: labels and taints that more than half of
them have (of the first `MAX_COMPARED`), the smallest amount of CPU, memory, storage and pods, and the most frequent
amount of every other resource. Taints that belong to one node, such as those of conditions, are left out, as
cluster-autoscaler does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from herodotus_record.node_taints import TaintKind, find_node_taint
from herodotus_record.units import natural_sort_key
from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects import quantity, requests
from scheduler.engine.objects.types import Amounts, Labels, Requirement, Taint

ZONE: Final = "topology.kubernetes.io/zone"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
HOSTNAME: Final = "kubernetes.io/hostname"
NODES, NODE_CLAIMS, ANNOTATIONS, FILE, REQUIREMENTS = "Nodes", "NodeClaims", "Annotations", "File", "Requirements"

MAX_COMPARED: Final = 15  # nodes of a shape for labels and taints: counting those of 5,000 nodes takes 60 ms
_SMALLEST: Final = (requests.CPU, requests.MEMORY, requests.STORAGE, requests.PODS)


@dataclass(frozen=True)
class NodeShape:
    """A node that a group would add. `zone` and `instance_type` are "" if they are not known.

    `like` is a node of the group whose volume limits, devices and static pods a new node has too, or "". `allocatable`
    is None if the amounts are not known; then only some filters can decide. `has_unknown_labels` is whether the pod
    selects by labels whose values are not known.
    """

    source: str
    zone: str = ""
    instance_type: str = ""
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Amounts | None = None
    like: str = ""
    volume_limits: Mapping[str, int] | None = None
    has_unknown_labels: bool = False


@dataclass
class FoundGroup:
    """A node group, with the shapes of its nodes.

    `requirements` and `own_taints` are those of a NodePool: its nodes may have every shape that they allow. They are
    None for other groups, whose new nodes have a shape that the group has already. `size` is what the group's object
    requests, None if nothing but the nodes is known. `ignored_taints` are the keys of startup taints.
    """

    name: str
    source: str
    nodes: list[str] = field(default_factory=list)
    size: int | None = None
    min_size: int | None = None
    max_size: int | None = None
    limits: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    weight: int | None = None
    startup_taints: tuple[Taint, ...] = ()
    budgets: list[str] = field(default_factory=list)
    shapes: list[NodeShape] = field(default_factory=list)
    requirements: tuple[Requirement, ...] | None = None
    own_taints: tuple[Taint, ...] = ()
    ignored_taints: frozenset[str] = frozenset()

    @property
    def present_size(self) -> int:
        """The size that the group's object requests or, if that is None, the number of the group's nodes."""
        return len(self.nodes) if self.size is None else self.size


def parse_taint(text: str) -> Taint:
    """Return the taint in a text KEY[=VALUE]:EFFECT. Raises ValueError if the text has another form."""
    left, colon, effect = text.strip().rpartition(":")
    key, _, value = left.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(f"{text!r}: expected KEY[=VALUE]:EFFECT")
    return Taint(key=key, value=value, effect=effect)


def parse_amounts(amounts: Amounts | None) -> dict[str, int]:
    """Return amounts in base units (millicores for CPU); empty for None. Raises ValueError for an invalid quantity."""
    return {
        resource: quantity.scaled_value(text, quantity.MILLI if resource == requests.CPU else quantity.WHOLE)
        for resource, text in (amounts or {}).items()
    }


def find_shapes(nodes: NodeColumns, slots: Sequence[int], ignored_taints: frozenset[str]) -> list[NodeShape]:
    """Return one shape for each zone and instance type of the nodes in these slots, by zone and instance type.

    `ignored_taints` are the keys of taints that nodes have only while they start.
    """
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for slot in slots:
        labels = _labels(nodes, slot)
        alike[labels.get(ZONE) or labels.get(BETA_ZONE, ""), labels.get(INSTANCE_TYPE, "")].append(slot)
    return [
        _find_shape(nodes, zone, instance_type, members, ignored_taints)
        for (zone, instance_type), members in sorted(alike.items())
    ]


def _find_shape(
    nodes: NodeColumns, zone: str, instance_type: str, slots: list[int], ignored_taints: frozenset[str]
) -> NodeShape:
    first = sorted(slots, key=lambda slot: natural_sort_key(nodes.names[slot]))[:MAX_COMPARED]
    return NodeShape(
        source=NODES,
        zone=zone,
        instance_type=instance_type,
        labels=_find_common_labels(nodes, first),
        taints=_find_common_taints(nodes, first, ignored_taints),
        allocatable=dict(_combine_amounts(nodes, slots)),
        like=nodes.names[first[0]],
    )


def is_transient(taint: Taint) -> bool:
    """Return whether a taint states a condition of one node, such as starting or being removed, and not its purpose."""
    declared = find_node_taint(taint.key, taint.value)
    return declared is not None and declared.kind is not TaintKind.RESERVED


def _labels(nodes: NodeColumns, slot: int) -> Labels:
    node = nodes.nodes[slot]
    return (node.metadata.labels if node else None) or {}


def _find_common_labels(nodes: NodeColumns, slots: Sequence[int]) -> Labels:
    if len(slots) == 1:
        return {key: value for key, value in _labels(nodes, slots[0]).items() if key != HOSTNAME}
    counts: Counter[tuple[str, str]] = Counter()
    for slot in slots:
        counts.update(_labels(nodes, slot).items())
    return {key: value for (key, value), count in counts.items() if 2 * count > len(slots) and key != HOSTNAME}


def _find_common_taints(nodes: NodeColumns, slots: Sequence[int], ignored: frozenset[str]) -> tuple[Taint, ...]:
    counts: Counter[Taint] = Counter()
    for slot in slots:
        node = nodes.nodes[slot]
        counts.update((node.spec.taints if node else None) or ())
    return tuple(
        taint
        for taint, count in counts.items()
        if 2 * count > len(slots) and not is_transient(taint) and taint.key not in ignored
    )


def _combine_amounts(nodes: NodeColumns, slots: list[int]) -> Iterator[tuple[str, str]]:
    """Yield (resource, quantity) of a new node: the smallest or most frequent amount of the nodes in `slots`."""
    for resource in nodes.list_resources():
        amounts = nodes.allocatable(resource)[slots]
        amount = int(amounts.min()) if resource in _SMALLEST else _most_frequent(amounts.tolist())
        if amount:
            yield resource, f"{amount}m" if resource == requests.CPU else str(amount)


def _most_frequent(amounts: Iterable[int]) -> int:
    counts = Counter(amounts)
    return max(counts, key=lambda amount: (counts[amount], amount))
