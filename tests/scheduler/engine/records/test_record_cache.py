"""Parts of records that are not made again equal those that would be, whatever happens between two records."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herodotus_record import codec
from herodotus_record.codec import fill_derived
from herodotus_record.model import Decision, Evaluation, NodeRows, NodeTable, Reason, Times
from scheduler.config import Configuration, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, Origin, RecordIdentity
from scheduler.engine.records.record_cache import CachedRecordColumn, EvaluationParts, RecordPartCache
from scheduler.offline.evaluate import NoCluster
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, make_node, make_pod

NODES = 120
Rows = list[tuple[Any, ...]]
ZONE = "topology.kubernetes.io/zone"


def a_node(name: str, rng: random.Random) -> NodeBuilder:
    node = make_node(name).allocatable(cpu=rng.choice(["2", "64"]), memory="64Gi", pods="9").zone(rng.choice("abc"))
    return node.taint("maintenance") if rng.random() < 0.1 else node


def a_spread(when: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}
    return {"topologySpreadConstraints": [rule]}


def a_pod(name: str, rng: random.Random) -> PodBuilder:
    """One of few templates; of the last one no node has room."""
    pod, template = make_pod(name).label("app", "web").request(cpu="1", memory="1Gi"), rng.randrange(5)
    if template == 0:
        return pod
    return (
        pod.with_spec(**a_spread(("DoNotSchedule", "ScheduleAnyway")[template % 2]))
        if template < 4
        else pod.request(cpu="99")
    )


def something_happens(columns: NodeColumns, rng: random.Random, number: int) -> None:
    """To pods or nodes; mostly nothing does."""
    names = [name for name, node in zip(columns.names, columns.nodes, strict=True) if node is not None]
    event, name = rng.randrange(12), rng.choice(names)
    pods = columns.pods[columns.index[name]]
    if event == 0:
        columns.set_node(a_node(name, rng).obj())
    elif event == 1:
        columns.set_node(a_node(f"new-{number}", rng).obj())
    elif event == 2:
        columns.remove_node(name)
    elif event == 3 and pods:
        columns.remove_pod(next(iter(pods)), name)


@pytest.mark.parametrize("seed", range(3))
def test_spool_after_random_events_equals_records_built_from_scratch(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    columns = columns_of([a_node(f"node-{i}", rng) for i in range(NODES)])
    plugins = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), time.monotonic)
    recorder = Recorder(
        lambda incarnation: Spool(tmp_path, incarnation), Origin("cluster", "me"), "0", notes=(Reason("marked"),)
    )
    expected: list[tuple[Decision, Rows]] = []
    for number in range(250):
        something_happens(columns, rng, number)
        pod, snapshot = a_pod(f"p{number}", rng).info(), Snapshot.from_columns(columns)
        result = schedule(plugins, pod, snapshot, number)
        attempt = AttemptData(
            pod, 1, "test", snapshot, result, Times(1, 2, number, dict(result.trace.phases_s)), number
        )
        made = recorder.record_decision(attempt)
        identity = RecordIdentity(made.id, made.key, made.sequence, made.scheduler)
        again = build.decision(attempt, identity, notes=(Reason("marked"),))
        expected.append((fill_derived(again), whole_table(columns)))
        if result.chosen is not None:
            columns.add_pod(replace(pod, running=True), columns.names[result.chosen])
    recorder.close()
    kinds, table, read = [], NodeTable(), []
    for segment in sorted(tmp_path.glob("*/*.seg")):
        kinds += [frame[codec.KIND_AT] for _, frame in codec.split_frames(segment.read_bytes())]
    for frame in spools.frames(tmp_path):
        if isinstance(frame, NodeRows):
            table.apply(frame)
        elif isinstance(frame, Decision):
            read.append((frame, rows_of(table)))
    assert kinds.count(codec.DELTA) > 150, "what is compared here is what was said by differences"
    assert [decision for decision, _ in read] == [decision for decision, _ in expected]
    assert [rows for _, rows in read] == [rows for _, rows in expected]


def whole_table(columns: NodeColumns) -> Rows:
    table = NodeTable()
    table.apply(build.node_rows(columns, range(columns.slots), "cluster", "incarnation", -1))
    return rows_of(table)


def rows_of(table: NodeTable) -> Rows:
    """Name, generation and amounts of each slot. What is 0 may be left out of a frame."""
    amounts = ([{r: n for r, n in row.items() if n} for row in rows] for rows in (table.allocatable, table.requested))
    return list(zip(table.names, table.since, *amounts, strict=True))


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({3: 7}, False),
        ({3: 300, 9: -1}, False),
        ({i: i % 100 for i in range(200)}, False),
    ],
    ids=["none", "a row", "of a wider type", "most rows"],
)
def test_a_column_is_the_one_before_with_the_rows_that_changed(changes: dict[int, int], same: bool) -> None:
    narrowed, before = CachedRecordColumn(), np.arange(200) % 50
    first = narrowed.update(before)
    now = before.copy()
    for row, value in changes.items():
        now[row] = value
    column = narrowed.update(now)
    assert (column.tolist(), first.tolist()) == (now.tolist(), before.tolist())
    assert (column is first) == same
    assert narrowed.update(now[:100]).tolist() == now[:100].tolist()


def test_a_part_is_made_again_of_another_object_alone() -> None:
    made: list[tuple[int, object]] = []

    def count(i: int, source: object) -> int:
        made.append((i, source))
        return len(made)

    series: RecordPartCache[object, int] = RecordPartCache(count)
    one, other = object(), object()
    first = series.update([one, one])
    assert first == (1, 2)
    assert series.update([one, one]) is first
    assert series.update([one, other]) == (1, 3)
    assert series.update([one]) == (4,), "of another length everything is"
    assert made == [(0, one), (1, one), (1, other), (0, one)]


def test_counts_of_what_was_evaluated() -> None:
    here = EvaluationParts(np.array([Evaluation.EVALUATED, Evaluation.ABSENT, Evaluation.NOT_SAMPLED], np.uint8))
    codes = np.array([0, 0, 2], np.uint8)
    assert (here.nodes, here.count, here.feasible(codes), here.feasible(codes + 1)) == (2, 1, 1, 0)
