"""The golden screens. HERODOTUS_REGENERATE=1 rewrites them; then read the difference."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from herodotus_answers.live.objects import drop_advice
from herodotus_answers.suggestions import UNDO
from herodotus_cli.render.pod import build_screen
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_cli.render.suggestions import list_fixes
from tests.cli.scenes import (
    NODES,
    NOW,
    Scene,
    a_pending,
    a_placed,
    all_nodes,
    explained,
    large,
    many_plugins,
    pending_with_suggestions,
    placed,
    scenes,
)
from tests.support.screens import VIEWS, drawn, expect

SOME = {
    "wide": ("placed", "placed-many-plugins", "inputs", "inputs-pending"),  # what -o wide changes
    "40": ("placed", "pending", "node-outscored", "compared-pods"),  # tables that are stacked
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scene", scenes())
def test_screen_is_as_recorded(scene: str, view: str) -> None:
    if scene not in SOME.get(view.partition("-")[0], scenes()):
        return
    expect(f"pod-{scene}.{view}", drawn(scenes()[scene](), VIEWS[view]))


@pytest.mark.parametrize("scene", scenes())
def test_screens_fit_80_columns(scene: str) -> None:
    text = drawn(scenes()[scene](), VIEWS["80"])
    copied = ("     kubectl ",)  # never wrapped
    too_long = [line for line in text.splitlines() if len(line) > 80 and not line.startswith(copied)]
    assert not too_long


@pytest.mark.parametrize("scene", scenes())
def test_colour_adds_nothing_but_escape_sequences(scene: str) -> None:
    import re

    coloured = drawn(scenes()[scene](), VIEWS["80"], color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).replace(" ", "") == drawn(scenes()[scene](), VIEWS["80"]).replace(
        " ", ""
    )
    assert "\x1b[" in coloured


@pytest.mark.parametrize("width", [None, 40, 80, 200])
@pytest.mark.parametrize(
    "scene", ["pending", "pending-all", "preemption-failed", "prefilter-rejected", "5000-nodes-pending"]
)
def test_event_is_exact_and_wrapped_between_words(scene: str, width: int | None) -> None:
    found = scenes()[scene]()
    text = drawn(found, ViewOptions(NOW, width=width, wide=True))
    event = text[text.index("Event: ") :].partition("\n\n")[0].rstrip("\n")
    assert event.replace("\n", " ") == f"Event: {found.answer['message']}"
    assert width is not None or "\n" not in event
    assert width is None or max(map(len, event.splitlines())) <= width


@pytest.mark.parametrize("screen", [build_screen, all_nodes])
def test_timeline_of_a_pod_that_waits_begins_with_what_its_last_attempt_explains(screen: Any) -> None:
    """A report has --all and --timeline, and its headline is not kube-scheduler's message."""
    text = "default-scheduler: 0/12 nodes are available: 12 Insufficient cpu"
    cause = {"code": "no-node-found", "object": None, "source": "status.conditions[PodScheduled]", "text": text}
    entry = {"at": "2026-03-01T11:00:00Z", "source": "metadata.creationTimestamp", "text": "pod created"}
    answer = explained(a_pending())
    answer["live"] = {
        "state": {
            "code": "pod-waits-for-node",
            "headline": f"Pending: waits for a node. Last attempt: {text}",
            "actor": "user",
            "causes": [{**cause, "remedies": []}],
            "unread": [],
            "timeline": [entry],
        }
    }
    lines = drawn(Scene(answer, screen), ViewOptions(NOW, 200)).splitlines()
    assert lines[1] == f"✗ {answer['headline']}"
    assert not any("Last attempt" in line for line in lines)
    assert any(line.split() == ["1h", "metadata.creationTimestamp", "pod", "created"] for line in lines)
    narrow = drawn(Scene(answer, screen), VIEWS["80"]).splitlines()
    assert "1h   pod created [metadata.creationTimestamp]" in narrow


def test_pod_whose_group_lacks_pods_is_not_told_to_change() -> None:
    remedy = {"text": "create the missing pods of PodGroup train, or lower its minCount", "command": None}
    text = "PodGroup train needs 4 pods before any of them is tried, and 1 exists (payments-0)"
    cause = {"code": "pod-group-too-small", "object": "PodGroup/train", "source": "spec", "text": text}
    state = {
        "code": "pod-waits-for-node",
        "headline": f"Pending: waits for a node. {text}",
        "actor": "user",
        "causes": [{**cause, "remedies": [remedy]}],
        "unread": [],
    }
    answer = explained(pending_with_suggestions())
    answer["live"] = {"state": state}
    fixes = [
        line for line in drawn(Scene(answer), ViewOptions(NOW, 200)).splitlines() if line.startswith(("FIX", "or"))
    ]
    assert fixes == [f"FIX  {remedy['text']} (not checked)"]


def test_states_that_no_node_was_rejected() -> None:
    text = drawn(Scene(explained(a_placed(rejected={}, nodes=NODES))), VIEWS["80"])
    assert "All 12 nodes passed all 6 filters." in text.splitlines()
    assert "passed all" not in drawn(Scene(placed()), VIEWS["80"])


def test_the_age_of_an_attempt_is_no_note_on_a_fix_that_it_does_not_have() -> None:
    answer = explained(pending_with_suggestions())
    unchecked = [suggestion | {"checked": False} for suggestion in answer["suggestions"]]
    undo = unchecked[0] | {"kind": UNDO, "text": "go back to the previous template", "node": ""}
    fixes = list_fixes(answer | {"suggestions": [undo, *unchecked]}, ViewOptions(NOW))
    assert [[note for note in fix.notes if "attempt" in note] for fix in fixes[:3]] == [
        [],
        ["by the attempt 38s ago"],
        [],
    ]


def test_matrix_of_filters_that_no_node_failed_has_no_rows() -> None:
    answer = explained(a_placed(rejected={}, nodes=NODES), every_node=True)
    text = drawn(Scene(answer, all_nodes), VIEWS["80"])
    assert "ALL NODES PASS" in text
    assert "FILTERS" not in text


@pytest.mark.parametrize(
    ("later_s", "said"),
    [
        (2, "on an event that may help, after 2s, or in 5m28s"),
        (60, "on an event that may help, or in 4m30s"),
        (400, "overdue: the scheduler does not run, or the pod was deleted"),
    ],
)
def test_next_try_counts_from_now(later_s: int, said: str) -> None:
    found = scenes()["woken"]()
    started = datetime.fromisoformat(found.answer["attempt"]["startedAt"].replace("Z", "+00:00"))
    found.answer["attempt"] |= {"ordinal": 3, "lastOrdinal": 3, "attempts": 3}
    view = ViewOptions(started + timedelta(seconds=later_s))
    assert f"NEXT TRY     {said}" in drawn(found, view)
    found.answer["attempt"]["attempts"] = 4
    assert "NEXT TRY" not in drawn(found, view)


def test_an_earlier_attempt_is_told_in_the_past_and_without_advice() -> None:
    found = scenes()["pending-suggestions"]()
    found.answer["attempt"] |= {"ordinal": 2, "lastOrdinal": 2, "attempts": 2}
    last = drawn(found, VIEWS["80"])
    assert "Pending" in last.splitlines()[0]
    assert "FIX" in last
    found.answer["attempt"]["attempts"] = 3
    found.answer.update(drop_advice(found.answer))
    earlier = drawn(found, VIEWS["80"])
    assert "found no node" in " ".join(earlier.splitlines()[:2])
    assert "Pending" not in earlier.splitlines()[0]
    assert "FIX" not in earlier


def test_pending_names_every_filter_that_rejects_a_node_with_its_numbers() -> None:
    text = drawn(Scene(explained(a_pending(), every_node=True), all_nodes), VIEWS["piped"])
    rows = [line.split(maxsplit=2) for line in text.splitlines() if line.startswith("worker-9 ")]
    assert rows[:2] == [
        ["worker-9", "TaintToleration", "taint dedicated=gpu:NoSchedule not tolerated"],
        ["worker-9", "NodeResourcesFit", "cpu: requests 2; free 900m of 8"],
    ]


@pytest.mark.parametrize("fits", [0, 3000])
@pytest.mark.parametrize("width", [None, 80])
def test_screen_of_5000_nodes_is_short(fits: int, width: int | None) -> None:
    assert len(drawn(Scene(explained(large(fits=fits))), ViewOptions(NOW, width=width)).splitlines()) < 40


@pytest.mark.parametrize("width", range(60, 201, 7))
def test_score_columns_add_up_at_every_width(width: int) -> None:
    """The shown columns, the `others` and the equal ones add up to the total."""
    answer = explained(many_plugins())
    text = drawn(Scene(answer), ViewOptions(NOW, width=width))
    row = next(line for line in text.splitlines() if "worker-7 ◀" in line)
    total, *shown = (int(cell) for cell in row.partition("◀")[2].split())
    paragraph = " ".join(text.split("\n\n")[1].split())
    same = paragraph.partition("equal for these 5 nodes: ")[2].partition(" others:")[0]
    equal = [int(part.split()[1]) for part in same.split(", ")] if same else []
    assert total == sum(shown) + sum(equal) == answer["ranking"][0]["total"]
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", range(60, 201, 7))
def test_scores_of_one_node_fit_every_width(width: int) -> None:
    text = drawn(scenes()["node-many-plugins"](), ViewOptions(NOW, width=width))
    assert max(map(len, text.splitlines())) <= width
    assert "ip-10-0-12-34.eu-central-1.compute.internal" in text


def test_attempt_without_position_keeps_its_number() -> None:
    answer = placed()
    answer["attempt"] |= {"number": 7, "attempts": 11, "failedBefore": 10}
    assert "attempt 7 (10 failed before: --attempts)" in drawn(Scene(answer), VIEWS["200"])
    answer["attempt"] |= {"ordinal": 3, "lastOrdinal": 3}
    assert "attempt 3 of 11 (10 failed before: --attempts)" in drawn(Scene(answer), VIEWS["200"])


def test_a_record_of_several_attempts_names_them_and_the_newest_is_the_last() -> None:
    found = scenes()["pending-suggestions"]()
    found.answer["attempt"] |= {"ordinal": 5, "lastOrdinal": 6, "attempts": 6, "failedBefore": 4}
    last = drawn(found, VIEWS["80"])
    assert "6 attempts" in " ".join(last.splitlines()[:2])
    found.answer["attempt"]["attempts"] = 7
    assert "attempts 5–6 of 7 (4 failed before: --attempts)" in drawn(found, VIEWS["200"])


def test_other_filters_of_a_group_cover_all_its_nodes() -> None:
    answer = explained(large(fits=3000))
    group = answer["rejections"][0]
    for row in group["nodes"]:
        row["alsoRejectedBy"] = ["NodeAffinity"]
    group.pop("alsoRejectedBy", None)
    assert "also rejected" not in drawn(Scene(answer), VIEWS["piped"])
    group["alsoRejectedBy"] = {"NodePorts": group["count"], "NodeAffinity": 167}
    said = "; also rejected by NodePorts; 167 of them also rejected by NodeAffinity\n"
    assert said in drawn(Scene(answer), VIEWS["piped"])


def test_condition_has_the_time_since_when_it_is_false() -> None:
    """Its message may be of a later attempt."""
    since = (NOW - timedelta(minutes=12)).isoformat()
    condition = {"status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available.", "at": since}
    answer = explained(a_pending()) | {"live": {"condition": condition, "fate": "exists"}}
    said = "PodScheduled became False 12m ago, now Unschedulable: 0/3 nodes are available."
    assert said in drawn(Scene(answer), VIEWS["piped"])


def test_preemption_is_not_tried_after_prefilter_rejection() -> None:
    answer = scenes()["prefilter-rejected"]().answer
    answer["postFilters"] = [{"plugin": "DefaultPreemption", "code": "Unschedulable", "reasons": ["not found"]}]
    said = "not tried: the pod was rejected before any node was evaluated"
    assert said in drawn(Scene(answer), VIEWS["piped"])
    answer["preFilters"] = []
    assert said not in drawn(Scene(answer), VIEWS["piped"])


def test_terminal_omits_plugins_without_points() -> None:
    answer = placed()
    for row in answer["ranking"]:
        row["scores"]["ImageLocality"] = {"raw": 0, "normalized": 0, "weighted": 0}
    shown = {name: "ImageLocality ×1" in drawn(Scene(answer), view) for name, view in VIEWS.items()}
    assert shown == {
        "piped": True,
        "40": False,
        "80": False,
        "200": False,
        "wide-piped": True,
        "wide-80": True,
    }


def test_no_headers_omits_only_headers() -> None:
    scene = Scene(placed())
    with_, without = (drawn(scene, VIEWS["piped"]._replace(headers=h)).splitlines() for h in (True, False))
    assert len(with_) - len(without) == 2
    assert not any(line.startswith(("RANK", "REJECTED")) for line in without)


def test_escapes_control_characters_of_records() -> None:
    answer = placed()
    answer["headline"] = "On \x1b[31mworker-7\x07\r\n: best"
    for view in VIEWS.values():
        assert not set(drawn(Scene(answer), view)) & {"\x1b", "\x07", "\r"}


def test_brackets_are_not_markup() -> None:
    answer = placed()
    answer["notes"] = ["[red]not markup[/red] :warning:"]
    assert "[red]not markup[/red] :warning:" in drawn(Scene(answer), VIEWS["80"])


def test_narrow_terminal_stacks_tables_and_cuts_nothing() -> None:
    found = Scene(placed())
    for row in found.answer["ranking"]:
        row["node"] = f"ip-10-0-12-34.eu-central-1.compute.internal.{row['node']}.example.test"
    text = drawn(found, ViewOptions(NOW, width=60, wide=True))
    assert all(row["node"] in text for row in found.answer["ranking"])
    assert "POINTS" in text
