"""What made up a score: the score plugins say it of the best two nodes, and answers name what differs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from herodotus_answers.pod import ScoreMargin, build_pod_explanation
from herodotus_record import codec
from herodotus_record.codec.columns import fill_derived
from herodotus_record.model import AttemptKey, Decision, NodeTable, SchedulerInfo, Source
from herodotus_record.reason_parameters import SCORE_PARAMETERS
from scheduler.config import build_profile, parse_config
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.image_locality import ImageLocality
from scheduler.engine.records.build import (
    AttemptData,
    RecordIdentity,
    build_evaluation_times,
    decision,
    node_rows,
)
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import MIB, NodeBuilder, PodBuilder, columns_of, expression, make_node, make_pod, term
from tests.support.configurations import HEAD

ZONE = "topology.kubernetes.io/zone"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def record(columns: NodeColumns, pod: PodBuilder) -> tuple[Decision, NodeTable]:
    """Return the decision about a pod, encoded and decoded again, and its node table."""
    profile = build_profile(parse_config(HEAD), 0, IN_TREE, NoCluster())
    snapshot, info = Snapshot.from_columns(columns), pod.info()
    result = schedule(Framework(profile, time.monotonic), info, snapshot, seed=0)
    data = AttemptData(info, 1, "p", snapshot, result, build_evaluation_times(info, result, 1), 0)
    identity = RecordIdentity("i", AttemptKey("c", Source.SCHEDULER, "i", info.uid, 1), 1, SchedulerInfo("p", "x", "1"))
    table = NodeTable()
    table.apply(node_rows(columns, range(columns.slots), "c", "i", -1))
    decoded = codec.decode(codec.encode(decision(data, identity)))
    assert isinstance(decoded, Decision)
    return fill_derived(decoded), table


def explain(nodes: list[NodeBuilder], pod: PodBuilder, running: list[PodBuilder] | None = None) -> ScoreMargin:
    margin = build_pod_explanation(*_with_outcomes(*record(columns_of(nodes, running or []), pod)))["margin"]
    assert margin is not None
    for each in margin["reasons"]:
        for reason in (*each["best"], *each["runnerUp"]):
            assert reason["params"].keys() == SCORE_PARAMETERS[reason["code"]].keys()
    return margin


def _with_outcomes(recorded: Decision, table: NodeTable) -> tuple[Decision, tuple[()], NodeTable]:
    return recorded, (), table


def texts(margin: ScoreMargin) -> dict[str, str]:
    return {each["plugin"]: each["text"] for each in margin["reasons"]}


def prefer_pods(pod: PodBuilder, weight: int, key: str, kind: str = "podAffinity", **labels: str) -> PodBuilder:
    wanted = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    terms = pod.spec.setdefault("affinity", {}).setdefault(kind, {}).setdefault(PREFERRED, [])
    terms.append({"weight": weight, "podAffinityTerm": wanted})
    return pod


def test_a_preferred_term_of_the_node_affinity_is_named_with_its_weight() -> None:
    pod = make_pod().preferred(40, term(expression("disk", "In", "ssd")))
    pod.preferred(5, term(expression("arch", "Exists")))
    nodes = [make_node("a").label("disk", "ssd").label("arch", "x"), make_node("b").label("arch", "x")]
    assert texts(explain(nodes, pod)) == {"NodeAffinity": "preferred disk=ssd (weight 40) against none"}


def test_a_preferred_term_of_both_nodes_is_named_if_it_decided_that_they_are_ahead() -> None:
    """The two best nodes differ by another plugin, but a third has more room and lacks the term."""
    nodes = [
        make_node("a").label("disk", "ssd").allocatable(cpu="8", memory="8Gi", pods="10"),
        make_node("b").label("disk", "ssd").allocatable(cpu="4", memory="4Gi", pods="10"),
        make_node("c").allocatable(cpu="64", memory="64Gi", pods="10"),
    ]
    pod = make_pod().request(cpu="1", memory="1Gi").preferred(40, term(expression("disk", "In", "ssd")))
    reasons = explain(nodes, pod)["reasons"]
    assert [each["plugin"] for each in reasons] == ["NodeResourcesFit", "NodeAffinity"]
    assert reasons[1]["points"] == 0
    assert reasons[1]["text"] == "both have preferred disk=ssd (weight 40); without it c would have won"
    assert "NodeAffinity" not in texts(explain(nodes[:2], pod)), "without it the same node would have won"


def test_the_taints_are_named_that_the_pod_does_not_tolerate() -> None:
    nodes = [
        make_node("a").taint("spot", "true", "PreferNoSchedule").taint("old", effect="PreferNoSchedule"),
        make_node("b").taint("old", effect="PreferNoSchedule"),
    ]
    pod = make_pod().toleration("old", operator="Exists")
    assert texts(explain(nodes, pod)) == {"TaintToleration": "none against taint spot=true:PreferNoSchedule"}


def test_an_image_is_named_with_its_size() -> None:
    nodes = [make_node("a").image(900 * MIB, "web:1"), make_node("b").image(500 * MIB, "other:1")]
    assert texts(explain(nodes, make_pod().image("web:1", "other"))) == {
        "ImageLocality": "image web:1 (900Mi) against none"
    }


@pytest.mark.parametrize("skew", [1, 4])
def test_matching_pods_are_counted_by_domain(skew: int) -> None:
    nodes = [make_node(f"n{i}").zone(zone).label("kubernetes.io/hostname", f"n{i}") for i, zone in enumerate("abb")]
    running = [make_pod(f"r{i}").label("app", "web").node(f"n{n}") for i, n in enumerate((0, 1, 1, 2))]
    pod = make_pod().label("app", "web")
    pod.spec["topologySpreadConstraints"] = [
        {
            "topologyKey": ZONE,
            "maxSkew": skew,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    margin = explain(nodes, pod, running)
    assert texts(margin)["PodTopologySpread"] == "1 matching pod in zone a against 3 matching pods in zone b"


def test_pods_are_counted_by_node_where_each_node_is_a_domain() -> None:
    nodes = [make_node(name).label("kubernetes.io/hostname", name) for name in ("a", "b")]
    running = [make_pod(f"r{i}").label("app", "web").node("b") for i in range(2)]
    pod = make_pod().label("app", "web")
    pod.spec["topologySpreadConstraints"] = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    assert (
        texts(explain(nodes, pod, running))["PodTopologySpread"] == "0 matching pods in a against 2 matching pods in b"
    )


def test_preferred_pod_affinity_of_both_sides_is_told_apart() -> None:
    nodes = [make_node("a").zone("x"), make_node("b").zone("y")]
    near = make_pod("near").label("app", "cache").node("a")
    away = prefer_pods(make_pod("away").node("b"), 7, ZONE, "podAntiAffinity", app="web")
    pod = prefer_pods(make_pod().label("app", "web"), 30, ZONE, app="cache")
    assert texts(explain(nodes, pod, [near, away])) == {
        "InterPodAffinity": "1 pod app=cache in zone x (weight 30) against"
        " 1 pod in zone y whose affinity is about this one (weight -7)"
    }


def test_many_terms_of_one_key_are_summed_up() -> None:
    nodes = [make_node("a").zone("x"), make_node("b").zone("y")]
    running = [make_pod(f"r{i}").label("app", str(i)).node("a") for i in range(3)]
    pod = make_pod()
    for i in range(12):
        prefer_pods(pod, 2, ZONE, app=str(i))
    (found,) = explain(nodes, pod, running)["reasons"][0]["best"]
    assert (found["code"], found["params"]["terms"], found["params"]["weight"]) == (
        "preferred-pod-affinity-sum",
        "12",
        "6",
    )


@pytest.mark.parametrize("order", [1, -1])
def test_a_single_term_with_more_effect_comes_before_a_sum(order: int) -> None:
    nodes = [make_node("a").zone("x").label("rack", "r"), make_node("b").zone("y").label("rack", "s")]
    running = [make_pod(f"r{i}").label("app", str(i)).node("a") for i in range(3)]
    pod = make_pod()
    for weight, key, app in [(10, "rack", 0), *((2, ZONE, i) for i in range(12))][::order]:
        prefer_pods(pod, weight, key, app=str(app))
    found = explain(nodes, pod, running)["reasons"][0]["best"]
    assert [(each["code"], each["params"]["weight"]) for each in found] == [
        ("preferred-pod-affinity", "10"),
        ("preferred-pod-affinity-sum", "6"),
    ]


def test_shares_of_resources_are_with_the_pod_and_only_those_that_differ() -> None:
    nodes = [make_node(name).allocatable(cpu="10", memory="10Gi", pods="10") for name in ("a", "b")]
    running = [make_pod("r").request(cpu="2", memory="0").node("b")]
    margin = explain(nodes, make_pod().request(cpu="1", memory="1Gi"), running)
    assert texts(margin)["NodeResourcesFit"] == "cpu 10% requested against cpu 30%"
    assert (margin["best"], margin["runnerUp"]) == ("a", "b")


def test_equal_totals_have_no_reasons_and_nothing_is_asked() -> None:
    nodes = [make_node("a"), make_node("b")]
    recorded, _ = record(columns_of(nodes), make_pod())
    assert recorded.score_reasons == ()
    assert explain(nodes, make_pod())["reasons"] == []


def test_a_plugin_that_fails_to_explain_leaves_the_decision_and_a_note(monkeypatch: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no idea")

    monkeypatch.setattr(ImageLocality, "explain_score", fail)
    nodes = [make_node("a").image(900 * MIB, "web:1"), make_node("b")]
    recorded, _ = record(columns_of(nodes), make_pod().image("web:1"))
    assert (recorded.chosen, recorded.score_reasons) == (0, ())
    assert [note.params for note in recorded.notes] == [{"plugin": "ImageLocality", "error": "no idea"}]
