"""A pod whose terms were counted in parts, while the cluster changed, is decided and recorded as any other pod."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_record import codec
from herodotus_record.model import AttemptKey, SchedulerInfo, Source
from scheduler.config import Configuration, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.inter_pod_affinity import terms
from scheduler.engine.records.build import AttemptData, RecordIdentity, build_evaluation_times, decision
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PodBuilder, columns_of, make_node, make_pod
from tests.support.examples import examples

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = ("a", "b", "c")
NODES = tuple("wxyz")
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))

placed = st.lists(st.tuples(st.sampled_from(APPS), st.sampled_from(NODES), st.booleans()), max_size=8)
term = st.builds(
    lambda app, key: {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}},
    st.sampled_from(APPS),
    st.sampled_from([HOST, ZONE, "absent"]),
)
constraint = st.builds(
    lambda app, key, unsatisfiable: {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": {"matchLabels": {"app": app}},
    },
    st.sampled_from(APPS),
    st.sampled_from([HOST, ZONE]),
    st.sampled_from(["ScheduleAnyway", "DoNotSchedule"]),
)
weighted = st.builds(lambda t, w: {"weight": w, "podAffinityTerm": t}, term, st.integers(1, 100))
affinity = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.lists(term, max_size=4),
        PREFERRED: st.lists(weighted, max_size=8),
    },
)


def framework() -> Framework:
    return Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), lambda: 0.0)


def cluster(pods: list[PodInfo]) -> NodeColumns:
    nodes = columns_of([make_node(name).label(HOST, name).label(ZONE, f"zone-{i % 2}") for i, name in enumerate(NODES)])
    for pod in pods:
        nodes.add_pod(pod, pod.pod.spec.node_name)
    return nodes


def running(name: str, app: str, node: str, repels: bool) -> PodInfo:
    made = make_pod(name).label("app", app).node(node)
    if repels:
        selector = {"matchLabels": {"app": "b"}}
        made.spec["affinity"] = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": selector}]}}
    return made.info()


def encode(of: Framework, pod: PodInfo, nodes: NodeColumns) -> bytes:
    """Return the whole record of the pod's next attempt."""
    snapshot = Snapshot.from_columns(nodes)
    result = schedule(of, pod, snapshot, seed=7)
    data = AttemptData(
        pod=pod,
        number=1,
        profile="default-scheduler",
        snapshot=snapshot,
        result=result,
        times=build_evaluation_times(pod, result, 1),
        seed=7,
    )
    identity = RecordIdentity(
        "id", AttemptKey("c", Source.SCHEDULER, "i", pod.uid, 1), 1, SchedulerInfo("p", "test", "1")
    )
    return codec.encode(replace(decision(data, identity), generation=0))  # which counts changes of the cluster


@settings(max_examples=examples(40), deadline=None)
@given(affinity, affinity, st.lists(constraint, max_size=3), placed, placed, st.integers(1, 5))
def test_the_record_of_a_pod_prepared_in_parts_equals_that_of_an_ordinary_cycle(
    near: dict[str, Any], away: dict[str, Any], spread: list[Any], before: Any, after: Any, steps: int
) -> None:
    made: PodBuilder = make_pod("new").label("app", "b")
    made.spec["affinity"] = {"podAffinity": near, "podAntiAffinity": away}
    made.spec["topologySpreadConstraints"] = spread
    pod, numbers = made.info(), count()
    first, later = ([running(f"r{next(numbers)}", *each) for each in some] for some in (before, after))
    prepared, nodes = framework(), cluster(first)
    with patch.object(terms, "PART", 1):
        for other in later:  # one part of the counts, then a change of the cluster
            left = iter([True] * steps)
            prepared.prepare_pod(pod, nodes, lambda left=left: next(left, False))  # type: ignore[misc]
            nodes.add_pod(other, other.pod.spec.node_name)
        removed = first[: len(first) // 2]
        for other in removed:
            nodes.remove_pod(other.uid, other.pod.spec.node_name)
        in_parts = encode(prepared, pod, nodes)
        assert encode(prepared, pod, nodes) == in_parts
    same = cluster([])
    for other in (*first, *later):
        same.add_pod(other, other.pod.spec.node_name)
    for other in removed:
        same.remove_pod(other.uid, other.pod.spec.node_name)
    assert in_parts == encode(framework(), pod, same)
