"""How many other waiting pods a suggestion helps: what is counted, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.config import Configuration, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.suggestions import helped
from scheduler.engine.suggestions.search import Suggester
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import NodeBuilder, PodBuilder, columns_of, make_node, make_pod


def waiting(name: str, cpu: str = "1", owner: str = "", namespace: str = "default") -> PodBuilder:
    pod = make_pod(name, namespace).request(cpu=cpu)
    return (pod.owner("ReplicaSet", owner) if owner else pod).condition("PodScheduled", "False", "Unschedulable", "0/1")


def count(nodes: Sequence[NodeBuilder], pod: PodBuilder, others: Sequence[PodBuilder]) -> dict[str, int]:
    """Return, by the kinds of a suggestion's changes, how many of the other pods it helps."""
    framework, columns = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), lambda: 0.0), cluster(nodes)
    result = schedule(framework, pod.info(), Snapshot.from_columns(columns), seed=1)
    found = Suggester(lambda: 0.0).suggest(
        framework, pod.info(), columns, result, [each.info() for each in (pod, *others)]
    )
    return {"+".join(change.code for change in suggestion.changes): suggestion.helps for suggestion in found}


def cluster(nodes: Sequence[NodeBuilder]) -> NodeColumns:
    return columns_of(nodes)


def test_a_change_of_the_node_helps_every_pod_that_then_fits_there_alone() -> None:
    others = [waiting("a", "2"), waiting("b", "2", namespace="other"), waiting("large", "9")]
    found = count([make_node("n").allocatable(cpu="4", pods="9").cordoned()], waiting("p"), others)
    assert found["uncordon"] == 2


def test_a_pod_that_nobody_has_rejected_does_not_count() -> None:
    fresh = make_pod("fresh").request(cpu="1")
    found = count([make_node("n").allocatable(cpu="4", pods="9").cordoned()], waiting("p"), [fresh])
    assert found["uncordon"] == 0


def test_a_change_of_the_pod_helps_its_siblings_only() -> None:
    others = [waiting("sibling", "6", "rs"), waiting("stranger", "6", "other"), waiting("bare", "6")]
    found = count([make_node("n").allocatable(cpu="4", pods="9")], waiting("p", "6", "rs"), others)
    assert found["set-request"] == 1


def test_a_tolerance_for_the_taint_helps_siblings_and_no_stranger() -> None:
    nodes = [make_node("n").allocatable(cpu="4", pods="9").taint("team", "x")]
    found = count(nodes, waiting("p", owner="rs"), [waiting("sibling", owner="rs"), waiting("stranger", "2")])
    assert found["add-toleration"] == 1


def test_the_work_is_bounded_by_templates() -> None:
    others = [waiting(f"p{i}", f"{100 + i}m") for i in range(helped.MAX_CHECKED + 5)]
    found = count([make_node("n").allocatable(cpu="4", pods="9").cordoned()], waiting("p"), others)
    assert found["uncordon"] == helped.MAX_CHECKED


def test_pods_are_looked_at_up_to_a_bound() -> None:
    infos: list[PodInfo] = [waiting(f"p{i}").info() for i in range(helped.MAX_WAITING + 5)]
    assert len(helped.list_unschedulable(infos, infos[0])) == helped.MAX_WAITING
