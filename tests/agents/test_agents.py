"""Each agent's scores and rejections through the whole service, and the effect of each setting."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import msgspec
import pytest

from herodotus_agents.agent import AgentError
from herodotus_agents.agents import pigeon
from herodotus_agents.registry import load_agents
from tests.agents.builders import JUST_NOW, LONG_AGO, Json, a_node, a_pod, feasible_nodes, points, service

CPU: Json = {"cpu": "500m", "memory": "0"}
RISKY = {"mean-free-cpu": "1200", "std-free-cpu": "400"}  # risk 0.254
OVER = {"mean-free-cpu": "700", "std-free-cpu": "400"}  # risk 0.841
CALM = {"mean-free-cpu": "2500", "std-free-cpu": "400"}


def test_safe_rejects_overloaded_nodes_with_a_reason() -> None:
    nodes = [a_node("calm", CALM), a_node("over", OVER), a_node("unknown")]
    accepted, rejected = feasible_nodes(service("safe"), "safe-overload", a_pod(**CPU), nodes)
    assert accepted == ["calm", "unknown"]
    assert rejected == {"over": "cpu: the risk of being used more than 90 % is 0.84, more than 0.30"}


@pytest.mark.parametrize(
    ("environment", "accepted"),
    [
        ({}, True),
        ({"SAFEPERCENTILE": "25"}, False),
        ({"SAFEUTILIZATION": "85"}, False),
        ({"SAFEUTILIZATION": "185"}, True),
        ({"SAFEPERCENTILE": "a quarter"}, True),
    ],
    ids=["defaults", "less risk", "lower threshold", "out of range is ignored", "no number is ignored"],
)
def test_settings_of_safe_flip_the_row_with_risk_0_254(environment: dict[str, str], accepted: bool) -> None:
    client = service("safe", environment=environment)
    assert bool(feasible_nodes(client, "safe-overload", a_pod(**CPU), [a_node("n", RISKY)])[0]) is accepted


def test_safe_scores() -> None:
    nodes = [a_node("calm", CALM), a_node("over", OVER), a_node("unknown")]
    client = service("safe")
    assert points(client, "safe-overload", a_pod(**CPU), nodes) == {"calm": 9, "over": 0, "unknown": 0}
    assert points(client, "safe-balance", a_pod(**CPU), nodes) == {"calm": 6, "over": 4, "unknown": 0}


def test_safe_scores_by_the_worse_resource() -> None:
    both = CALM | {"mean-free-memory": "155597063", "std-free-memory": "30372823"}
    client = service("safe")
    assert points(client, "safe-balance", a_pod(), [a_node("n", both)]) == {"n": 5}
    accepted, rejected = feasible_nodes(client, "safe-overload", a_pod(), [a_node("n", both)])
    assert (accepted, rejected["n"].split(":")[0]) == ([], "memory")


@pytest.mark.parametrize("key", ["forcasted-free-cpu", "forecasted-free-cpu"])
def test_both_spellings_of_the_forecast_annotation_are_read_and_na_is_ignored(key: str) -> None:
    client = service("safe", environment={"SAFEFORECASTWEIGHT": "100"})
    nodes = [a_node("n", CALM | {key: "100"}), a_node("na", CALM | {key: "N/A"})]
    assert points(client, "safe-balance", a_pod(**CPU), nodes) == {"n": 3, "na": 6}


def test_init_containers_and_overhead_count_towards_the_demand() -> None:
    init = [{"name": "init", "resources": {"requests": {"cpu": "2500m"}}}]
    client, nodes = service("safe"), [a_node("n", CALM)]
    assert points(client, "safe-balance", a_pod(**CPU), nodes) == {"n": 6}
    assert points(client, "safe-balance", a_pod(**CPU, initContainers=init), nodes) == {"n": 3}
    assert points(client, "safe-balance", a_pod(**CPU, overhead={"cpu": "2"}), nodes) == {"n": 3}


@pytest.mark.parametrize(
    ("measured", "accepted"), [(JUST_NOW, False), (LONG_AGO, True), ("yesterday", True)], ids=["new", "old", "unread"]
)
def test_statistics_older_than_the_limit_are_ignored(measured: str, accepted: bool) -> None:
    node = a_node("n", OVER | {"herodotus.dev/usage-measured-at": measured})
    assert bool(feasible_nodes(service("safe"), "safe-overload", a_pod(**CPU), [node])[0]) is accepted


def test_the_distribution_is_logged_if_print_table_is_set(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    points(service("safe", environment={"SAFEPRINTTABLE": "true"}), "safe-overload", a_pod(**CPU), [a_node("n", CALM)])
    (table,) = (m for m in caplog.messages if "density" in m)
    assert len(table.splitlines()) == 1 + 1 + 21
    assert "0.50   3.868326   0.500000   0.080590" in table


def test_congestion_scores() -> None:
    values = {"none": None, "some": "15", "half": "50", "most": "96", "over": "150", "no": "x", "minus": "-5"}
    nodes = [a_node(name, {"congestion-factor": value} if value else {}) for name, value in values.items()]
    expected = {"none": 10, "some": 9, "half": 5, "most": 0, "over": 0, "no": 10, "minus": 10}
    assert points(service("congestion"), "congestion", a_pod(), nodes) == expected
    ten = service("congestion", environment={"CONGESTION_FACTOR_MAX": "10"})
    assert points(ten, "congestion", a_pod(), [a_node("n", {"congestion-factor": "5"})]) == {"n": 5}


def pigeons() -> list[dict[str, object]]:
    used = {"n1": (1000, 2048), "n2": (2000, 2048), "n3": (0, 0)}
    return [
        a_node(name, {"requested-cpu": str(cpu), "requested-memory": str(mi << 20)}, memory="8Gi")
        for name, (cpu, mi) in used.items()
    ]


PIGEON_PODS = (("500m", "1Gi"), ("500m", "1Gi"), ("2", "512Mi"), ("3500m", "1Gi"))


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("A_BINPACK", [[4, 1, 10], [4, 1, 10], [10, 1, 3], [0, 0, 10]]),
        ("LOAD_BALANCE", [[5, 1, 10], [5, 1, 10], [4, 1, 10], [0, 0, 10]]),
        ("CONSOLIDATE", [[9, 10, 1], [9, 10, 1], [7, 10, 1], [0, 0, 10]]),
        ("nonsense", [[4, 1, 10], [4, 1, 10], [10, 1, 3], [0, 0, 10]]),
    ],
)
def test_pigeon_scores_by_objective(objective: str, expected: list[list[int]]) -> None:
    client = service("pigeon", environment={"POLICY_OBJECTIVE": objective})
    found = [points(client, "pigeon-holing", a_pod(cpu, memory), pigeons()) for cpu, memory in PIGEON_PODS]
    assert [list(given.values()) for given in found] == expected


def test_pigeon_counts_gpus_and_storage() -> None:
    client = service("pigeon", environment={"NUM_RESOURCES": "5"})
    gpu = {"name": "gpu", "resources": {"requests": {"nvidia.com/gpu": "1", "ephemeral-storage": "2Gi"}}}
    has = {"nvidia.com/gpu": "2", "ephemeral-storage": "100Gi"}
    nodes = [
        a_node("free", {}, **has),
        a_node("full", {"requested-gpu": "2"}, **has),
        a_node("little", {}, **has | {"ephemeral-storage": "1Gi"}),
        a_node("none"),
    ]
    pod = a_pod() | {"spec": {"containers": [gpu]}}
    assert points(client, "pigeon-holing", pod, nodes) == {"free": 10, "full": 0, "little": 0, "none": 0}


def test_pigeon_keeps_its_learned_demand_across_a_restart(tmp_path: Path) -> None:
    environment = {"PIGEON_STATE_FILE": str(tmp_path / "demand.json")}
    for cpu, memory in PIGEON_PODS[:2]:
        points(service("pigeon", environment=environment), "pigeon-holing", a_pod(cpu, memory), pigeons())
    third = points(service("pigeon", environment=environment), "pigeon-holing", a_pod(*PIGEON_PODS[2]), pigeons())
    assert list(third.values()) == [10, 1, 3]


def test_pigeon_reads_its_legacy_file_and_the_environment_overrides_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pigeon.cfg").write_text("# ours\npolicyResourceIndex = 1\npolicyObjective = CONSOLIDATE  \n")
    consolidate = points(service("pigeon"), "pigeon-holing", a_pod("500m", "1Gi"), pigeons())
    assert list(consolidate.values()) == [10, 10, 1]  # by memory n1 and n2 are alike
    environment = {"POLICY_OBJECTIVE": "LOAD_BALANCE", "POLICY_RESOURCE_INDEX": "0"}
    spread = points(service("pigeon", environment=environment), "pigeon-holing", a_pod("500m", "1Gi"), pigeons())
    assert list(spread.values()) == [5, 1, 10]


def test_pigeon_rejects_a_resource_index_out_of_range() -> None:
    loaded = load_agents(["pigeon"], {"pigeon": {"policyResourceIndex": 2}}, {})
    why = "policyResourceIndex 2 must be less than numResources 2"
    assert dict(loaded.failed) == {"pigeon": f"{AgentError.__name__}: {why}"}
    assert pigeon.PigeonSettings().num_resources == 2


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"podtype": "D", "app": "a", "name": "n"}, "D"),
        ({"app": "a", "name": "n"}, "a"),
        ({"name": "n"}, "n"),
        ({}, "p"),
    ],
    ids=["podtype", "app", "name", "the pod's own name"],
)
def test_rewards_of_the_pod_type_are_used(labels: dict[str, str], kind: str) -> None:
    node = a_node("bad", {"herodotus.dev/rewards": json.dumps({kind: 0.59049, "other": 0.1})})
    given = points(service("reward"), "rl-priority", a_pod(labels=labels), [node, a_node("new")])
    assert given == {"bad": 5, "new": 10}


ABSURD = ("1e99", "9E", "8Ei", "9223372036854775808", "9000T", "1" + "0" * 5000)


@pytest.mark.parametrize("amount", ABSURD)
@pytest.mark.parametrize("objective", ["A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE"])
def test_an_absurd_pod_request_does_not_affect_later_scores(tmp_path: Path, objective: str, amount: str) -> None:
    """Later requests get almost the scores of a service that never saw that pod, also after a restart."""
    state = tmp_path / "demand.json"
    environment = {"PIGEON_STATE_FILE": str(state), "POLICY_OBJECTIVE": objective}
    points(service("pigeon", environment=environment), "pigeon-holing", a_pod(amount, amount), pigeons())
    client = service("pigeon", environment=environment)
    for _ in range(100):
        given = points(client, "pigeon-holing", a_pod(*PIGEON_PODS[0]), pigeons())
        assert set(given.values()) <= set(range(11))
    assert min(given.values()) < max(given.values())
    learnt = msgspec.json.decode(state.read_bytes())
    assert learnt["count"] == 100
    assert learnt["mean"][0] < 16 * 4000


@pytest.mark.parametrize("amount", ABSURD)
def test_an_absurd_allocatable_amount_does_not_affect_scores_after_the_node_is_deleted(
    tmp_path: Path, amount: str
) -> None:
    state = tmp_path / "demand.json"
    client = service("pigeon", environment={"PIGEON_STATE_FILE": str(state)})
    liar = a_node("liar", {"requested-cpu": "1e300"}, cpu=amount, memory=amount)
    for _ in range(20):
        given = points(client, "pigeon-holing", a_pod("9000T", "9E"), [liar])
        assert set(given.values()) <= set(range(11))
    points(client, "pigeon-holing", a_pod(*PIGEON_PODS[0]), pigeons())
    assert msgspec.json.decode(state.read_bytes())["mean"][0] <= 16 * 4000


@pytest.mark.parametrize("verb", ["congestion", "safe-balance", "safe-overload", "rl-priority", "pigeon-holing"])
@pytest.mark.parametrize("amount", ABSURD)
def test_absurd_amounts_and_annotations_of_one_node_do_not_affect_the_others(verb: str, amount: str) -> None:
    keys = ("congestion-factor", "mean-free-cpu", "std-free-cpu", "requested-cpu")
    annotations = dict.fromkeys(keys, "9" * 400) | {"herodotus.dev/rewards": f'{{"p": {"9" * 400}}}'}
    liar = a_node("liar", annotations, cpu=amount, memory=amount)
    client = service("safe", "congestion", "pigeon", "reward")
    given = points(client, verb, a_pod(amount, "1Gi"), [liar, *pigeons()])
    assert set(given.values()) <= set(range(101))
