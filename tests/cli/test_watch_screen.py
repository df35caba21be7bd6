"""`-w` on a terminal: drawn in place, with what is new marked, and the terminal left as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
from collections import Counter
from typing import Any

import pytest

from herodotus_answers.node import ClusterTotals, HistoryWindow, NodeHistoryCounts, build_node_history
from herodotus_answers.pending import build_pending_pods
from herodotus_answers.workload import Placement, WorkloadName, build_workload_placement
from herodotus_cli.watch_screen import find_changes
from tests.cli.scenes import placed, waiting
from tests.cli.service import API, Service
from tests.processes import ROOT
from tests.support.answers import as_json
from tests.support.documents import pending_pod
from tests.support.pseudo_terminal import ALTERNATE_SCREEN, MAIN_SCREEN, SHOW_CURSOR, PseudoTerminal

Json = dict[str, Any]
PLUGIN = [sys.executable, str(ROOT / "kubectl-herodotus")]
MARK = "\x1b[7m"


def pending(*names: str) -> Json:
    return as_json(build_pending_pods([pending_pod(name, None) for name in names], now_us=10**15))


def node_history(considered: int) -> Json:
    facts, window = NodeHistoryCounts(Counter(), Counter(), {}, {}), HistoryWindow(0, 3_600_000_000, 3_600_000_000)
    found: Json = as_json(build_node_history("n1", window, facts, ClusterTotals(0, 0), [], searched=0))
    return found | {"headline": f"Considered {considered} times."}


def workload(*nodes: str) -> Json:
    pods = [Placement("shop", f"web-{i}", "ReplicaSet/web", node, 10**15, "Bound") for i, node in enumerate(nodes)]
    return as_json(
        build_workload_placement(WorkloadName("shop", "deploy/web"), pods, 3, since_us=10**15, complete=True)
    )


# By the command: its arguments, the path of its answer, the answer, the next one, and what only that one says.
WATCHED: dict[str, tuple[tuple[str, ...], str, Json, Json, str]] = {
    "pending": (("-n", "shop"), "namespaces/shop/pendingpods", pending("a"), pending("a", "new-pod"), "2 pods are"),
    "pod": (("p", "-n", "shop"), "namespaces/shop/podexplanations/p", waiting(), placed(), "On worker-7: best"),
    "node": (("n1",), "nodehistories/n1?since=86400", node_history(3), node_history(4), "Considered 4 times"),
    "workload": (
        ("rs/web", "-n", "shop"),
        "namespaces/shop/workloadplacements/replicaset.web?since=86400",
        workload("n1"),
        workload("n1", "n2"),
        "2 pods went to 2 of 3 nodes",
    ),
}


@pytest.fixture
def watching(service: Service) -> Service:
    """A service whose streams end at once, so that answers are repeated regularly."""
    listed = {"kind": "DecisionList", "metadata": {"resourceVersion": "7"}, "items": []}
    selected = "&fieldSelector=spec.pod%3Dp"
    for scope, query in (("", ""), ("namespaces/shop/", ""), ("namespaces/shop/", selected)):
        service.answer(f"{API}/{scope}decisions?limit=500{query}", listed)
        stream = f"{API}/{scope}decisions?watch=true&allowWatchBookmarks=true&resourceVersion=7{query}"
        service.answer(stream, b"")
    return service


def watch(service: Service, name: str, *more: str, **environ: str) -> PseudoTerminal:
    arguments, path, first, _, _ = WATCHED[name]
    service.answer(f"{API}/{path}", first)
    command = [*PLUGIN, name, *arguments, *more, "-w", "--endpoint", service.url]
    return PseudoTerminal(command, {**os.environ, "TERM": "xterm-256color", **environ}, cwd=ROOT)


def last_frame(terminal: PseudoTerminal) -> list[str]:
    return terminal.text.rpartition("\x1b[H")[2].split("\r\n")


@pytest.mark.parametrize("name", WATCHED)
def test_answer_is_drawn_in_place_and_the_terminal_left_as_it_was(watching: Service, name: str) -> None:
    _, path, _, then, new = WATCHED[name]
    terminal = watch(watching, name)
    try:
        terminal.wait_until(lambda: "Ctrl-C ends it" in terminal.text)
        assert terminal.text.count(ALTERNATE_SCREEN) == 1
        assert MARK not in terminal.text, "nothing is new in the first answer"
        watching.answer(f"{API}/{path}", then)
        terminal.wait_until(lambda: new in terminal.text and "new or changed" in terminal.text)
        assert any(MARK in line and new in line for line in last_frame(terminal))
        watching.refuse(f"{API}/{path}", 404, "NotFound", f'"{name}" not found')
        terminal.wait_until(lambda: "(NotFound)" in terminal.text and " gone" in last_frame(terminal)[-1])
        os.write(terminal.master, b"\x03")
        assert terminal.wait_for_end() == 130
        after = terminal.text.rpartition(MAIN_SCREEN)[2]
        assert "(NotFound)" in after, "the last answer stays on the terminal"
        assert terminal.text.rindex(SHOW_CURSOR) < terminal.text.rindex(MAIN_SCREEN)
        assert MARK not in after
        assert termios.tcgetattr(terminal.slave) == terminal.before
    finally:
        terminal.close()


def test_an_answer_longer_than_the_terminal_is_cut_and_printed_whole_at_the_end(watching: Service) -> None:
    terminal = watch(watching, "pending", "-o", "wide")
    try:
        names = [f"pod-{i:02}" for i in range(20)]
        watching.answer(f"{API}/namespaces/shop/pendingpods", pending(*names))
        terminal.wait_until(lambda: "more lines, which Ctrl-C prints" in terminal.text and "pod-03" in terminal.text)
        frame = last_frame(terminal)
        assert len(frame) == 24
        assert "20 pods are pending." in frame[0]
        assert "Ctrl-C ends it" in frame[-1]
        os.write(terminal.master, b"\x03")
        assert terminal.wait_for_end() == 130
        after = terminal.text.rpartition(MAIN_SCREEN)[2]
        assert [name for name in names if name not in after] == []
    finally:
        terminal.close()


def test_sigterm_leaves_the_terminal_as_it_was(watching: Service) -> None:
    terminal = watch(watching, "pending", NO_COLOR="1")
    try:
        terminal.wait_until(lambda: "Ctrl-C ends it" in terminal.text)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait_for_end() == -signal.SIGTERM
        assert "1 pod is pending." in terminal.text.rpartition(MAIN_SCREEN)[2]
        assert termios.tcgetattr(terminal.slave) == terminal.before
    finally:
        terminal.close()


def test_an_error_at_the_start_is_printed_below(watching: Service) -> None:
    watching.refuse(f"{API}/namespaces/shop/pendingpods", 403, "Forbidden", "no")
    arguments = [*PLUGIN, "pending", "-n", "shop", "-w", "--endpoint", watching.url]
    terminal = PseudoTerminal(arguments, {**os.environ, "TERM": "xterm-256color"}, cwd=ROOT)
    try:
        assert terminal.wait_for_end() == 1
        assert "Error from server (Forbidden): no" in terminal.text.rpartition(MAIN_SCREEN)[2]
    finally:
        terminal.close()


def test_terminal_that_moves_no_cursor_gets_answers_below_each_other(watching: Service) -> None:
    terminal = watch(watching, "pending", TERM="dumb")
    try:
        terminal.wait_until(lambda: terminal.text.count("1 pod is pending.") == 2)
        assert "\x1b" not in terminal.text
    finally:
        terminal.close()


def test_pipe_gets_answers_below_each_other(watching: Service) -> None:
    watching.answer(f"{API}/namespaces/shop/pendingpods", pending("a"))
    arguments = [*PLUGIN, "pending", "-n", "shop", "-w", "--endpoint", watching.url]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while sum("pending" in line for line in lines) < 2:
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert "\x1b" not in "".join(lines)


def test_changes_ignore_the_width_of_columns() -> None:
    before = ["POD  NODE", "a    n1", "b    n2"]
    after = ["POD       NODE", "a         n1", "long-pod  n3"]
    assert find_changes(before, after) == ({2}, 0)
    assert find_changes(before, before[:2]) == (set(), 1)
    assert find_changes([], after) == ({0, 1, 2}, 0)
