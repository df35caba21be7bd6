"""Columns changed step by step equal columns built from scratch, whatever the steps were."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.columns import (
    NodeColumns,
    RowCopy,
    RowSubset,
    Snapshot,
    StaleSnapshotError,
    UndeclaredAnnotationError,
    columns_differ,
)
from scheduler.engine.columns.declared import ArrayColumn, NodeColumn
from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.columns.nodes import DECLARED
from scheduler.engine.columns.order import VisitOrder
from scheduler.engine.objects.pod import HostPort
from scheduler.engine.objects.requests import CPU, MEMORY
from tests.scheduler.builders import GIB, MIB, NodeBuilder, PodBuilder, columns_of, make_node, make_pod
from tests.support.examples import examples

NAMES = ("n1", "n2", "n3", "n4")
LABELS = ("disk", "topology.kubernetes.io/zone")
RESOURCES = (CPU, MEMORY, "ephemeral-storage", "pods", "example.com/gpu", "example.com/tpu")
PORTS = (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), HostPort("0.0.0.0", "UDP", 53))
IMAGES = ("a:1", "b:1")


def node(name: str, variant: int) -> NodeBuilder:
    """Nodes that differ in everything columns keep."""
    made = make_node(name).allocatable(cpu=str(1 + variant), memory=f"{1 + variant}Gi")
    if variant & 1:
        made.label("disk", "ssd" if variant & 2 else "hdd").taint("dedicated", str(variant))
        made.image((variant + 1) * MIB, "a:1", "a:1")
    if variant & 2:
        made.zone(f"z{variant}").allocatable({"example.com/gpu": "4"}).image(5 * MIB, "b:1")
    if variant & 4:
        made.cordoned().uid(f"again-{name}")
    return made


def pod(number: int, variant: int, on: str) -> PodBuilder:
    made = make_pod(f"p{number}").node(on).request(cpu=f"{100 * variant}m")
    if variant & 1:
        made.request({"example.com/gpu": "1"}).host_port(80)
    if variant & 2:
        made.request(memory="1Gi").host_port(80, ip="10.0.0.1").host_port(53, "UDP")
    if variant & 4:
        made.request({"example.com/tpu": "2"}).label("app", "x")
    return made


Step = tuple[Any, ...]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NAMES), st.integers(0, 7)),
        st.tuples(st.just("remove node"), st.sampled_from(NAMES)),
        st.tuples(st.just("pod"), st.integers(0, 5), st.integers(0, 7), st.sampled_from(NAMES)),
        st.tuples(st.just("remove pod"), st.integers(0, 5)),
        st.tuples(st.just("look"), st.sampled_from(LABELS)),
    ),
    max_size=30,
)


@dataclass
class ColumnsBesideFacts:
    """Columns under test beside the plain facts."""

    columns: NodeColumns = field(default_factory=NodeColumns)
    nodes: dict[str, NodeBuilder] = field(default_factory=dict)
    pods: dict[int, PodBuilder] = field(default_factory=dict)

    def apply(self, step: Step) -> None:
        match step:
            case ("node", name, variant):
                self.nodes[name] = node(name, variant)
                self.columns.set_node(self.nodes[name].obj())
            case ("remove node", name):
                self.nodes.pop(name, None)
                self.columns.remove_node(name)
            case ("pod", number, variant, on):
                old, new = self.pods.get(number), pod(number, variant, on)
                if old is None:
                    self.columns.add_pod(new.info(), on)
                elif old.spec["nodeName"] == on:
                    self.columns.replace_pod(new.info(), on)
                else:
                    self.columns.remove_pod(f"uid-p{number}", old.spec["nodeName"])
                    self.columns.add_pod(new.info(), on)
                self.pods[number] = new
            case ("remove pod", number):
                old = self.pods.pop(number, None)
                if old is not None:
                    self.columns.remove_pod(f"uid-p{number}", old.spec["nodeName"])
            case ("look", label):
                self.columns.label(label)

    def rebuilt(self) -> NodeColumns:
        """From scratch, in the order in which the nodes stand now."""
        return columns_of(self.nodes.values(), self.pods.values())


def facts(columns: NodeColumns) -> dict[str, Any]:
    """Everything that the columns say, by node name and without slot numbers."""
    live = {columns.names[slot]: int(slot) for slot in np.flatnonzero(columns.live)}

    def each(of: Any) -> dict[str, Any]:
        return {name: of(slot) for name, slot in sorted(live.items())}

    def dictionary(column: DictionaryColumn[Any]) -> dict[str, Any]:
        ids = column.ids(columns.slots)
        return each(lambda slot: column.values[ids[slot]])

    return {
        "allocatable": {r: each(columns.allocatable(r).__getitem__) for r in RESOURCES},
        "requested": {r: each(columns.requested(r).__getitem__) for r in RESOURCES},
        "scoring": {r: each(columns.scoring_requested(r).__getitem__) for r in RESOURCES},
        "declared": {
            column.name: each(column.to_list(getattr(columns, column.name), columns.slots).__getitem__)
            for column in DECLARED
            if column.read
        },
        "labels": {key: dictionary(columns.label(key)) for key in LABELS},
        "uids": each(columns.uids.__getitem__),
        "pods": {name: sorted(columns.pods[slot]) for name, slot in columns.index.items()},
        "ports": {p: sorted(columns.names[slot] for slot in columns.slots_with_port(p)) for p in PORTS},
        "images": {
            name: sorted(columns.names[slot] for slot in image.slots)
            for name in IMAGES
            if (image := columns.images.get(name))
        },
    }


@settings(max_examples=examples(150), deadline=None)
@given(steps)
def test_any_sequence_of_changes_equals_starting_afresh(sequence: list[Step]) -> None:
    world = ColumnsBesideFacts()
    for step in sequence:
        world.apply(step)
    assert facts(world.columns) == facts(world.rebuilt())


@settings(max_examples=examples(150), deadline=None)
@given(steps)
def test_slots_are_stable_reused_and_never_shared(sequence: list[Step]) -> None:
    world = ColumnsBesideFacts()
    most = 0
    for step in sequence:
        before = dict(world.columns.index)
        world.apply(step)
        now = world.columns.index
        kept = before.keys() & now.keys()
        if step[0] in ("node", "remove node", "look"):
            assert {n: now[n] for n in kept} == {n: before[n] for n in kept}
        needed = set(world.nodes) | {p.spec["nodeName"] for p in world.pods.values()}
        assert now.keys() == needed
        assert len(set(now.values())) == len(now)
        assert [world.columns.names[slot] for slot in now.values()] == list(now)
        most = max(most, len(needed))
        assert world.columns.slots <= most + 1  # one more while a pod moves
        free = [slot for slot in range(world.columns.slots) if slot not in now.values()]
        assert all(world.columns.names[slot] == "" and not world.columns.pods[slot] for slot in free)
        assert not any(world.columns.requested(r)[free].any() for r in RESOURCES)
        assert not any(world.columns.allocatable(r)[~world.columns.live].any() for r in RESOURCES)


@settings(max_examples=examples(150), deadline=None)
@given(steps)
def test_every_changed_row_is_reported_with_its_generation(sequence: list[Step]) -> None:
    world = ColumnsBesideFacts()
    columns = world.columns

    def rows() -> list[Any]:
        amounts = [(columns.allocatable(r), columns.requested(r)) for r in RESOURCES]
        return [
            (columns.live[s], columns.uids[s], columns.names[s], [(int(a[s]), int(q[s])) for a, q in amounts])
            for s in range(columns.slots)
        ]

    columns.take_changed_slots()
    for step in sequence:
        old, generation = rows(), columns.generation
        world.apply(step)
        new = rows()
        old += [None] * (len(new) - len(old))
        changed = {slot for slot, (a, b) in enumerate(zip(old, new, strict=True)) if a != b}
        touched = columns.take_changed_slots()
        named = {s for s in changed if columns.live[s] or (old[s] and old[s][0])}  # a ghost's name is not in records
        assert touched == sorted(touched)
        assert named <= set(touched)
        assert columns.generation == generation if not touched else columns.generation > generation
        assert all(generation < columns.since[slot] <= columns.generation for slot in touched)
        assert columns.take_changed_slots() == []


@settings(max_examples=examples(100), deadline=None)
@given(steps)
def test_nodes_are_visited_zones_in_turn_in_order_of_arrival(sequence: list[Step]) -> None:
    world = ColumnsBesideFacts()
    zones: dict[str, list[str]] = {}  # kube-scheduler's node tree, plainly
    for step in sequence:
        world.apply(step)
        if step[0] not in ("node", "remove node"):
            continue
        name = step[1]
        new = None
        if step[0] == "node":
            new = world.nodes[name].json["metadata"].get("labels", {}).get("topology.kubernetes.io/zone", "")
        old = next((z for z, members in zones.items() if name in members), None)
        if old == new:
            continue
        if old is not None:
            zones[old].remove(name)
            if not zones[old]:
                del zones[old]
        if new is not None:
            zones.setdefault(new, []).append(name)
    turns = max((len(members) for members in zones.values()), default=0)
    expected = [members[i] for i in range(turns) for members in zones.values() if i < len(members)]
    assert [world.columns.names[slot] for slot in world.columns.order.slots()] == expected


def test_a_pod_whose_node_is_not_known_counts_as_soon_as_it_appears() -> None:
    columns = NodeColumns()
    columns.add_pod(make_pod().request(cpu="1").node("n").info(), "n")
    assert (columns.live.tolist(), columns.order.slots().tolist()) == ([False], [])

    slot = columns.set_node(make_node("n").obj())

    assert (slot, columns.live.tolist()) == (0, [True])
    assert (int(columns.requested(CPU)[slot]), int(columns.requested("pods")[slot])) == (1000, 1)


def test_pods_of_a_deleted_node_count_again_when_it_returns() -> None:
    columns = columns_of([make_node("n")], [make_pod().request(cpu="1").node("n")])
    columns.remove_node("n")
    assert columns.set_node(make_node("other").obj()) == 1
    assert columns.set_node(make_node("n").obj()) == 0
    assert columns.requested(CPU).tolist() == [1000, 0]


def test_removing_what_is_not_there() -> None:
    columns = columns_of([make_node("n")])
    revision = columns.revision
    columns.remove_node("unknown")
    assert columns.revision == revision
    with pytest.raises(KeyError):
        columns.remove_pod("uid-p", "n")


def test_a_snapshot_is_good_until_the_next_change() -> None:
    columns = columns_of([make_node("n")], [make_pod().node("n").request(cpu="1")])
    snapshot = Snapshot.from_columns(columns)
    columns.label("disk")  # asking is no change
    assert snapshot.nodes is columns

    columns.replace_pod(make_pod().node("n").request(cpu="1").label("app", "new").info(), "n")

    assert snapshot.generation == columns.generation  # no row changed, and yet the pods did
    with pytest.raises(StaleSnapshotError, match="is over"):
        _ = snapshot.nodes


def test_room_for_more_nodes_and_resources_than_at_first() -> None:
    nodes = [make_node(f"n{i}").allocatable({f"example.com/r{i}": str(i)}).label("host", f"n{i}") for i in range(300)]
    columns = columns_of(nodes[:1])
    columns.label("host")
    for each in nodes[1:]:
        columns.set_node(each.obj())
    assert columns.slots == len(columns.live) == 300
    assert [int(columns.allocatable(f"example.com/r{i}")[i]) for i in range(300)] == list(range(300))
    label = columns.label("host")
    assert [label.values[i] for i in label.ids(300)] == [f"n{i}" for i in range(300)]
    assert columns.allocatable("unheard.of/x").tolist() == [0] * 300


def test_an_image_has_the_size_that_its_first_node_reported() -> None:
    columns = columns_of([make_node("a").image(GIB, "i:1"), make_node("b").image(MIB, "i:1")])
    assert _image(columns) == (GIB, {0, 1})

    columns.remove_node("a")
    assert _image(columns) == (GIB, {1})  # while anyone has it

    columns.remove_node("b")
    assert columns.images.get("i:1") is None

    columns.set_node(make_node("c").image(MIB, "i:1").obj())
    assert _image(columns) == (MIB, {0})


def _image(columns: NodeColumns) -> tuple[int, set[int]]:
    image = columns.images.get("i:1")
    assert image is not None
    return image.size, image.slots


def test_zones_of_either_label_the_beta_one_first() -> None:
    beta, new = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    order = VisitOrder()
    for slot, made in enumerate(
        [make_node().label(beta, "a").label(new, "b"), make_node().label(new, "a"), make_node().label(new, "b")]
    ):
        order.set(slot, made.obj())
    assert order.slots().tolist() == [0, 2, 1]  # two in zone a, one in zone b


def test_unused_values_are_dropped() -> None:
    """A cluster that replaces its nodes for years keeps as many hostnames as it has nodes, not as it ever had."""
    column: DictionaryColumn[str | None] = DictionaryColumn(None, 4)
    for i in range(10_000):
        column.set(i % 3, f"node-{i}")
        assert [column.values[n] for n in column.ids(4)].count(f"node-{i}") == 1
    assert len(column.values) < 40
    assert [column.values[n] for n in column.ids(4)] == ["node-9999", "node-9997", "node-9998", None]


def test_reading_an_annotation_that_nodes_do_not_keep_is_an_error() -> None:
    columns = columns_of([make_node("n").annotation("example.org/rack", "r1")])
    columns.kept_annotations = frozenset({"example.org/rack"})
    rack = columns.annotation("example.org/rack")
    assert rack.values[rack.ids(1)[0]] == "r1"
    with pytest.raises(UndeclaredAnnotationError, match="annotation example"):
        columns.annotation("example.org/pdu")


def listed(column: NodeColumn[Any], columns: NodeColumns) -> list[Any]:
    return column.to_list(getattr(columns, column.name), columns.slots)


@pytest.mark.parametrize("column", DECLARED, ids=lambda column: column.name)
def test_subsets_and_copies_have_every_declared_column(column: NodeColumn[Any]) -> None:
    columns = columns_of([node(name, variant) for name, variant in zip(NAMES, (7, 0, 5, 2), strict=True)])
    whole = listed(column, columns)
    for part in (RowSubset(columns, np.array([2, 0])), RowCopy(columns, [2, 0])):
        assert listed(column, part) == [whole[2], whole[0]]


@pytest.mark.parametrize("column", [column for column in DECLARED if column.read], ids=lambda column: column.name)
def test_a_column_that_is_not_current_differs_from_a_rebuilt_one(column: NodeColumn[Any]) -> None:
    columns = columns_of([node(name, variant) for name, variant in zip(NAMES, (7, 0, 5, 2), strict=True)])
    assert columns.find_differences(columns.rebuilt()) == {}
    wrong = not listed(column, columns)[1] if isinstance(column, ArrayColumn) else ("wrong",)
    column.set(getattr(columns, column.name), 1, wrong)
    differences = columns.find_differences(columns.rebuilt())
    assert {name: mask.tolist() for name, mask in differences.items()} == {column.name: [False, True, False, False]}


def test_versions_of_a_node_differ_in_columns_but_not_by_annotations() -> None:
    versions = [node("n1", variant).obj() for variant in range(8)]
    assert [[columns_differ(old, new) for new in versions] for old in versions] == (~np.eye(8, dtype=bool)).tolist()
    assert not columns_differ(make_node("n1").obj(), make_node("n1").annotation("price", "1").obj())
