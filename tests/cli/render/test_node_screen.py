"""The node screen, from histories that the decisions service counted."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from herodotus_answers.brief import shorten
from herodotus_answers.node import (
    ClusterTotals,
    CounterName,
    HistoryWindow,
    NodeHistoryCounts,
    build_node_history,
    mark_as_evaluated,
)
from herodotus_answers.node_list import build_node_list, list_node_events
from herodotus_cli.render import node, plain_text, terminal
from herodotus_cli.render.screen_elements import ViewOptions
from tests.cli.scenes import NOW
from tests.endpoint.service import Service
from tests.support.answers import as_json
from tests.support.screens import VIEWS, expect

Json = dict[str, Any]


def test_heading_of_window_below_an_hour(node_records: Service) -> None:
    found = answer(node_records, "worker-7")
    found["window"] = {"from": "2026-03-01T11:40:00Z", "to": "2026-03-01T12:00:00Z"}
    assert "last 20m, since 2026-03-01 11:40 UTC" in drawn(found, VIEWS["piped"])


def answer(node_records: Service, name: str) -> Json:
    found: Json = node_records.history(name)
    return found


@pytest.mark.parametrize("view", ["piped", "80", "200"])
@pytest.mark.parametrize("name", ["worker-7", "worker-1", "worker-9"])
def test_screen_is_as_recorded(node_records: Service, name: str, view: str) -> None:
    text = drawn(answer(node_records, name), VIEWS[view])
    expect(f"node-{name}.{view}", text)
    assert view != "80" or max(map(len, text.splitlines())) <= 80


def test_heading_has_requested_hours(node_records: Service) -> None:
    """The window starts at a full hour, so it is up to one hour longer."""
    window = {"from": "2026-02-28T12:00:00Z", "to": "2026-03-01T12:58:59Z"}
    text = drawn(answer(node_records, "worker-1") | {"window": window}, VIEWS["piped"])
    assert text.startswith("worker-1  last 24h, since 2026-02-28 12:00 UTC\n")


def test_piped_screen_has_every_filter(node_records: Service) -> None:
    text = drawn(answer(node_records, "worker-1"), VIEWS["piped"])
    for f in node_records.history("worker-1")["filters"]:
        assert any(line.split()[0] == f["plugin"] for line in text.splitlines() if line)


def test_node_that_was_never_considered() -> None:
    facts = NodeHistoryCounts(Counter(), Counter(), {}, {})
    window = HistoryWindow(0, 3_600_000_000, 3_600_000_000)
    empty = as_json(build_node_history("worker-1", window, facts, ClusterTotals(0, 0), [], searched=0))
    assert "Not considered for any pod." in drawn(empty, VIEWS["80"])
    mark_as_evaluated(empty)
    assert "No active pod is on it, and no waiting pod was evaluated for it." in drawn(empty, VIEWS["80"])
    assert "WON" not in drawn(empty, VIEWS["80"])


def test_decisions_that_did_not_evaluate_or_compare_the_node_are_named_in_every_view() -> None:
    counts = {"considered": 9, "evaluated": 5, "feasible": 4, "chosen": 2, "lost": 1, "misfit": 1, "won": 2}
    counters = Counter({CounterName(name): n for name, n in counts.items()})
    counters |= {CounterName("not_evaluated", detail="restricted"): 3}
    facts, window = NodeHistoryCounts(counters, Counter(), {}, {}), HistoryWindow(0, 3_600_000_000, 3_600_000_000)
    found = as_json(build_node_history("worker-1", window, facts, ClusterTotals(0, 0), [], searched=0))
    for view in ("80", "piped"):
        text = " ".join(drawn(found, VIEWS[view]).split())
        assert "feasible 4 (44%), not evaluated 4 (44%), chosen 2 (22%)." in text
        assert "NOT EVALUATED 4 times: excluded by a PreFilter plugin 3, reason not counted 1" in text
        assert "NOT COMPARED 2 times feasible where no node was chosen, or scores were not compared" in text
        assert "1 although a filter rejects it" in text


def test_last_events_about_the_node_follow_its_present_state(node_records: Service) -> None:
    words = "Pdb prevents pod evictions"
    event: Json = {"reportingComponent": "karpenter", "reason": "DisruptionBlocked", "message": words}
    events: list[Json] = [
        event | {"lastTimestamp": "2026-03-01T11:00:00Z", "message": "an older message"},
        event | {"lastTimestamp": "2026-03-01T11:58:00Z", "count": 86},
        *({"reason": reason, "lastTimestamp": "2026-03-01T11:59:00Z"} for reason in ("Starting", "NodeReady")),
        *({"source": {"component": "kubelet"}, "reason": f"Other{i}", "message": "m"} for i in range(7)),
    ]
    shown = list_node_events(events)
    assert [each["reason"] for each in shown] == ["Other6", "Other5", "Other4", "Other3", "Other2"]
    present = build_node_list([{"metadata": {"name": "worker-1"}}], [])["items"][0]
    document = answer(node_records, "worker-1") | {"present": {**present, "events": list_node_events(events[:4])}}
    for view in ("80", "piped"):
        text = " ".join(drawn(document, VIEWS[view]).split())
        assert re.search(r"EVENTS karpenter: DisruptionBlocked .*: Pdb prevents pod evictions", text)
        assert not re.search("older|Starting|NodeReady", text)
    document["present"]["events"] = shown
    assert [drawn(document, VIEWS[view]).count(": Other") for view in ("80", "piped")] == [3, 5]


def test_short_form_has_the_headline(node_records: Service) -> None:
    document = answer(node_records, "worker-1")
    brief = shorten(document)
    assert (brief["about"], brief["code"], brief["metadata"]) == ("Node", None, {"name": "worker-1"})
    assert brief["headline"] == document["headline"]
    assert brief["headline"].startswith("Considered 40 times: feasible 10 (25%), chosen 0 (0%).")


def test_a_filter_that_never_ran_comes_last(node_records: Service) -> None:
    document = answer(node_records, "worker-1")
    never = {"plugin": "AAA", "evaluated": 0, "passed": 0, "rejected": 0, "decisive": 0, "rate": None, "reasons": []}
    document["filters"] = [never, *document["filters"]]
    filters = drawn(document, VIEWS["piped"]).split("\n\n")[1].splitlines()
    assert filters[-1].split() == ["AAA", "–", "0", "0", "–"]


def test_a_pod_that_another_node_would_get_now_is_behind(node_records: Service) -> None:
    document = answer(node_records, "worker-7")
    chosen = next(each for each in document["recent"] if each["result"] == "chosen")
    document["recent"] = [chosen | {"points": -2, "decidedBy": None}]
    assert drawn(document, VIEWS["80"]).splitlines()[-2].endswith("2 points behind")


def test_a_node_that_another_scheduler_passed_over_is_ahead_of_the_chosen_one(node_records: Service) -> None:
    document = answer(node_records, "worker-7")
    document["recent"] = [document["recent"][0] | {"result": "lost", "points": -87, "decidedBy": None}]
    document["lost"] = {"count": 3, "ahead": 2, "meanBehind": 4.0, "costsMost": {"A": -4.0}}
    text = " ".join(drawn(document, VIEWS["piped"]).split())
    assert text.endswith("87 points ahead of the chosen node")
    assert (
        "LOST 3 times, 2 although it scores higher than the chosen node, by 4 points on average; most on A -4" in text
    )


def test_prints_no_minus_zero(node_records: Service) -> None:
    document = answer(node_records, "worker-1")
    document["lost"] = {"count": 3, "meanBehind": -0.04, "costsMost": {"A": -0.04, "B": -1.5}}
    document["scores"]["accumulated"] = -0.0
    text = drawn(document, VIEWS["80"])
    assert not re.search(r"-0(\.0)?(?![.\d])", text.replace("2026-", ""))
    assert "most on B -1.5" in " ".join(text.split())


def drawn(document: Json, view: ViewOptions) -> str:
    blocks = node.build_screen(document, ViewOptions(NOW, view.width, view.wide))
    return plain_text.draw(blocks, view) if view.piped else terminal.draw(blocks, view, color=False)
