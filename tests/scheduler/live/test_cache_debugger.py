"""What the scheduler believes is put into the log, and where the API server says otherwise is named."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from herodotus_record import klog
from scheduler.live import cache_debugger as module
from scheduler.live.cache_debugger import CacheDebugger, CacheDump, NodeDump, compare
from tests.kube.servers import api_of, status
from tests.processes import eventually
from tests.scheduler.builders import PROFILE, make_node, make_pod
from tests.support.scheduling_loop import LoopWorld

SELECTOR = {"fieldSelector": "status.phase!=Failed"}


def node(name: str, *pods: str, deleted: bool = False) -> NodeDump:
    return NodeDump(name, deleted, {}, {}, tuple(make_pod(p).info() for p in pods))


def uid(name: str) -> str:
    return make_pod(name).info().uid


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        ({"a", "b"}, {"p": "a", "q": "b", "w": ""}, []),
        ({"a", "c"}, {"p": "a", "q": "b", "w": ""}, [{"missedNodes": ["c"], "redundantNodes": ["b"]}]),
        ({"a", "b"}, {"p": "a", "n": ""}, [{"missedPods": ["n"], "redundantPods": ["q", "w"]}]),
        ({"a", "b"}, {"p": "b", "q": "b", "w": ""}, [{"misplacedPods": ["p"]}]),
    ],
    ids=["the same", "nodes", "pods", "a pod elsewhere"],
)
def test_comparison_lists_differences(
    nodes: set[str], pods: dict[str, str], expected: list[dict[str, list[str]]]
) -> None:
    dump = CacheDump((node("a", "p"), node("b", "q"), node("gone", deleted=True)), (make_pod("w").info(),), {})
    found = compare(dump, nodes, {uid(name): on for name, on in pods.items()})
    names = {uid(name): name for name in ("p", "q", "w", "n")}
    assert [{key: [names.get(v, v) for v in values] for key, values in m.items()} for m in found] == expected


class Lists:
    """An API server's lists, a page an object."""

    def __init__(self, **items: list[dict[str, Any]]) -> None:
        self.items = items

    def __call__(self, request: httpx.Request) -> httpx.Response:
        kind = request.url.path.rsplit("/", 1)[1]
        params = dict(request.url.params)
        assert (params.get("fieldSelector") is not None) == (kind == "pods")
        at = int(params.get("continue", "0"))
        more = {"continue": str(at + 1)} if at + 1 < len(self.items[kind]) else {}
        return httpx.Response(200, json={"metadata": more, "items": self.items[kind][at : at + 1]})


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    klog.setup(0, stream)
    return stream


def lines(log: io.StringIO) -> list[str]:
    return re.findall(r'\] "([^"]*)"', log.getvalue())


def in_the_loop_s_thread(world: LoopWorld, run: Any) -> None:
    """Run, while the loop goes round."""
    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        world.loop.step(0.01)
    thread.join()


def a_world(tmp_path: Path) -> LoopWorld:
    world = LoopWorld(tmp_path)
    world.nodes(make_node("a"))
    world.pods(make_pod("on-a").node("a"), make_pod("waits").scheduler(PROFILE).gate("g"))
    world.loop.step(0.0)
    return world


def test_cache_and_queue_are_dumped_and_compared(tmp_path: Path, log: io.StringIO) -> None:
    world = a_world(tmp_path)
    others = make_pod("another-scheduler-s").scheduler("other").json
    there = Lists(
        nodes=[make_node("a").json, make_node("new").json],
        pods=[make_pod("on-a").node("a").json, make_pod("waits").scheduler(PROFILE).json, others],
    )
    debugger = CacheDebugger(world.loop, api_of(there), {PROFILE}, SELECTOR)
    in_the_loop_s_thread(world, debugger.write_dump_and_mismatches)
    assert lines(log) == [
        "Dump of cached NodeInfo",
        "Dump of scheduling queue",
        "Cache mismatch",
        "Cache comparer finished",
    ]
    dump = log.getvalue()
    assert "Node name: a\n\tDeleted: false\n\tRequested Resources: {'pods': 1}" in dump
    assert "Scheduled Pods(number: 1):\n\tname: on-a, namespace: default" in dump
    assert "name: waits, namespace: default" in dump
    assert "gated:1" in dump
    assert 'missedNodes=["new"] redundantNodes=[]' in dump


@pytest.mark.parametrize(
    "answer",
    [status(500, message="broken"), httpx.Response(200, text="<html>")],
    ids=["it says no", "it is none"],
)
def test_without_the_api_server_the_dump_is_there_all_the_same(
    tmp_path: Path, log: io.StringIO, answer: httpx.Response
) -> None:
    world = a_world(tmp_path)
    debugger = CacheDebugger(world.loop, api_of(lambda request: answer), {PROFILE}, SELECTOR)
    debugger.start()
    debugger.wake()
    in_the_loop_s_thread(world, lambda: eventually(lambda: "Cannot compare" in log.getvalue(), "the error"))
    assert lines(log)[0] == "Dump of cached NodeInfo"


def test_stalled_loop_is_reported(tmp_path: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.01)
    debugger = CacheDebugger(a_world(tmp_path).loop, api_of(Lists()), {PROFILE}, SELECTOR)
    debugger.start()
    debugger.wake()
    eventually(lambda: "The scheduling loop does not answer" in log.getvalue(), "the error")


def test_the_signal_wakes_it(tmp_path: Path, log: io.StringIO) -> None:
    world = a_world(tmp_path)
    there = Lists(nodes=[make_node("a").json], pods=[make_pod("on-a").node("a").json])
    debugger = CacheDebugger(world.loop, api_of(there), {PROFILE}, SELECTOR)
    debugger.start()
    before = signal.signal(signal.SIGUSR2, debugger.wake)
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        in_the_loop_s_thread(world, lambda: eventually(lambda: "comparer finished" in log.getvalue(), "the dump"))
    finally:
        signal.signal(signal.SIGUSR2, before)
