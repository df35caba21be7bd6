"""What `--explain-events` adds to events: a suggestion that discloses nothing, where the decision is, not too often."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from herodotus_record.model import Decision, Reason, Suggestion
from scheduler.live import events
from scheduler.live.event_explanations import BURST, MAX_BYTES, RATE, EventExplainer
from tests.builders import a_decision
from tests.scheduler.builders import make_node
from tests.support.clock import Clock
from tests.support.scheduling_loop import LoopWorld, waiting

LOWER = Suggestion("n1", (Reason("set-request", {"resource": "cpu", "from": "8", "to": "4", "container": "main"}),))
UNCORDON = Suggestion("n1", (Reason("uncordon"),))
SELECT = Suggestion("n1", (Reason("set-node-selector", {"key": "zone", "from": "a", "to": "b"}),))
COMMAND = "Decision: kubectl herodotus pod web-0 -n shop"


def decision(*suggestions: Suggestion) -> Decision:
    return dataclasses.replace(a_decision(pod="web-0"), suggestions=suggestions)


def test_the_suggestion_and_the_command() -> None:
    said = EventExplainer().explain(decision(LOWER))
    assert said == f"Suggestion: lower the cpu request of container main from 8 to 4. {COMMAND}"


def test_with_a_url_a_link_to_the_decision() -> None:
    found = decision(LOWER)
    said = EventExplainer("https://pages.example.com/").explain(found)
    assert said.endswith(f"Decision: https://pages.example.com/?view=decision&namespace=shop&name={found.id}")


@pytest.mark.parametrize("hidden", [UNCORDON, SELECT], ids=["a node's name", "a node's label"])
def test_what_only_readers_of_nodes_may_see_is_left_out(hidden: Suggestion) -> None:
    explainer = EventExplainer()
    assert explainer.explain(decision(hidden)) == COMMAND
    assert explainer.explain(decision(hidden, LOWER)).startswith("Suggestion: lower the cpu request")


def test_texts_are_rare() -> None:
    clock = Clock(50.0)
    explainer = EventExplainer(clock=clock)
    found = decision(LOWER)
    assert all(explainer.explain(found) for _ in range(int(BURST)))
    assert explainer.explain(found) == ""
    clock.now_s += 2 / RATE
    assert [bool(explainer.explain(found)) for _ in range(3)] == [True, True, False]


def test_the_note_fits_an_event_and_keeps_the_explanation() -> None:
    explanation = EventExplainer().explain(decision(LOWER))
    *_, note = events.build_failed_event("0/9 nodes are available: " + "é" * 1000, explanation)
    assert len(note.encode()) <= events.NOTE_LIMIT
    assert note.startswith("0/9 nodes are available: ééé")
    assert note.endswith(f" ... {explanation}")


def test_a_long_suggestion_is_left_out() -> None:
    long = Suggestion("n1", (Reason("remove-pod-affinity", {"key": "k" * MAX_BYTES}),))
    assert EventExplainer().explain(decision(long)) == COMMAND


def test_the_loop_explains_events_only_where_asked(tmp_path: Path) -> None:
    sent = {}
    for explains in (False, True):
        world = LoopWorld(tmp_path / f"spool-{explains}", explains=explains)
        world.start(make_node("n").allocatable(cpu="2", pods="9"), pods=[waiting(cpu="4")])
        world.settle()
        (sent[explains],) = (s for s in world.writes.sent if s[0] == "Unschedulable")
        world.loop.binder.close()
    assert sent[False][1] == "p"
    assert sent[False][2].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert len(sent[False]) == 3, "nothing is added"
    assert sent[True][:3] == sent[False], "the condition's message is kube-scheduler's"
    assert sent[True][3].startswith("Suggestion: lower the cpu request of ")
