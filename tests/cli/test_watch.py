"""Decisions as they come: each is told once, nothing is missed, and it ends without a word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from herodotus_cli import following
from tests.cli.scenes import placed
from tests.cli.service import API, Service, command, status

LIST = f"{API}/namespaces/shop/decisions?limit=500"
STREAM = f"{API}/namespaces/shop/decisions?watch=true&resourceVersion=7"
MESSAGE = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."


def decision(number: int, state: str, **more: Any) -> dict[str, Any]:
    """The decision of a pod of that number, which is also its place in the store."""
    return {
        "kind": "Decision",
        "metadata": {"name": f"d{number}", "resourceVersion": str(number)},
        "spec": {
            "key": {"attempt": 1},
            "pod": {"namespace": "shop", "name": f"pod-{number}"},
            "times": {"startedAt": f"2026-03-01T12:00:{number:02}Z"},
            "snapshot": {"nodes": 3, "feasible": 2 if state == "Bound" else 0},
        },
        "status": {"state": state, "node": "worker-1", "path": "scored", "message": "", **more},
    }


def served(service: Service, *events: tuple[str, dict[str, Any]]) -> None:
    listed = [decision(7, "Binding"), decision(6, "Bound"), decision(5, "Bound"), decision(4, "Bound")]
    service.answer(LIST, {"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": listed})
    lines = (json.dumps({"type": kind, "object": found}) for kind, found in events)
    service.answer(STREAM, "".join(f"{line}\n" for line in lines).encode())


@pytest.fixture(autouse=True)
def ended_with_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when the first stream is over."""

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following.time, "sleep", interrupt)


def watched(service: Service, *more: str, width: int = 0) -> tuple[int, list[str]]:
    ran = command("watch", "-n", "shop", "--endpoint", service.url, *more, width=width, environ={"NO_COLOR": "1"})
    return ran.code, ran.out.splitlines()


def test_each_decision_is_told_once_oldest_first(service: Service) -> None:
    served(
        service,
        ("MODIFIED", decision(4, "Bound")),  # told again by the service: its result came just before the list
        ("MODIFIED", decision(7, "Bound")),  # listed while it was binding
        ("ADDED", decision(8, "Binding")),
        ("MODIFIED", decision(8, "Bound")),
        ("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
        ("ADDED", decision(9, "Unschedulable", node=None, message=MESSAGE)),
    )
    code, lines = watched(service, "--last", "2", "-o", "name")
    assert (code, lines) == (130, ["pod/pod-5", "pod/pod-6", "pod/pod-7", "pod/pod-8", "pod/pod-9"])


def test_those_that_bind_are_told_on_demand(service: Service) -> None:
    served(service, ("ADDED", decision(8, "Binding")), ("MODIFIED", decision(8, "Bound")))
    assert watched(service, "--last", "0", "--binding", "-o", "name")[1] == ["pod/pod-8", "pod/pod-8"]


def test_a_line_holds_what_the_width_does(service: Service) -> None:
    served(service, ("ADDED", decision(8, "Unschedulable", node=None, message=MESSAGE)))
    columns = {width: watched(service, "--last", "0", width=width)[1] for width in (0, 80, 200)}
    assert [lines[0].split() for lines in columns.values()] == [
        ["TIME", "POD", "TRY", "RESULT", "NODE", "FIT", "WHY"],
        ["TIME", "POD", "RESULT", "NODE", "FIT"],
        ["TIME", "POD", "TRY", "RESULT", "NODE", "FIT", "WHY"],
    ]
    assert columns[0][1].endswith(f"0/3        {MESSAGE}")
    assert columns[200][1].endswith("0/3        Insufficient cpu")
    assert max(map(len, columns[80])) <= 80


def test_labels_select_what_is_told(service: Service) -> None:
    query = "&labelSelector=app%3Dweb"
    listed = {"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": [decision(7, "Bound")]}
    service.answer(f"{LIST}{query}", listed)
    event = {"type": "ADDED", "object": decision(8, "Bound")}
    service.answer(f"{STREAM}{query}", f"{json.dumps(event)}\n".encode())
    assert watched(service, "-l", "app=web", "-o", "name")[1] == ["pod/pod-7", "pod/pod-8"]


def test_documents_are_one_a_line(service: Service) -> None:
    served(service, ("ADDED", decision(8, "Bound")))
    (line,) = watched(service, "--last", "0", "-o", "json")[1]
    assert json.loads(line) == decision(8, "Bound")


def test_a_stream_that_began_too_far_back_is_said_so(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    served(service, ("ERROR", status(410, "Expired", "too old resource version")))
    assert watched(service, "--last", "0")[0] == 130
    assert capsys.readouterr().err.strip() == "note: decisions in between were pruned and are not told"


def test_a_watch_that_is_refused_is_an_error(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    served(service)
    service.refuse(STREAM, 429, "TooManyRequests", "10 watches run")
    assert watched(service)[0] == 1
    assert capsys.readouterr().err.startswith("Error from server (TooManyRequests): 10 watches run")


def test_an_answer_is_printed_anew_when_decisions_come(service: Service) -> None:
    explanation = f"{API}/namespaces/shop/podexplanations/p"
    service.answer(explanation, placed())
    query = "&fieldSelector=spec.pod%3Dp"
    listed = {"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": []}
    service.answer(f"{API}/namespaces/shop/decisions?limit=500{query}", listed)
    event = json.dumps({"type": "ADDED", "object": decision(8, "Bound")})
    service.answer(f"{STREAM}{query}", f"{event}\n".encode())
    ran = command("pod", "p", "-n", "shop", "-w", "--endpoint", service.url)
    assert (ran.code, ran.out.count("On worker-7: best of 5")) == (130, 1)


def test_what_has_been_is_not_watched(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pod", "p", "-w", "--attempt", "2", "--endpoint", service.url).code == 2
    assert "leave out --attempt" in capsys.readouterr().err
