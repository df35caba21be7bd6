"""What `top` shows of nodes and pods, and in which order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from herodotus_cli.render.screen_elements import display_width
from herodotus_cli.top.cluster import (
    Amount,
    arrange_nodes,
    build_state,
    list_groupings,
    list_placements,
    read_node,
    read_pod,
    select_pods,
)
from herodotus_cli.top.rows import RowWriter
from tests.cli.top.fakes import NODES, NOW, PODS, node, pod

ROWS = [row for row in map(read_pod, PODS) if row]
STATE = build_state(map(read_node, NODES), ROWS, has_all_pods=True)
GIB = 1 << 30


def test_node_has_requests_of_its_pods_and_marks() -> None:
    assert [(row.name, row.cpu, row.memory, row.pods, row.marks) for row in STATE.nodes] == [
        ("worker-1", Amount(4000, 4000), Amount(2 * GIB, 16 * GIB), Amount(2, 110), ()),
        ("worker-2", Amount(0, 4000), Amount(0, 16 * GIB), Amount(0, 110), ("cordoned",)),
        ("worker-10", Amount(500, 4000), Amount(GIB, 16 * GIB), Amount(1, 110), ("gpu=true:NoSchedule",)),
    ]


def test_ended_pod_requests_nothing() -> None:
    assert read_pod(pod("done", "worker-1") | {"status": {"phase": "Succeeded"}}) is None


@pytest.mark.parametrize(
    ("sort", "grouping", "search", "names"),
    [
        ("name", "none", "", ["worker-1", "worker-2", "worker-10"]),
        ("cpu", "none", "", ["worker-1", "worker-10", "worker-2"]),
        ("name", "zone", "", ["zone-a", "worker-1", "worker-2", "zone-b", "worker-10"]),
        ("name", "group", "", ["(none)", "worker-1", "worker-2", "worker-10"]),
        ("name", "team", "", ["(none)", "worker-2", "worker-10", "green", "worker-1"]),
        ("name", "none", "team=gr", ["worker-1"]),
        ("name", "none", "GPU", ["worker-10"]),
        ("name", "none", "cordon", ["worker-2"]),
        ("name", "zone", "zone-b", ["zone-b", "worker-10"]),
    ],
)
def test_nodes_are_sorted_grouped_and_searched(sort: str, grouping: str, search: str, names: list[str]) -> None:
    assert [row.name for row in arrange_nodes(STATE.nodes, sort=sort, grouping=grouping, search=search)] == names


def test_nodes_are_grouped_by_labels_that_several_share() -> None:
    rows = [*STATE.nodes, STATE.nodes[0]._replace(name="worker-3")]
    rows = [row._replace(labels={**row.labels, "kubernetes.io/hostname": row.name}) for row in rows]
    assert list_groupings(rows) == ["none", "zone", "group", "team", "topology.kubernetes.io/zone"]


def test_zone_has_the_sum_of_its_nodes() -> None:
    zone = arrange_nodes(STATE.nodes, sort="name", grouping="zone", search="")[0]
    assert (zone.cpu, zone.pods, zone.marks, zone.members) == (Amount(4000, 8000), Amount(2, 220), ("1 cordoned",), 2)


def test_pods_are_filtered_by_namespace_and_search() -> None:
    assert [p.name for p in select_pods(ROWS, namespace="shop", search="")] == ["web-0", "job-0"]
    assert [p.name for p in select_pods(ROWS, namespace="", search="web")] == ["web-0"]


def test_placements_are_the_newest_first() -> None:
    later = ROWS[2]._replace(placed_at="2026-01-02T03:04:00Z")
    assert [p.name for p in list_placements([ROWS[0], later], 1)] == ["job-0"]


@pytest.mark.parametrize("width", [79, 114, 115, 150, 199])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    writer = RowWriter(width, NOW + timedelta(days=400), blocks=True)
    long = build_state([read_node(node("名" * 60, "z" * 80, unschedulable=True))], ROWS, has_all_pods=True).nodes[0]
    rows = [*map(writer.node, [*STATE.nodes, long]), *map(writer.pod, ROWS), *map(writer.placement, ROWS)]
    assert {sum(display_width(text) for text, _ in row) for row in rows} <= {width}


def test_bar_says_what_its_number_says() -> None:
    row = RowWriter(99, NOW, blocks=True).node(STATE.nodes[2])
    assert "".join(text for text, _ in row).split() == (
        ["worker-10", "█░░░░░░░░░", "12%", "█░░░░░░░░░", "6%", "1/110", "gpu=true:NoSchedule"]
    )


def test_unknown_requests_are_shown_as_unknown() -> None:
    row = RowWriter(79, NOW, blocks=True, knows_requests=False).node(STATE.nodes[0])
    assert "".join(text for text, _ in row).split() == ["worker-1", "?", "of", "4", "?", "of", "16Gi", "?/110"]


def test_terminal_without_block_characters_gets_ascii() -> None:
    row = RowWriter(79, NOW, blocks=False).node(STATE.nodes[1])
    assert "".join(text for text, _ in row).isascii()


def test_control_characters_do_not_reach_the_terminal() -> None:
    row = RowWriter(79, NOW, blocks=True).node(STATE.nodes[0]._replace(name="a\x1b[31mb"))
    assert "\x1b" not in "".join(text for text, _ in row)
