"""`evaluate`: decide recorded cases, one JSON object a line in and one out, with the engine of the live scheduler.

Owns: the form of a case and of its outcome (tests/golden/README.md). Does not own: any decision; that is `cycle`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from herodotus_record import reasons
from herodotus_record.model import Code, Path, Verdict
from scheduler.columns import NodeColumns, Snapshot
from scheduler.config import ConfigError, Configuration, build_profile, read
from scheduler.cycle import CycleResult, schedule
from scheduler.framework.runtime import Framework, PluginError, message_of
from scheduler.framework.trace import FilterRun, ScoreRun
from scheduler.kube.kinds import KINDS
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Pod
from scheduler.plugins import IN_TREE

Json = dict[str, Any]


class CaseError(ValueError):
    """A case that cannot be decided: its id and the field that is wrong."""


class NoCluster:
    """The plugins' handle where there is nothing to bind to."""

    evicts = True  # what kube-scheduler would do
    binds_volumes = True  # likewise

    def __init__(self, objects: ClusterObjects | None = None) -> None:
        self.objects = objects or ClusterObjects()

    def bind(self, pod: PodInfo, node: str) -> None:
        """Never asked by a cycle."""
        raise RuntimeError("evaluate binds nothing")


def evaluate_lines(lines: Iterable[str], config: Configuration | None) -> Iterator[Json | CaseError]:
    """The outcome of each case, or what is wrong with it. `config`: for cases that bring none of their own."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            if not isinstance(case, dict):
                raise CaseError(f"line {number}: a case is a JSON object")
            yield evaluate(case, config)
        except (json.JSONDecodeError, RecursionError) as e:
            yield CaseError(f"line {number}: not JSON: {e}")
        except CaseError as e:
            yield e


def evaluate(case: Mapping[str, Any], config: Configuration | None = None) -> Json:
    """One case's outcome: {"id", "expect"}. CaseError when the case is malformed."""
    name = str(case.get("id", "?"))
    try:
        if case.get("config"):
            config = read(json.dumps(case["config"]), default_name="default-scheduler")
        nodes, objects = load_objects(case.get("objects") or ())
        profile = build_profile(config or Configuration(), 0, IN_TREE, NoCluster(objects))
        framework = Framework(profile, time.monotonic)
        pod = PodInfo(msgspec.convert(case.get("pod"), Pod))
        assert pod.requests is not None  # ValueError when an amount is none
    except (ConfigError, msgspec.ValidationError, ValueError) as e:
        raise CaseError(f"case {name}: {e}") from e
    result = schedule(framework, pod, Snapshot.of(nodes), seed=0)
    if result.path is Path.ONLY_FEASIBLE:  # kube-scheduler would not score; the recordings do
        with suppress(PluginError):
            framework.run_scores(result.state, pod, nodes, result.trace.feasible, result.trace)
    return {"id": name, "expect": _expect(framework, nodes, result)}


def load_objects(manifests: object) -> tuple[NodeColumns, ClusterObjects]:
    """A cluster from its objects: nodes with the pods bound to them, and every other kind that some plugin reads."""
    nodes, objects, pods = NodeColumns(), ClusterObjects(), []
    kinds = {kind.decode_as.__name__: kind.decode_as for kind in KINDS}
    if not isinstance(manifests, list | tuple):
        raise ValueError("objects: expected an array")
    for i, manifest in enumerate(manifests):
        if not isinstance(manifest, Mapping):
            raise ValueError(f"objects[{i}]: expected an object")
        kind = str(manifest.get("kind"))
        try:
            if kind == "Node":
                nodes.set_node(msgspec.convert(manifest, Node))
            elif kind == "Pod":
                pods.append(PodInfo(msgspec.convert(manifest, Pod), running=True))
            elif kind in kinds:
                objects.set(msgspec.convert(manifest, kinds[kind]))
        except ValueError as e:  # msgspec's, or an amount that is none
            raise ValueError(f"objects[{i}] ({kind}): {e}") from e
    for pod in pods:
        if pod.pod.spec.node_name and pod.pod.status.phase not in ("Succeeded", "Failed"):
            nodes.add_pod(pod, pod.pod.spec.node_name)
    return nodes, objects


def _expect(framework: Framework, nodes: NodeColumns, result: CycleResult) -> Json:
    trace = result.trace
    name = nodes.names
    evaluated, feasible = np.flatnonzero(trace.evaluated).tolist(), np.flatnonzero(trace.feasible).tolist()
    outcome: Json = {
        "preFilter": {"code": "Success"},
        "filterOrder": [plugin.name for plugin in framework.profile.filter],
        "scoreOrder": [plugin.name for plugin in framework.profile.score],
        "skippedFilters": [run.plugin for run in trace.filters if run.skipped],
        "skippedScores": [run.plugin for run in trace.scores if run.normalized is None],
        "feasible": [name[slot] for slot in feasible] or None,
        "filters": {name[slot]: row for slot in evaluated if (row := _verdicts(trace.filters, slot))},
        "firstFailure": {
            name[slot]: {
                "plugin": (run := trace.filters[int(trace.first[slot])]).plugin,
                **_said(run.verdicts.at(slot)),
            }
            for slot in evaluated
            if trace.first[slot] >= 0
        },
        "scores": {run.plugin: _points(run, name, feasible) for run in trace.scores if run.normalized is not None},
    }
    if trace.pre_filters:
        last = trace.pre_filters[-1]
        outcome["preFilter"] = {"plugin": last.plugin, **_said(last.verdict)}
    if trace.narrowed_by:
        outcome["preFilterNodes"] = [name[slot] for slot in evaluated]
    if trace.totals is not None:
        outcome["totals"] = {name[slot]: int(trace.totals[slot]) for slot in feasible}
    if result.message:
        outcome["fitError"] = result.message
    if trace.post_filters:
        last, found = trace.post_filters[-1], trace.preemption
        outcome["preemption"] = {"code": last.verdict.code.label, "message": message_of(last.verdict)}
        if found is not None:
            nominated = next(c for c in found.candidates if c.node == found.nominated)
            outcome["preemption"] |= {"nominatedNode": found.nominated, "victims": list(nominated.victims)}
    return outcome


def _verdicts(filters: Iterable[FilterRun], slot: int) -> Json:
    return {run.plugin: _said(v) for run in filters if (v := run.verdicts.at(slot)).code is not Code.SUCCESS}


def _said(verdict: Verdict) -> Json:
    return {"code": verdict.code.label, "reasons": [reasons.sentence(r) for r in verdict.reasons]}


def _points(run: ScoreRun, names: list[str], feasible: Iterable[int]) -> Json:
    assert run.raw is not None
    assert run.normalized is not None
    return {
        "raw": {names[slot]: int(run.raw[slot]) for slot in feasible},
        "normalized": {names[slot]: int(run.normalized[slot]) for slot in feasible},
        "weight": run.weight,
    }
