"""The annotations that each annotator writes, with a simulated API server and a fake Prometheus."""

from __future__ import annotations

import logging
import threading

import httpx
import pytest

from herodotus_agents.annotators.allocation import AllocationAnnotator
from herodotus_agents.annotators.congestion import CongestionAnnotator
from herodotus_agents.annotators.controller import AnnotationRate, Annotator, run, run_round
from herodotus_agents.annotators.price import PRICES, PriceAnnotator
from herodotus_agents.annotators.usage import UsageAnnotator
from herodotus_agents.command_line import main
from herodotus_agents.commands import AnnotatorSettings
from herodotus_kube.http import ApiError, ApiServer
from herodotus_sim import SimulatedCluster
from tests.agents.builders import NOW_S
from tests.agents.cluster import matrix, node, node_annotations, pod, prometheus, simulated, vector

FAST = AnnotationRate(interval_s=0.01, writes_per_s=1e6)
MI = 1 << 20


def once(kube: ApiServer, annotator: Annotator) -> int:
    return run_round(kube, annotator, FAST, threading.Event(), lambda: NOW_S).written


def test_allocation_with_once_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(node("n2"), node("n1"), pod("web", "n1", "Running")) as (sim, _):
        assert main(["annotate", "allocation", "--once", "--server", sim.url]) == 0
    summary, *table = capsys.readouterr().out.splitlines()
    assert summary == "annotated 2 of 2 nodes with allocation"
    rows = [line.split() for line in table]
    assert rows[0] == ["NODE", "RESOURCE", "REQUESTED", "FREE"]
    assert rows[1:4] == [
        ["n1", "cpu", "500m", "3500m"], ["n1", "memory", str(1 << 30), str(7 << 30)], ["n1", "pods", "1", "109"]
    ]  # fmt: skip
    assert [row[0] for row in rows[1:]] == ["n1"] * 5 + ["n2"] * 5


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
        assert once(kube, AllocationAnnotator()) == 2
        assert node_annotations(sim, "n1") == {
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
        assert node_annotations(sim, "n2")["free-cpu"] == "4000"
        measured = sim.get("nodes", "", "n1")["metadata"]["annotations"]["herodotus.dev/allocation-measured-at"]
        assert measured == "2026-03-01T12:00:00+00:00"


def test_usage_writes_mean_sample_deviation_and_forecast_of_both_resources() -> None:
    requests: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request.url)
        if "cpu" in request.url.params["query"]:
            return matrix({"10.0.0.1:9100": [2000.0, 3000.0], "10.0.0.9:9100": [1.0]})
        return matrix({"10.0.0.1:9100": [100.0 * MI, 300.0 * MI]})

    with simulated(node("n1", "10.0.0.1"), node("n2", "10.0.0.2")) as (sim, kube):
        assert once(kube, UsageAnnotator(prometheus(answer), clock=lambda: NOW_S)) == 1
        assert node_annotations(sim, "n1") == {
            "mean-free-cpu": "2500",
            "std-free-cpu": "707",
            "forcasted-free-cpu": "N/A",
            "mean-free-memory": str(200 * MI),
            "std-free-memory": "148291040",
            "forcasted-free-memory": "N/A",
        }
        assert node_annotations(sim, "n2") == {}
    cpu, memory = requests
    assert cpu.params["query"] == 'sum by (instance) (rate(node_cpu_seconds_total{mode="idle"}[300s])) * 1000'
    assert [float(memory.params[k]) for k in ("start", "end", "step")] == [NOW_S - 86_400, NOW_S, 288.0]


@pytest.mark.parametrize(("gone", "left"), [("cpu", "memory"), ("memory", "cpu")])
def test_the_old_value_of_a_resource_without_a_series_is_removed(gone: str, left: str) -> None:
    """Both resources share one time of measurement, so the old value is removed."""
    missing: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        of = "cpu" if "cpu" in request.url.params["query"] else "memory"
        return matrix({} if of in missing else {"10.0.0.1:9100": [2000.0, 3000.0]})

    with simulated(node("n1", "10.0.0.1")) as (sim, kube):
        usage = UsageAnnotator(prometheus(answer), clock=lambda: NOW_S)
        once(kube, usage)
        assert node_annotations(sim, "n1")[f"mean-free-{gone}"] == "2500"
        missing.append(gone)
        done = run_round(kube, usage, FAST, threading.Event(), lambda: NOW_S + 600)
        assert sorted(node_annotations(sim, "n1")) == [f"{of}-free-{left}" for of in ("forcasted", "mean", "std")]
        assert done.problem == f"no node has a value of mean-free-{gone}, std-free-{gone}, forcasted-free-{gone}"
        missing.append(left)  # Without any value the node is not written, and its last time of measurement stays.
        done = run_round(kube, usage, FAST, threading.Event(), lambda: NOW_S + 900)
        assert sim.get("nodes", "", "n1")["metadata"]["annotations"]["herodotus.dev/usage-measured-at"] == (
            "2026-03-01T12:10:00+00:00"
        )
        assert done.problem == "none of 1 nodes was measured"


def test_a_round_succeeds_if_one_node_lacks_a_resource() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        series = {"10.0.0.1:9100": [2000.0], "10.0.0.2:9100": [1000.0]}
        return matrix(series if "cpu" in request.url.params["query"] else {"10.0.0.1:9100": [5.0]})

    with simulated(node("n1", "10.0.0.1"), node("n2", "10.0.0.2")) as (sim, kube):
        done = run_round(kube, UsageAnnotator(prometheus(answer)), FAST, threading.Event())
        assert (done.problem, done.written) == ("", 2)
        assert "mean-free-memory" not in node_annotations(sim, "n2")


def test_the_default_windows_hold_two_samples_at_one_scrape_per_minute() -> None:
    """With one sample in its window, rate() has no value."""
    chosen, nowhere = AnnotatorSettings(), prometheus(lambda _: vector({}))
    assert min(chosen.rate_seconds, UsageAnnotator(nowhere).rate_s, CongestionAnnotator(nowhere).rate_s) >= 120


@pytest.mark.parametrize(
    ("prices", "code", "summary"),
    [
        (["nosuch=0.1"], 1, "error: none of 1 nodes could be annotated\n"),
        (["n1=0.05", "nosuch=0.1"], 1, "error: 1 of 2 nodes could not be annotated\n"),
        (["n1=0.05"], 0, ""),
    ],
    ids=["none", "one of two", "all"],
)
def test_a_price_that_cannot_be_written_is_an_error(
    capsys: pytest.CaptureFixture[str], prices: list[str], code: int, summary: str
) -> None:
    with simulated(node("n1")) as (sim, _):
        given = [word for price in prices for word in ("--price", price)]
        assert main(["annotate", "price", "--server", sim.url, *given]) == code
        captured = capsys.readouterr()
        assert captured.err == summary
        assert captured.out == ("n1 0.05\n" if "n1=0.05" in prices else "n1 \n")


def test_run_round_reports_its_result_and_fails_if_nothing_was_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with simulated(node("n1"), node("n2")) as (sim, _):
        command = ["annotate", "allocation", "--once", "--server", sim.url]
        assert main(command) == 0
        assert capsys.readouterr().out.startswith("annotated 2 of 2 nodes with allocation\nNODE ")

        def refuse(*_: object) -> None:
            raise ApiError(403, "Forbidden", "forbidden")

        monkeypatch.setattr(ApiServer, "patch", refuse)
        assert main(command) == 1
        assert capsys.readouterr().err == "error: none of 2 nodes could be annotated\n"


def test_usage_writes_a_forecast_if_use_forecast_is_set() -> None:
    """The forecast continues a straight line."""
    line = [1000.0 + 10 * i for i in range(100)]
    usage = UsageAnnotator(
        prometheus(lambda _: matrix({"10.0.0.1:9100": line})), use_forecast=True, clock=lambda: NOW_S
    )
    with simulated(node("n1", "10.0.0.1")) as (sim, kube):
        once(kube, usage)
        assert node_annotations(sim, "n1")["forcasted-free-cpu"] == "2000"


def test_usage_counts_unrequested_amounts_as_free_if_use_requests_is_set() -> None:
    usage = UsageAnnotator(
        prometheus(lambda _: matrix({"10.0.0.1:9100": [100.0, 3900.0]})), use_requests=True, clock=lambda: NOW_S
    )
    with simulated(node("n1", "10.0.0.1"), pod("p", "n1", "Running")) as (sim, kube):
        once(kube, usage)
        assert node_annotations(sim, "n1")["mean-free-cpu"] == str((3500 + 3900) // 2)
        assert node_annotations(sim, "n1")["std-free-memory"] == "0"


def test_congestion_is_the_used_share_of_network_capacity() -> None:
    congestion = CongestionAnnotator(prometheus(lambda _: vector({"10.0.0.1:9100": 62_500_000.0})))
    with simulated(node("n1", "10.0.0.1"), node("n2", "10.0.0.2")) as (sim, kube):
        once(kube, congestion)
        assert node_annotations(sim, "n1") == {"congestion-factor": "50"}
        assert node_annotations(sim, "n2") == {}


def test_prices_are_given_or_drawn_reproducibly_with_a_seed() -> None:
    with simulated(node("n1"), node("n2"), node("n3")) as (sim, kube):
        drawn = []
        for _ in range(2):
            once(kube, PriceAnnotator(seed=7))
            drawn.append([node_annotations(sim, n)["hightower.com/cost"] for n in ("n1", "n2", "n3")])
        assert drawn[0] == drawn[1]
        assert set(drawn[0]) <= set(PRICES)
        once(kube, PriceAnnotator({"n2": "0.01"}))
        assert node_annotations(sim, "n2") == {"hightower.com/cost": "0.01"}
        assert node_annotations(sim, "n1") == {"hightower.com/cost": drawn[0][0]}


def test_the_price_command_prints_prices_and_with_l_writes_none(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(node("n1"), node("n2")) as (sim, _):
        assert main(["annotate", "price", "--server", sim.url, "--price", "n1=0.05", "--price", "n2=1.60"]) == 0
        assert capsys.readouterr().out == "n1 0.05\nn2 1.60\n"
        before = sim.get("nodes", "", "n1")["metadata"]["resourceVersion"]
        assert main(["annotate", "price", "--server", sim.url, "-l"]) == 0
        assert capsys.readouterr().out == "n1 0.05\nn2 1.60\n"
        assert sim.get("nodes", "", "n1")["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["serve", "--port", "65536"], "argument --port: '65536': Expected `int` <= 65535"),
        (["serve", "--port", "-1"], "argument --port: '-1': Expected `int` >= 0"),
        (["serve", "--port", "http"], "argument --port: 'http': Expected `int`, got `str`"),
        (["annotate", "congestion", "--capacity", "0"], "argument --capacity: '0': Expected `float` >= 1.0"),
        (
            ["annotate", "congestion", "--capacity", "inf"],
            "argument --capacity: 'inf': Expected `float` <= 1000",
        ),
        (["annotate", "congestion", "--capacity", "nan"], "argument --capacity: 'nan': Expected `float`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_rejects_impossible_numbers_at_start(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["annotate", "price", "--price", "n1"], "--price n1: expected NODE=PRICE"),
        (["annotate", "price", "--price", "n1=inf"], "--price n1=inf: expected NODE=PRICE"),
        (["annotate", "price", "--server", "http://127.0.0.1:9"], "GET /api/v1/nodes: "),
        (["annotate", "price", "--kubeconfig", "/nowhere"], "kubeconfig /nowhere: "),
        (["annotate", "usage", "--once", "--prometheus", "http://127.0.0.1:9"], "Prometheus at http://127.0.0.1:9: "),
    ],
    ids=["price", "infinite price", "no server", "no kubeconfig", "no Prometheus"],
)
def test_commands_that_cannot_run_print_the_reason(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with simulated(node("n1", "10.0.0.1")) as (sim, _):
        where = [] if {"--server", "--kubeconfig"} & set(arguments) else ["--server", sim.url]
        assert main([*arguments, *where]) == 1
    assert capsys.readouterr().err.startswith(f"error: {why}")


class _Flaky:
    """An annotator whose first round fails and whose second one includes a node that does not exist."""

    group = "price"

    def __init__(self, sim: SimulatedCluster, stop: threading.Event) -> None:
        self.rounds, self._sim, self._stop = 0, sim, stop

    def measure(self, nodes: object, kube: ApiServer) -> dict[str, dict[str, str]]:
        self.rounds += 1
        if self.rounds == 1:
            kube.get("/api/v1/nothing-of-that-kind")
        if self.rounds == 3:
            self._stop.set()
            return {}
        return {"gone": {"a": "1"}, "n1": {"a": "1"}}


def test_a_failed_round_or_node_does_not_stop_later_rounds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with simulated(node("n1")) as (sim, kube):
        stop = threading.Event()
        flaky = _Flaky(sim, stop)
        run(kube, flaky, FAST, stop)
        assert flaky.rounds == 3
        assert node_annotations(sim, "n1") == {"a": "1"}
    assert [message.split(":")[0] for message in caplog.messages] == ["no round of price", "node gone"]


def test_a_round_that_wrote_nothing_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    stop = threading.Event()

    class Gone:
        group = "price"

        def measure(self, nodes: object, kube: ApiServer) -> dict[str, dict[str, str | None]]:
            if self.again:
                stop.set()
            self.again = True
            return {"gone": {"a": "1"}}

        again = False

    with simulated(node("n1")) as (_, kube):
        run(kube, Gone(), FAST, stop)
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert errors == ["round of price: none of 1 nodes could be annotated"]
