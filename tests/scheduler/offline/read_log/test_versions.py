"""kube-scheduler's log in the forms of each version: the same facts in other messages, keys and orders.

Source: the log calls in pkg/scheduler of v1.31.14, v1.32.13, v1.33.13, v1.34.9, v1.35.6 and v1.36.2.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from herodotus_answers.decision import build_decision_document
from herodotus_record.model import Code, Decision, NodeTable
from scheduler.offline.read_log.reader import LogReader
from tests.scheduler.offline.read_log import klogs

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)
Said = tuple[str, dict[str, Any]]
POD, NODE, VICTIMS = "ns/p", "n1", ("ns/v1", "ns/v2")
START = klogs.attempt_starts(POD)
END = klogs.no_fit(POD, "0/2 nodes are available: 2 Insufficient cpu.")
TARGET = ("the target node for the preemption is determined", {"pod": POD, "node": NODE})
BY_THE_ATTEMPT = {"pod": POD, "preemptor": POD, "node": NODE}  # keys of a line that the attempt's logger writes
IN_BACKGROUND = {"preemptor": POD, "node": NODE}
EVICTED, GONE = "Preemptor Pod preempted victim Pod", "Victim Pod is already deleted"
TERMINATING = "Victim Pod is already being deleted, skipping the API call for it"
ANNOUNCED = ("Start the preemption asynchronously", IN_BACKGROUND | {"numVictims": 2})

PREEMPTIONS: dict[str, list[Said]] = {
    "v1.31": [
        START,
        *((EVICTED, BY_THE_ATTEMPT | {"victim": victim}) for victim in VICTIMS),
        END,
    ],
    "v1.31, a victim waiting on Permit": [
        START,
        ("Preemptor pod rejected a waiting pod", BY_THE_ATTEMPT | {"waitingPod": VICTIMS[0]}),
        (EVICTED, BY_THE_ATTEMPT | {"victim": VICTIMS[1]}),
        END,
    ],
    "v1.32": [
        START,
        TARGET,
        (EVICTED, BY_THE_ATTEMPT | {"victim": VICTIMS[0]}),
        (GONE, BY_THE_ATTEMPT | {"victim": VICTIMS[1]}),
        END,
    ],
    "v1.33 and v1.34": [
        START,
        TARGET,
        END,
        ANNOUNCED,
        (EVICTED, IN_BACKGROUND | {"victim": VICTIMS[0]}),
        (GONE, IN_BACKGROUND | {"victim": VICTIMS[1]}),
    ],
    "v1.35": [
        START,
        TARGET,
        (TERMINATING, IN_BACKGROUND | {"victim": VICTIMS[0]}),
        END,
        (ANNOUNCED[0], ANNOUNCED[1] | {"numVictimsToDelete": 1}),
        (EVICTED, IN_BACKGROUND | {"victim": VICTIMS[1]}),
    ],
    "v1.36": [
        START,
        TARGET,
        END,
        (ANNOUNCED[0], ANNOUNCED[1] | {"numVictimsToDelete": 2}),
        ("Preemptor preempted a waiting pod", IN_BACKGROUND | {"preemptorType": "pod", "waitingPod": VICTIMS[0]}),
        ("Preemptor rejected a pod in preBind", IN_BACKGROUND | {"preemptorType": "pod", "podInPreBind": VICTIMS[1]}),
    ],
}
FORMS = pytest.mark.parametrize("form", [klogs.text, klogs.as_json], ids=["text", "json"])


def read(said: list[Said], form: Callable[..., str] = klogs.text) -> list[Decision]:
    lines = (form(message, at_ms, **pairs) for at_ms, (message, pairs) in enumerate(said))
    return [each.decision for each in LogReader(now=lambda: NOW).all(lines)]


@FORMS
@pytest.mark.parametrize("said", PREEMPTIONS.values(), ids=PREEMPTIONS)
def test_node_and_victims_of_a_preemption_are_read(said: list[Said], form: Callable[..., str]) -> None:
    (found,) = read(said, form)
    assert found.preemption is not None
    assert (found.preemption.nominated_node, found.preemption.candidates[0].victims) == (NODE, VICTIMS)
    assert [note.code for note in found.notes if note.code.startswith("log-victims")] == []


@pytest.mark.parametrize("version", ["v1.31", "v1.32"])
def test_victims_are_read_where_the_start_of_the_attempt_is_not_logged(version: str) -> None:
    (found,) = read(PREEMPTIONS[version][1:])  # as with -v=2
    assert found.preemption is not None
    assert found.preemption.candidates[0].victims == VICTIMS


def test_victims_of_an_attempt_are_not_those_of_the_next() -> None:
    placed = [START, klogs.bound(POD, NODE, 2, 1)]
    preemptions = [found.preemption for found in read([*PREEMPTIONS["v1.31"], *placed])]
    assert [made and made.candidates[0].victims for made in preemptions] == [VICTIMS, None]


@FORMS
@pytest.mark.parametrize(
    ("message", "key"),
    [
        pytest.param("Node doesn't have required label", "label", id="v1.32"),
        pytest.param(
            "Node doesn't have required topology label for spread constraint", "topologyKey", id="v1.33 and later"
        ),
    ],
)
def test_nodes_without_the_label_of_a_spread_constraint_are_read(
    message: str, key: str, form: Callable[..., str]
) -> None:
    line = (message, {"logger": "Filter.PodTopologySpread", "pod": POD, "node": NODE, key: "zone"})
    (found,) = read([START, line, END], form)
    (column,) = found.filters
    verdict = column.verdicts[column.ids[0]]
    assert (column.plugin, verdict.code) == ("PodTopologySpread", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    assert [(reason.code, reason.params) for reason in verdict.reasons] == [("spread-label", {"key": "zone"})]


@pytest.mark.parametrize(
    ("added", "removed"),
    [
        pytest.param(
            "Added node in listed group to NodeTree", "Removed node in listed group from NodeTree", id="v1.31"
        ),
        pytest.param("Added node to NodeTree", "Removed node from NodeTree", id="v1.32 and later"),
    ],
)
def test_nodes_that_are_added_and_removed_are_read(added: str, removed: str) -> None:
    said = [(added, {"node": name, "zone": ""}) for name in ("n1", "n2", "n3")]
    said += [(removed, {"node": "n3", "zone": ""}), START, END]
    reads = list(LogReader(now=lambda: NOW).all(klogs.text(m, at_ms, **pairs) for at_ms, (m, pairs) in enumerate(said)))
    table = NodeTable()
    for each in reads:
        if each.rows is not None:
            table.apply(each.rows)
    document = build_decision_document(reads[-1].decision, (), table)
    assert document["spec"]["evaluation"] == {"n1": "unrecorded", "n2": "unrecorded"}
