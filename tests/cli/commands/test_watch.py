"""Watching decisions: each is printed once, none is missed, and the end is silent."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from herodotus_cli import decision_watch
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import CliError, ConnectionFailedError, ServerError
from herodotus_cli.transport.kubectl import KubectlTransport
from herodotus_client.api_paths import ALL_DECISIONS
from tests.cli.scenes import placed
from tests.cli.service import API, Service, command, status
from tests.support.documents import watched_decision

LIST = f"{API}/namespaces/shop/decisions?limit=500"
STREAM = f"{API}/namespaces/shop/decisions?watch=true&allowWatchBookmarks=true&resourceVersion=7"
MESSAGE = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."


def served(service: Service, *events: tuple[str, dict[str, Any]]) -> None:
    listed = [
        watched_decision(7, "Binding"),
        watched_decision(6, "Bound"),
        watched_decision(5, "Bound"),
        watched_decision(4, "Bound"),
    ]
    service.answer(LIST, {"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": listed})
    lines = (json.dumps({"type": kind, "object": found}) for kind, found in events)
    service.answer(STREAM, "".join(f"{line}\n" for line in lines).encode())


@pytest.fixture(autouse=True)
def ended_with_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when the first stream has ended."""

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)


def watched(service: Service, *more: str, width: int = 0) -> tuple[int, list[str]]:
    ran = command("watch", "-n", "shop", "--endpoint", service.url, *more, width=width, environ={"NO_COLOR": "1"})
    return ran.code, ran.out.splitlines()


def test_prints_each_decision_once_oldest_first(service: Service) -> None:
    served(
        service,
        ("MODIFIED", watched_decision(4, "Bound")),  # told again by the service: its result came just before the list
        ("MODIFIED", watched_decision(7, "Bound")),  # listed while it was binding
        ("ADDED", watched_decision(8, "Binding")),
        ("MODIFIED", watched_decision(8, "Bound")),
        ("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
        ("ADDED", watched_decision(9, "Unschedulable", node=None, message=MESSAGE)),
    )
    code, lines = watched(service, "--last", "2", "-o", "name")
    assert (code, lines) == (130, ["pod/pod-5", "pod/pod-6", "pod/pod-7", "pod/pod-8", "pod/pod-9"])


def test_binding_option_prints_decisions_in_binding(service: Service) -> None:
    served(service, ("ADDED", watched_decision(8, "Binding")), ("MODIFIED", watched_decision(8, "Bound")))
    assert watched(service, "--last", "0", "--binding", "-o", "name")[1] == ["pod/pod-8", "pod/pod-8"]


def test_columns_depend_on_the_width(service: Service) -> None:
    served(service, ("ADDED", watched_decision(8, "Unschedulable", node=None, message=MESSAGE)))
    columns = {width: watched(service, "--last", "0", width=width)[1] for width in (0, 80, 120, 200)}
    assert [lines[0].split() for lines in columns.values()] == [
        ["TIME", "POD", "ATTEMPT", "RESULT", "NODE", "FIT", "REASON"],
        ["TIME", "POD", "NODE", "REASON"],
        ["TIME", "POD", "RESULT", "NODE", "REASON"],
        ["TIME", "POD", "ATTEMPT", "RESULT", "NODE", "FIT", "REASON"],
    ]
    assert columns[0][1].endswith(f"0/3        {MESSAGE}")
    assert columns[200][1].endswith("0/3        Insufficient cpu")
    assert all(columns[width][1].endswith("  Insufficient cpu") for width in (80, 120))
    assert max(map(len, columns[80])) <= 80


def test_long_pod_name_moves_no_other_column(service: Service) -> None:
    long = watched_decision(8, "Bound", node="–", message=MESSAGE)
    long["spec"]["pod"]["name"] = "ingress-6f8c66fbd5-mktbv"
    served(service, ("ADDED", long))
    header, line = watched(service, "--last", "0", width=80)[1]
    assert line.startswith("12:00:08  shop/ingress-…66fbd5-mktbv  ✓")
    assert line.index("–") == header.index("NODE")


def test_o_wide_has_its_header(service: Service) -> None:
    served(service, ("ADDED", watched_decision(8, "Bound")))
    assert watched(service, "--last", "0", "-o", "wide")[1][0].split()[0] == "TIME"


def test_selects_by_label(service: Service) -> None:
    query = "&labelSelector=app%3Dweb"
    listed = {"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": [watched_decision(7, "Bound")]}
    service.answer(f"{LIST}{query}", listed)
    event = {"type": "ADDED", "object": watched_decision(8, "Bound")}
    service.answer(f"{STREAM}{query}", f"{json.dumps(event)}\n".encode())
    assert watched(service, "-l", "app=web", "-o", "name")[1] == ["pod/pod-7", "pod/pod-8"]


def test_prints_one_document_per_line(service: Service) -> None:
    served(service, ("ADDED", watched_decision(8, "Bound")))
    (line,) = watched(service, "--last", "0", "-o", "json")[1]
    assert json.loads(line) == watched_decision(8, "Bound")


def test_notes_pruned_decisions(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    served(service, ("ERROR", status(410, "Expired", "too old resource version")))
    assert watched(service, "--last", "0")[0] == 130
    assert capsys.readouterr().err.strip() == "note: decisions in between were pruned and are not shown"


def test_refused_watch_is_an_error(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    served(service)
    service.refuse(STREAM, 429, "TooManyRequests", "10 watches run")
    assert watched(service)[0] == 1
    assert capsys.readouterr().err.startswith("Error from server (TooManyRequests): 10 watches run")


def test_repeats_answer_on_new_decisions(service: Service) -> None:
    explanation = f"{API}/namespaces/shop/podexplanations/p"
    service.answer(explanation, placed())
    query = "&fieldSelector=spec.pod%3Dp"
    listed = {"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": []}
    service.answer(f"{API}/namespaces/shop/decisions?limit=500{query}", listed)
    event = json.dumps({"type": "ADDED", "object": watched_decision(8, "Bound")})
    service.answer(f"{STREAM}{query}", f"{event}\n".encode())
    ran = command("pod", "p", "-n", "shop", "-w", "--endpoint", service.url)
    assert (ran.code, ran.out.count("On worker-7: best of 5")) == (130, 1)


def test_rejects_watch_of_one_attempt(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pod", "p", "-w", "--attempt", "2", "--endpoint", service.url).code == 2
    assert "leave out --attempt" in capsys.readouterr().err


class Scripted:
    """A transport with prepared lists and streams. A stream that ends in an error raises it."""

    def __init__(self, lists: Sequence[Any], streams: Sequence[Sequence[Any]]) -> None:
        self._lists, self._streams = list(lists), list(streams)
        self.paths: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        found = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if isinstance(found, Exception):
            raise found
        version, *items = found
        return {"metadata": {"resourceVersion": version}, "items": items}

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(path)

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        self.paths.append(path)
        if not self._streams:
            raise KeyboardInterrupt
        for found in self._streams.pop(0):
            if isinstance(found, Exception):
                raise found
            yield {"type": found[0], "object": found[1]}


EOF_ERROR = ConnectionFailedError("error: unexpected EOF")
BOOKMARK = ("BOOKMARK", {"kind": "Decision", "metadata": {"resourceVersion": "9"}})


def names_of(transport: Scripted, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the decisions that a watch yields until its script ends."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    found: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(d["metadata"]["name"] for d in decision_watch.watch_decisions(transport, "shop", ALL_DECISIONS, 0))
    return found


def test_reopens_broken_stream_at_last_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    transport = Scripted(
        [("7",), ("10",)],
        [[("ADDED", watched_decision(8, "Bound")), BOOKMARK, EOF_ERROR], [("ADDED", watched_decision(10, "Bound"))]],
    )
    assert names_of(transport, monkeypatch) == ["d8", "d10"]
    versions = [path.partition("resourceVersion=")[2] for path in transport.paths]
    assert versions == ["7", "9", "10"]
    assert all("allowWatchBookmarks=true" in path for path in transport.paths)
    assert capsys.readouterr().err == ""


def test_prints_result_between_two_streams_once(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = watched_decision(8, "Bound")
    transport = Scripted([("7",), ("8", settled)], [[("ADDED", watched_decision(8, "Binding")), EOF_ERROR], []])
    assert names_of(transport, monkeypatch) == ["d8"]


def test_continues_from_list_after_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ServerError("Expired", "too old resource version")
    transport = Scripted([("7",), ("30", watched_decision(30, "Bound"))], [[gone], []])
    assert names_of(transport, monkeypatch) == ["d30"]
    assert [path.partition("resourceVersion=")[2] for path in transport.paths] == ["7", "30", "30"]


def test_waits_out_outage_with_one_warning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    away = ConnectionFailedError("error: the decisions service did not answer (connection refused)")
    unavailable = ServerError("ServiceUnavailable", "no endpoints available")
    transport = Scripted([("7",), away, unavailable, away, ("9",)], [[BOOKMARK, EOF_ERROR], [], []])
    assert names_of(transport, monkeypatch) == []
    said = "warning: the decisions service did not answer (connection refused); reconnecting\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ServerError("Forbidden", "no"), id="a refusal"),
        pytest.param(CliError("error: the stream has another shape"), id="another service"),
    ],
)
def test_permanent_error_ends_the_watch(error: CliError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    transport = Scripted([("7",)], [[BOOKMARK, error]])
    with pytest.raises(type(error)):
        list(decision_watch.watch_decisions(transport, "shop", ALL_DECISIONS, 0))


def test_a_stream_that_never_opens_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    transport = Scripted([("7",)], [[EOF_ERROR]] * 20)
    with pytest.raises(ConnectionFailedError):
        list(decision_watch.watch_decisions(transport, "shop", ALL_DECISIONS, 0))
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


def test_kubectl_s_unexpected_eof_is_a_failed_connection(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    line = json.dumps({"type": "ADDED", "object": watched_decision(8, "Bound")})
    printed = f"printf '%s\\n' '{line}'\nprintf '%s' '{line[:40]}'"
    kubectl.write_text(f"#!/bin/sh\n{printed}\necho 'error: unexpected EOF' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    transport = KubectlTransport(ConnectionSettings(), {"KUBECTL_PATH": str(kubectl), "HOME": str(tmp_path)})
    events = transport.stream("/decisions")
    assert next(events)["object"]["metadata"]["name"] == "d8"
    with pytest.raises(ConnectionFailedError, match="unexpected EOF"):
        next(events)


def test_an_error_is_printed_without_a_header(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(LIST, 404, "NotFound", "no such list")
    assert watched(service) == (1, [])
    assert "no such list" in capsys.readouterr().err


def test_the_header_is_printed_once(service: Service) -> None:
    served(service, ("ADDED", watched_decision(8, "Bound")))
    assert [line.startswith("TIME") for line in watched(service)[1]] == [True, False, False, False, False]
