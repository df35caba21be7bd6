"""For kube-scheduler's recorded traffic our client sends the same bytes, reads the same answers, decides the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler.config import Configuration, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.extender import PreemptionCandidate
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.extenders import recordings
from tests.scheduler.extenders.recordings import Exchange, Step
from tests.scheduler.extenders.stub import Stub, client, stub

Json = dict[str, Any]
WEIGHT = 2  # of the recorded extender


@pytest.fixture(scope="module")
def extender() -> Iterator[Stub]:
    with stub() as running:
        yield running


def label(exchange: Exchange) -> str:
    return f"{exchange.verb} {exchange.pod}"


def ask(exchange: Exchange, extender: Stub, *, names_only: bool) -> Any:
    """Have our client say what kube-scheduler said, and read the recorded answer."""
    request = exchange.request
    pod = recordings.pod_of(request["Pod"])
    extender.answer(exchange.verb, exchange.answer)
    with client(extender.url, node_cache_capable=names_only) as ours:
        if exchange.verb == "preempt":
            return ours.preempt(pod, candidates(request))
        nodes = [recordings.node_of(n) for n in (request["Nodes"] or {}).get("items", [])] or [
            recordings.node_of({"metadata": {"name": name}}) for name in request["NodeNames"]
        ]
        return (ours.filter if exchange.verb == "filter" else ours.prioritize)(pod, nodes)


def candidates(request: Json) -> list[PreemptionCandidate]:
    whole = request["NodeNameToVictims"] or {
        node: {
            **v,
            "Pods": [{"metadata": {"name": "", "uid": p["UID"]}, "spec": {"nodeName": node}} for p in v["Pods"]],
        }
        for node, v in request["NodeNameToMetaVictims"].items()
    }
    return [
        PreemptionCandidate(node, tuple(recordings.pod_of(p, running=True) for p in v["Pods"]), v["NumPDBViolations"])
        for node, v in whole.items()
    ]


@pytest.mark.parametrize("exchange", recordings.exchanges(recordings.NODES), ids=label)
def test_whole_nodes_are_sent_byte_for_byte(exchange: Exchange, extender: Stub) -> None:
    ask(exchange, extender, names_only=False)
    assert extender.requests[-1].body == exchange.body


@pytest.mark.parametrize("exchange", recordings.exchanges(recordings.NAMES), ids=label)
def test_node_names_are_sent_byte_for_byte(exchange: Exchange, extender: Stub) -> None:
    ask(exchange, extender, names_only=True)
    assert extender.requests[-1].body == exchange.body


def test_requests_have_the_path_and_the_content_type(extender: Stub) -> None:
    ask(recordings.exchanges(recordings.NAMES)[0], extender, names_only=True)
    request = extender.requests[-1]
    assert (request.path, request.headers["Content-Type"]) == ("/ext/filter", "application/json")


@pytest.mark.parametrize("recording", [recordings.NODES, recordings.NAMES])
def test_answers_are_read(recording: str, extender: Stub) -> None:
    """Which nodes are left, why the others are not, how many points each has, which pods go."""
    for exchange in recordings.exchanges(recording):
        said, answer = ask(exchange, extender, names_only=recording == recordings.NAMES), exchange.answer
        if exchange.verb == "prioritize":
            assert said.points == {entry["Host"]: entry["Score"] for entry in answer}
        elif exchange.verb == "preempt":
            assert {node: (list(s.uids), s.pdb_violations) for node, s in said.items()} == {
                node: ([p["UID"] for p in v["Pods"]], v["NumPDBViolations"])
                for node, v in answer["NodeNameToMetaVictims"].items()
            }
        else:
            whole = answer["Nodes"]["items"] if "Nodes" in answer else ()
            left = answer.get("NodeNames", [node["metadata"]["name"] for node in whole])
            assert said.passed == set(left)
            assert (said.failed, said.unresolvable) == (answer["FailedNodes"], answer["FailedAndUnresolvableNodes"])


# --- the whole recording again, decided by our cycle ------------------------------------------------------------------


class Replay:
    """Our engine in the recorded cluster: what was chosen and evicted then is what it finds at the next attempt."""

    def __init__(self, extender: Stub, framework: Framework) -> None:
        self.extender = extender
        self.nodes = NodeColumns()
        for node in recordings.nodes():
            self.nodes.set_node(node)
        self._framework = framework
        self._exchanges = recordings.exchanges(recordings.NODES)
        # how a victim looked when it was bound, by UID: what else is known of a bound pod matters to no decision here
        self._victims = {
            pod["metadata"]["uid"]: pod
            for exchange in self._exchanges
            for victims in exchange.request.get("NodeNameToVictims", {}).values()
            for pod in victims["Pods"]
        }
        self._running: dict[str, tuple[PodInfo, str]] = {}
        self._pod: PodInfo | None = None  # of the attempt under way

    def begin(self, step: Step) -> list[Exchange]:
        """Return the exchanges of the attempt that begins here; none if the extender was not called."""
        asked: list[Exchange] = []
        while self._exchanges and self._exchanges[0].pod == step.pod and self._first_of(asked):
            asked.append(self._exchanges.pop(0))
        self._pod = recordings.pod_of(asked[0].request["Pod"]) if asked else None
        return asked

    def _first_of(self, asked: list[Exchange]) -> bool:
        """Filter and prioritize belong to one attempt; preempt ends one."""
        return not asked or (asked[-1].verb, self._exchanges[0].verb) == ("filter", "prioritize")

    def decide(self, asked: list[Exchange]) -> CycleResult:
        assert self._pod is not None
        self.extender.requests.clear()
        for exchange in asked:
            self.extender.answer(exchange.verb, exchange.answer)
        return schedule(self._framework, self._pod, Snapshot.from_columns(self.nodes), seed=0)

    def end(self, step: Step) -> None:
        if step.what == "chosen" and step.detail:
            assert self._pod is not None
            victim = self._victims.get(self._pod.uid)
            info = recordings.pod_of(victim, running=True) if victim else replace(self._pod, running=True)
            self._running[step.pod] = info, step.detail
            self.nodes.add_pod(info, step.detail)
        elif step.what == "gone":
            info, node = self._running.pop(step.pod)
            self.nodes.remove_pod(info.uid, node)


def canonical(request: Json) -> Json:
    """Kube-scheduler's own order of nodes is that of its threads."""
    if request.get("Nodes"):
        items = sorted(request["Nodes"]["items"], key=lambda node: node["metadata"]["name"])
        return {**request, "Nodes": {**request["Nodes"], "items": items}}
    return request


def test_the_recorded_run_is_decided_alike(extender: Stub) -> None:
    """Every attempt has the same requests and points, and the chosen node has the best total.

    If no node was left, it has the same victims.
    """
    config, decided, mistaken = Configuration(), [], []
    with client(extender.url, weight=WEIGHT) as ours:
        profile = build_profile(config, 0, IN_TREE, NoCluster())
        replay = Replay(extender, Framework(profile, time.monotonic, [ours]))
        result = None
        for step in recordings.steps():
            if step.what == "attempt":
                asked = replay.begin(step)
                result = replay.decide(asked) if asked else None
                if result is not None:
                    sent = [canonical(request.json) for request in extender.requests]
                    assert sent == [canonical(exchange.request) for exchange in asked], step
            elif result is not None and step.what == "chosen":
                decided.append(step.pod)
                if step.detail not in best(result, replay.nodes):
                    mistaken.append((step, best(result, replay.nodes), totals(result, replay.nodes)))
                check_points(result, replay.nodes, asked)
            elif result is not None and step.what == "no-fit":
                decided.append(step.pod)
                assert result.message == step.detail
                preempted = result.trace.preemption
                assert preempted is not None
                (node,) = asked[-1].answer["NodeNameToMetaVictims"]
                assert preempted.nominated_node == node
            replay.end(step)
    assert mistaken == []
    assert len(decided) == 22


def totals(result: CycleResult, nodes: NodeColumns) -> dict[str, int]:
    trace = result.trace
    assert trace.totals is not None
    return {nodes.names[slot]: int(trace.totals[slot]) for slot in np.flatnonzero(trace.feasible)}


def best(result: CycleResult, nodes: NodeColumns) -> list[str]:
    if result.trace.totals is None:
        assert result.chosen is not None
        return [nodes.names[result.chosen]]
    by_node = totals(result, nodes)
    return [node for node, total in by_node.items() if total == max(by_node.values())]


def check_points(result: CycleResult, nodes: NodeColumns, asked: list[Exchange]) -> None:
    """Check that the column has the extender's answer, and its share of the total ten times that times the weight."""
    given = [exchange.answer for exchange in asked if exchange.verb == "prioritize"]
    if not given:
        assert result.trace.totals is None
        return
    run = result.trace.scores[-1]
    assert run.raw is not None
    assert run.normalized is not None
    for entry in given[0]:
        slot = nodes.index[entry["Host"]]
        assert (run.raw[slot], run.normalized[slot], run.weight) == (entry["Score"], entry["Score"] * 10, WEIGHT)
