"""The screens about many pods, from records that the decisions service aggregated."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from herodotus_answers.agreements import ComparedOutcome, CoveredTime, build_agreements
from herodotus_answers.pending import PendingPod, build_pending_pods
from herodotus_answers.wording import CAUSES
from herodotus_answers.workload import Placement, WorkloadName, build_workload_placement
from herodotus_cli.render import balance, disagreements, pending, plain_text, terminal, workload
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_record.model import Agreement, Cause
from tests.cli.render.conftest import NOON_US, SECOND_US
from tests.endpoint.service import API, Service
from tests.support.screens import SURVEY_SCREENS, VIEWS, expect

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 13, 0, 0, tzinfo=timezone.utc)  # the service's clock


def an_outcome(
    i: int, agreement: Agreement, cause: Cause | None = None, scheduler: str = "default-scheduler"
) -> ComparedOutcome:
    ours = "On worker-3, by default-scheduler. The evaluation puts worker-7 21 points ahead (NodeResourcesFit +14)"
    return ComparedOutcome(
        namespace="shop",
        pod=f"checkout-7d9f8c6b5d-{i:02}",
        scheduler=scheduler,
        agreement=agreement.value,
        cause=cause.value if cause else None,
        node="worker-3",
        started_us=NOON_US - i * 60 * SECOND_US,
        decision_id=f"id-{i}",
        headline=f"{ours}: {CAUSES[cause]}." if cause and i % 2 else None,
    )


@pytest.mark.parametrize("view", ["piped", "80", "200"])
def test_disagreements_are_as_recorded(view: str) -> None:
    outcomes = [an_outcome(i, Agreement.AGREE) for i in range(190)]
    outcomes += [an_outcome(i, Agreement.IN_WINDOW, scheduler="batch") for i in range(3)]
    told = [an_outcome(i, Agreement.DISAGREE, cause) for i, cause in enumerate((Cause.SAMPLING, Cause.STALE_VIEW) * 12)]
    document = build_agreements(
        [*outcomes, *told, an_outcome(99, Agreement.UNKNOWN, Cause.NOT_WATCHED)],
        told,
        CoveredTime(NOON_US - 86_400 * SECOND_US, NOON_US, complete=True),
        omitted=2,
    )
    seen = ViewOptions(NOW, VIEWS[view].width)
    blocks = disagreements.build_screen(document, seen)
    text = plain_text.draw(blocks, seen) if seen.piped else terminal.draw(blocks, seen, color=False)
    expect(f"disagreements.{view}", text)
    assert view != "80" or max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("view", ["piped", "80", "200"])
@pytest.mark.parametrize("name", SURVEY_SCREENS)
def test_screen_is_as_recorded(survey_records: Service, name: str, view: str) -> None:
    path, screen = SURVEY_SCREENS[name]
    path, _, query = path.partition("?weights=")
    seen = ViewOptions(NOW, VIEWS[view].width)
    blocks = screen(survey_records.get(path, **({"weights": query} if query else {})), seen)
    text = plain_text.draw(blocks, seen) if seen.piped else terminal.draw(blocks, seen, color=False)
    expect(f"{name}.{view}", text)
    assert view != "80" or max(map(len, text.splitlines())) <= 80


def test_terminal_screens_are_limited(survey_records: Service) -> None:
    document = survey_records.get(f"{API}/balances")
    document["nodes"] = document["nodes"] * 500
    document["moves"] = [{"namespace": "n", "pod": "p", "from": "a", "to": "b", "drawnAmong": None}] * 20
    lines = terminal.draw(
        balance.build_screen(document, ViewOptions(NOW, 80)), ViewOptions(NOW, 80), color=False
    ).splitlines()
    assert len(lines) < 60
    waiting = survey_records.get(f"{API}/pendingpods")
    waiting["pods"] = waiting["pods"] * 500
    waiting["count"] = 1000
    assert (
        len(
            terminal.draw(
                pending.build_screen(waiting, ViewOptions(NOW, 80)), ViewOptions(NOW, 80), color=False
            ).splitlines()
        )
        < 60
    )


def a_waiting_pod(name: str, owner: str | None, lacking: str = "cpu") -> PendingPod:
    created = NOON_US - 60 * SECOND_US
    message = f"0/3 nodes are available: 3 Insufficient {lacking}."
    return PendingPod("shop", name, name, owner, "p", "Unschedulable", 1, NOON_US, message, name, created_us=created)


def test_pods_of_one_owner_with_one_reason_share_a_row() -> None:
    pods = [a_waiting_pod(f"web-{i:03}", "ReplicaSet/web") for i in range(400)]
    others = [a_waiting_pod("api-0", "StatefulSet/api"), a_waiting_pod("alone", None), a_waiting_pod("other", None)]
    document = build_pending_pods([*others, *pods], now_us=NOON_US)
    view = ViewOptions(NOW, 80)
    text = terminal.draw(pending.build_screen(document, view), view, color=False)
    rows = [line.split()[:2] for line in text.splitlines() if line.startswith("shop/")]
    assert rows == [["shop/alone", "1"], ["shop/api-0", "1"], ["shop/other", "1"], ["shop/web-000", "400"]]
    whole = ViewOptions(NOW, 80, wide=True)
    assert terminal.draw(pending.build_screen(document, whole), whole, color=False).count("shop/web-") == 400


@pytest.mark.parametrize(("lines", "left_out"), [(22, 26), (48, 0)])
def test_pods_take_no_more_rows_than_the_terminal_has(lines: int, left_out: int) -> None:
    document = build_pending_pods([a_waiting_pod(f"pod-{i}", None) for i in range(40)], now_us=NOON_US)
    view = ViewOptions(NOW, 80, lines=lines)
    drawn = terminal.draw(pending.build_screen(document, view), view, color=False).splitlines()
    assert len(drawn) <= lines
    assert sum(line.startswith("shop/pod-") for line in drawn) == 40 - left_out
    assert (f"{left_out} more pods)" in drawn[-1]) is bool(left_out)


@pytest.mark.parametrize("omitted", [0, 3])
@pytest.mark.parametrize("width", [80, None])
def test_pending_says_how_many_more_objects_have_refused_pods(omitted: int, width: int | None) -> None:
    document: Any = build_pending_pods([], now_us=NOON_US)
    refused = {"namespace": "shop", "workload": "Deployment/web", "missing": 2, "reason": "exceeded quota"}
    more = {"notCreatedOmitted": omitted} if omitted else {}
    document["live"] = {"source": "kube-apiserver", "gone": [], "untried": [], "notCreated": [refused], **more}
    view = ViewOptions(NOW, width)
    text = terminal.draw(pending.build_screen(document, view), ViewOptions(NOW, 80), color=False)
    assert "shop/Deployment/web" in text
    assert ("pods of 3 more objects were refused too" in " ".join(text.split())) is bool(omitted)


def test_fixes_of_pending_pods_have_the_age_of_their_attempts() -> None:
    waiting = [a_waiting_pod(f"pod-{i}", None, f"example.com/accelerator-{i}") for i in range(3)]
    pods = [replace(pod, started_us=NOON_US - i * 90 * SECOND_US) for i, pod in enumerate(waiting)]
    document = build_pending_pods(pods, now_us=NOON_US)
    view = ViewOptions(NOW, 80)
    for group, name in zip(document["groups"], ("shop/pod-0", "shop/pod-1", "shop/gone"), strict=True):
        group["fix"] = {"pod": name, "text": "uncordon n1", "command": None, "checked": True}
    lines = terminal.draw(pending.build_screen(document, view), view, color=False).splitlines()
    assert lines[1] == "Fixes are of the last attempts, 2m10s to 40s ago; of now: plan pod NAME"
    evaluated: Any = {**document, "source": "evaluated"}
    assert "last attempts" not in terminal.draw(pending.build_screen(evaluated, view), view, color=False)


@pytest.mark.parametrize("pods", [5, 8])
def test_each_pod_of_a_short_list_is_named_on_24_lines(pods: int) -> None:
    """Where rows of all pods do not fit, the reasons name each pod, and no row repeats only some of them."""
    waiting = [a_waiting_pod(f"pod-{i}", None, f"example.com/accelerator-{i}") for i in range(pods)]
    document = build_pending_pods(waiting, now_us=NOON_US)
    view = ViewOptions(NOW, 80)
    text = terminal.draw(pending.build_screen(document, view), view, color=False)
    assert len(text.splitlines()) < 24
    assert all(f"shop/pod-{i}" in text for i in range(pods))
    assert text.count("\nshop/pod-") in (0, pods)
    assert ("-o wide (next tries)" in text) is (text.count("\nshop/pod-") == 0)


PREEMPTED: Any = {
    "at": "2026-03-01T12:00:00Z",
    "node": "worker-1",
    "evicted": True,
    "preemptor": {"namespace": "ml", "pod": "urgent", "priority": 1000, "attempt": 2},
}


def test_a_workload_names_preempted_pods_other_schedulers_and_how_many_pods_it_has_now() -> None:
    pods = [
        Placement("shop", "web-a", "Deployment/web", "worker-1", NOON_US, "Bound", preempted_by=PREEMPTED),
        Placement("shop", "web-b", "Deployment/web", "worker-1", NOON_US, "Bound"),
    ]
    name = WorkloadName("shop", "Deployment/web")
    observed = [an_outcome(1, Agreement.AGREE), an_outcome(2, Agreement.DISAGREE, Cause.UNEXPLAINED)]
    document = build_workload_placement(name, pods, 3, since_us=NOON_US, complete=True, observed=observed)
    answer: Json = {**document}

    def draw(placed_now: int | None) -> str:
        counts: Json = {"wanted": 2, "created": 2, "ready": 2, "available": 2, "pending": 0, "notCreated": 0}
        live = {"counts": counts | {"placed": placed_now}, "zones": []}
        screen = plain_text.draw(workload.build_screen(answer | {"live": live}, ViewOptions(NOW)), ViewOptions(NOW))
        return " ".join(screen.split())

    assert (
        "PREEMPTED web-a: Evicted from worker-1 1h ago to make room for ml/urgent (priority 1000, attempt 2)" in draw(1)
    )
    assert "1 pod went to worker-1, 1 of 3 nodes. 1 pod was preempted by ml/urgent." in draw(1)
    assert "An observer evaluates by the configuration of" in draw(1)
    assert "placements on record; 2 pods of it are on a node now" in draw(2)
    assert "placements on record" not in draw(1) + draw(None)


def test_a_workload_breaks_a_command_for_nodes_without_a_pod_only_where_a_shell_joins_the_lines() -> None:
    document = build_workload_placement(
        WorkloadName("ci", "DaemonSet/cache"), [], 2, since_us=NOON_US, complete=True, observed=[]
    )
    value = '[{"op":"add","path":"/spec/template/spec/tolerations","value":[{"key":"dedicated","operator":"Exists"}]}]'
    command = f"kubectl -n ci patch daemonset cache --type=json -p '{value}'"
    lacking = {"code": "taint", "nodes": ["worker-2"], "count": 1, "text": "taint dedicated is not tolerated"}
    answer: Json = {**document, "live": {"nodesWithoutPod": [lacking | {"command": command}], "zones": []}}
    view = ViewOptions(NOW, width=80)
    text = terminal.draw(workload.build_screen(answer, view), view, color=False)
    assert "NO POD ON  1 node (worker-2): taint dedicated is not tolerated\nif worker-2 is to have one:\n" in text
    broken = text.partition("is to have one:\n")[2].partition("\n\n")[0]
    assert [line[-1] for line in broken.splitlines()[:-1]] == ["\\"] * (len(broken.splitlines()) - 1)
    assert len(broken.splitlines()) > 1
