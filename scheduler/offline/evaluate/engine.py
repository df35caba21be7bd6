"""Evaluates one pod against one cluster with the live scheduler's scheduling cycle, and binds nothing."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from herodotus_answers.decision import DecisionDocument, build_decision_document
from herodotus_record import reasons
from herodotus_record.codec import fill_derived
from herodotus_record.model import AttemptKey, Decision, DecisionPath, NodeTable, Reason, Source
from scheduler.config import Configuration, Registry, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.plugin import PodGroupStates
from scheduler.engine.framework.plugin_results import PluginError
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import FilterRun
from scheduler.engine.framework.waiting import WaitingPods
from scheduler.engine.framework.writes import NoWrites, Writes
from scheduler.engine.manifests.cluster import LoadedCluster
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.dynamic_resources import DynamicResources
from scheduler.engine.records import build
from scheduler.engine.records.build import AttemptData, RecordIdentity
from scheduler.engine.records.ids import uuid7
from scheduler.engine.suggestions.search import suggest
from scheduler.offline.evaluate.outcome import outcome_of, verdict_document

if TYPE_CHECKING:
    from scheduler.prometheus import BackgroundQuery

Json = dict[str, Any]

NOTES: Final = (Reason("evaluated"),)


class NoCluster:
    """The plugins' handle when there is no API server: objects from files, and no writes."""

    preempts = True
    evicts = True  # what kube-scheduler would do

    def __init__(self, objects: ClusterObjects | None = None) -> None:
        """Serve these objects, or none."""
        self.objects = objects or ClusterObjects()
        self.waiting_pods = WaitingPods()
        self.writes: Writes = NoWrites()

    def is_preempting(self, uid: str) -> bool:
        return False

    def node(self, name: str) -> Node | None:
        """Raise RuntimeError. No plugin needs a node by name while pods are only evaluated."""
        raise RuntimeError("evaluate binds nothing")

    @property
    def pod_groups(self) -> PodGroupStates:
        raise RuntimeError("evaluate decides no pod groups")

    def query_metrics(self, url: str, query: str, label: str, *, every_s: float, timeout_s: float) -> BackgroundQuery:
        from scheduler.prometheus import query_in_background  # here, because few profiles need its HTTP client

        return query_in_background(url, query, label, every_s=every_s, timeout_s=timeout_s)


@dataclass(frozen=True)
class EvaluatedPod:
    """The result of deciding one pod, with the profile (in `framework`) and the nodes against which it was decided."""

    framework: Framework
    nodes: NodeColumns
    pod: PodInfo
    result: CycleResult

    def outcome(self) -> Json:
        """Return each plugin's results as a JSON document in the format of tests/golden/README.md.

        Unlike in the cycle, the pod's nominated node is ignored so that every node is filtered, and a single feasible
        node is scored too.
        """
        if self.result.path is DecisionPath.NOMINATED:
            status = msgspec.structs.replace(self.pod.pod.status, nominated_node_name="")
            pod = PodInfo(msgspec.structs.replace(self.pod.pod, status=status))
            return _evaluate(self.framework, self.nodes, pod).outcome()
        trace, score_error = self.result.trace, ""
        if self.result.path is DecisionPath.ONLY_FEASIBLE:
            try:
                self.framework.run_scores(self.result.state, self.pod, self.nodes, trace.feasible, trace)
            except PluginError as e:
                score_error = reasons.format_error(str(e), self.framework.profile.rules.version)
        outcome = outcome_of(self.framework.profile, self.nodes, self.result, self._filter_everywhere(), score_error)
        kept_out = self.framework.run_pre_enqueue(self.pod)
        if kept_out is not None:
            outcome["preEnqueue"] = verdict_document(kept_out.verdict, self.framework.profile.rules.version)
        return outcome

    def _filter_everywhere(self) -> list[FilterRun]:
        """Return each filter's verdicts on every node, without nominated pods.

        In the cycle, DynamicResources does not run on nodes that an earlier filter rejected. It runs again here, with a
        new cycle state, because it keeps results from node to node.
        """
        runs = list(self.result.trace.filters_without_nominated)
        for i, plugin in enumerate(self.framework.profile.filter[: len(runs)]):
            if isinstance(plugin, DynamicResources) and not runs[i].skipped:
                state = CycleState()
                plugin.pre_filter(state, self.pod, self.nodes)
                runs[i] = FilterRun(plugin.name, False, plugin.filter(state, self.pod, self.nodes))
        return runs

    def decision(self) -> DecisionDocument:
        """Return the record of the attempt as a JSON document of kind Decision."""
        decision, table = self.record()
        return build_decision_document(decision, (), table)

    def record(self) -> tuple[Decision, NodeTable]:
        """Return the record of the attempt, and its node table."""
        incarnation, now_us = str(uuid.uuid4()), time.time_ns() // 1000
        table = NodeTable()
        table.apply(build.node_rows(self.nodes, range(self.nodes.slots), "", incarnation, base=-1))
        profile, result = self.framework.profile.scheduler_name, self.result
        times = build.build_evaluation_times(self.pod, result, now_us)
        attempt = AttemptData(self.pod, 1, profile, Snapshot.from_columns(self.nodes), result, times, 0)
        attempt = attempt._replace(suggestions=suggest(self.framework, self.pod, self.nodes, result))
        key = AttemptKey("", Source.RECONSTRUCTED, incarnation, self.pod.uid, 1)
        scheduler = build.describe_scheduler(profile, "evaluate", self.framework.profile.rules)
        identity = RecordIdentity(uuid7(), key, 1, scheduler)
        return fill_derived(build.decision(attempt, identity, notes=NOTES)), table


class Engine:
    """Decides pods on one cluster with one profile, and keeps the state that plugins build about the cluster.

    `not_asked` holds notes for records about extenders that a live scheduler would call and this engine does not.
    """

    def __init__(self, cluster: LoadedCluster, config: Configuration, registry: Registry, profile: int = 0) -> None:
        """Build the profile at index `profile` of the configuration. Raise ConfigError if it cannot be built.

        `registry` holds the available plugins.
        """
        self.nodes = cluster.nodes
        self.not_asked = [Reason("extender-not-evaluated", {"extender": e.url_prefix}) for e in config.extenders]
        built = build_profile(config, profile, registry, NoCluster(cluster.objects))
        self.framework = Framework(built, time.monotonic, (), cluster.nominator)
        self.framework.prepare(self.nodes)

    def evaluate(self, pod: PodInfo) -> EvaluatedPod:
        """Run one scheduling cycle for the pod and return its result. The pod is not added to a node."""
        evaluated = _evaluate(self.framework, self.nodes, pod)
        evaluated.result.trace.notes += self.not_asked
        return evaluated


def _evaluate(framework: Framework, nodes: NodeColumns, pod: PodInfo) -> EvaluatedPod:
    with _gc_frozen():
        result = schedule_regardless_of_group(framework, pod, Snapshot.from_columns(nodes), seed=0)
    return EvaluatedPod(framework, nodes, pod, result)


@contextmanager
def _gc_frozen() -> Iterator[None]:
    """Context manager that excludes all present objects from garbage collection while the block runs."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
