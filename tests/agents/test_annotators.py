"""What each annotator writes, on a simulated API server and a scripted Prometheus."""

from __future__ import annotations

import logging
import threading

import httpx
import pytest

from herodotus_agents.__main__ import main
from herodotus_agents.annotators.allocation import Allocation
from herodotus_agents.annotators.congestion import Congestion
from herodotus_agents.annotators.controller import Measure, Rhythm, one_round, run
from herodotus_agents.annotators.price import PRICES, Price
from herodotus_agents.annotators.usage import Usage
from herodotus_agents.kube import Kube
from herodotus_sim import SimulatedCluster
from tests.agents.builders import NOW_S
from tests.agents.cluster import annotations, matrix, node, pod, prometheus, simulated, vector

FAST = Rhythm(every_s=0.01, writes_per_s=1e6)
MI = 1 << 20


def once(kube: Kube, measure: Measure) -> int:
    return one_round(kube, measure, FAST, threading.Event(), lambda: NOW_S)


def test_allocation_counts_every_pod_that_is_on_the_node_and_has_not_ended() -> None:
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    gpu = {
        "name": "g",
        "image": "i",
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
    }
    objects = [
        node("n1", **{"nvidia.com/gpu": "2", "ephemeral-storage": "10Gi"}),
        node("n2"),
        pod("running", "n1", "Running"),
        pod("just-bound", "n1", "Pending"),
        pod("done", "n1", "Succeeded"),
        pod("crashed", "n1", "Failed"),
        pod("waiting"),
        pod("large-init", "n1", "Running", initContainers=[sidecar, init]),
        pod("gpu", "n1", "Running", containers=[gpu]),
    ]
    with simulated(*objects) as (sim, kube):
        assert once(kube, Allocation()) == 2
        assert annotations(sim, "n1") == {
            "requested-cpu": str(500 + 500 + 2100),
            "free-cpu": str(4000 - 3100),
            "requested-memory": str(3 << 30),
            "free-memory": str(5 << 30),
            "requested-pods": "4",
            "free-pods": "106",
            "requested-gpu": "1",
            "free-gpu": "1",
            "requested-ephemeral-storage": "0",
            "free-ephemeral-storage": str(10 << 30),
        }
        assert annotations(sim, "n2")["free-cpu"] == "4000"
        measured = sim.get("nodes", "", "n1")["metadata"]["annotations"]["herodotus.dev/allocation-measured-at"]
        assert measured == "2026-03-01T12:00:00+00:00"


def test_usage_writes_mean_sample_deviation_and_forecast_of_both_resources() -> None:
    asked: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        if "cpu" in request.url.params["query"]:
            return matrix({"10.0.0.1:9100": [2000.0, 3000.0], "10.0.0.9:9100": [1.0]})
        return matrix({"10.0.0.1:9100": [100.0 * MI, 300.0 * MI]})

    with simulated(node("n1", "10.0.0.1"), node("n2", "10.0.0.2")) as (sim, kube):
        assert once(kube, Usage(prometheus(answer), clock=lambda: NOW_S)) == 1
        assert annotations(sim, "n1") == {
            "mean-free-cpu": "2500",
            "std-free-cpu": "707",
            "forcasted-free-cpu": "N/A",
            "mean-free-memory": str(200 * MI),
            "std-free-memory": "148291040",
            "forcasted-free-memory": "N/A",
        }
        assert annotations(sim, "n2") == {}
    cpu, memory = asked
    assert cpu.params["query"] == 'sum by (instance) (rate(node_cpu_seconds_total{mode="idle"}[60s])) * 1000'
    assert [float(memory.params[k]) for k in ("start", "end", "step")] == [NOW_S - 86_400, NOW_S, 288.0]


def test_usage_forecasts_where_asked_to() -> None:
    """A straight line goes on."""
    line = [1000.0 + 10 * i for i in range(100)]
    usage = Usage(prometheus(lambda _: matrix({"10.0.0.1:9100": line})), use_forecast=True, clock=lambda: NOW_S)
    with simulated(node("n1", "10.0.0.1")) as (sim, kube):
        once(kube, usage)
        assert annotations(sim, "n1")["forcasted-free-cpu"] == "2000"


def test_usage_counts_what_nobody_requests_as_free_where_asked_to() -> None:
    usage = Usage(
        prometheus(lambda _: matrix({"10.0.0.1:9100": [100.0, 3900.0]})), use_requests=True, clock=lambda: NOW_S
    )
    with simulated(node("n1", "10.0.0.1"), pod("p", "n1", "Running")) as (sim, kube):
        once(kube, usage)
        assert annotations(sim, "n1")["mean-free-cpu"] == str((3500 + 3900) // 2)
        assert annotations(sim, "n1")["std-free-memory"] == "0"


def test_congestion_is_the_share_of_the_network_s_capacity() -> None:
    congestion = Congestion(prometheus(lambda _: vector({"10.0.0.1:9100": 62_500_000.0})))
    with simulated(node("n1", "10.0.0.1"), node("n2", "10.0.0.2")) as (sim, kube):
        once(kube, congestion)
        assert annotations(sim, "n1") == {"congestion-factor": "50"}
        assert annotations(sim, "n2") == {}


def test_prices_are_drawn_the_same_with_the_same_seed_or_given() -> None:
    with simulated(node("n1"), node("n2"), node("n3")) as (sim, kube):
        drawn = []
        for _ in range(2):
            once(kube, Price(seed=7))
            drawn.append([annotations(sim, n)["hightower.com/cost"] for n in ("n1", "n2", "n3")])
        assert drawn[0] == drawn[1]
        assert set(drawn[0]) <= set(PRICES)
        once(kube, Price({"n2": "0.01"}))
        assert annotations(sim, "n2") == {"hightower.com/cost": "0.01"}
        assert annotations(sim, "n1") == {"hightower.com/cost": drawn[0][0]}


def test_price_command_prints_and_with_l_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(node("n1"), node("n2")) as (sim, _):
        assert main(["annotate", "price", "--server", sim.url, "--price", "n1=0.05", "--price", "n2=1.60"]) == 0
        assert capsys.readouterr().out == "n1 0.05\nn2 1.60\n"
        before = sim.get("nodes", "", "n1")["metadata"]["resourceVersion"]
        assert main(["annotate", "price", "--server", sim.url, "-l"]) == 0
        assert capsys.readouterr().out == "n1 0.05\nn2 1.60\n"
        assert sim.get("nodes", "", "n1")["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["annotate", "price", "--price", "n1"], "--price n1: expected NODE=PRICE"),
        (["annotate", "price", "--server", "http://127.0.0.1:9"], "GET /api/v1/nodes: "),
        (["annotate", "price", "--kubeconfig", "/nowhere"], "no usable credentials: "),
        (["annotate", "usage", "--once", "--prometheus", "http://127.0.0.1:9"], "Prometheus does not answer at http"),
    ],
    ids=["price", "no server", "no kubeconfig", "no Prometheus"],
)
def test_commands_that_cannot_run_say_why(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(node("n1", "10.0.0.1")) as (sim, _):
        where = [] if {"--server", "--kubeconfig"} & set(arguments) else ["--server", sim.url]
        assert main([*arguments, *where]) == 1
    assert capsys.readouterr().err.startswith(f"error: {why}")


class _Flaky:
    """Fails in the first round; in the second one of two nodes is gone."""

    group = "price"

    def __init__(self, sim: SimulatedCluster, stop: threading.Event) -> None:
        self.rounds, self._sim, self._stop = 0, sim, stop

    def round(self, nodes: object, kube: Kube) -> dict[str, dict[str, str]]:
        self.rounds += 1
        if self.rounds == 1:
            kube.objects("/api/v1/nothing-of-that-kind")
        if self.rounds == 3:
            self._stop.set()
            return {}
        return {"gone": {"a": "1"}, "n1": {"a": "1"}}


def test_a_failed_round_and_a_failed_node_cost_nothing_but_themselves(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with simulated(node("n1")) as (sim, kube):
        stop = threading.Event()
        flaky = _Flaky(sim, stop)
        run(kube, flaky, FAST, stop)
        assert flaky.rounds == 3
        assert annotations(sim, "n1") == {"a": "1"}
    assert [message.split(":")[0] for message in caplog.messages] == ["no round of price", "node gone"]
