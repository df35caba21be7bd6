"""NetworkTraffic: one query for all nodes in the background; whatever Prometheus does, placement goes on."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from herodotus_record import klog, notes
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.plugin import MetricAnswer as Samples
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.plugins.network_traffic import NetworkTraffic, NetworkTrafficArgs, build_query
from scheduler.prometheus import BackgroundQuery, Prometheus
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.support.one_scorer import decide, only_scores, scoring_framework

URL = "http://prometheus.test:9090"
Answer = Callable[[httpx.Request], httpx.Response]


def samples(**values: float) -> httpx.Response:
    result = [{"metric": {"nodename": n.replace("_", "-")}, "value": [1, str(v)]} for n, v in values.items()]
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": result}})


class _Silent:
    """A source that is asked by the test instead of by its thread."""

    def __init__(self, answer: Answer) -> None:
        transport = httpx.MockTransport(answer)
        self.query = BackgroundQuery(Prometheus(URL, transport=transport), "q", "nodename", every_s=1.0)

    def latest(self) -> Any:
        return self.query._answer


def traffic(
    answer: Answer, queries: int = 1, points: tuple[str, ...] = ("preScore", "score"), **args: Any
) -> Framework:
    """Return a framework with only this score plugin, whose Prometheus was queried so many times."""
    runner = scoring_framework("NetworkTraffic", *points, ip=URL, **args)
    (plugin,) = runner.profile.score
    assert isinstance(plugin, NetworkTraffic)
    source = _Silent(answer)
    plugin.source = source
    for _ in range(queries):
        source.query.query_once()
    return runner


def two_nodes(runner: Framework) -> CycleResult:
    return decide(runner, columns_of([make_node("master"), make_node("node01")]), make_pod())


def test_the_article_s_experiment() -> None:
    """Raw 42500000000 and 12541068340 give 0 and 71: the quiet node."""
    result = two_nodes(traffic(lambda _: samples(master=42_500_000_000, node01=12_541_068_340)))
    assert only_scores(result) == ([42_500_000_000, 12_541_068_340], [0, 71])
    assert result.chosen == 1
    assert [run.plugin for run in result.trace.scores] == ["NetworkTraffic"]


@pytest.mark.parametrize(
    ("answer", "missing", "expected"),
    [
        (samples(master=0, node01=0), "neutral", [100, 100]),
        (samples(master=200_000, node01=140_000), "neutral", [0, 30]),
        (samples(master=200_000), "neutral", [0, 50]),
        (samples(node01=200_000), "worst", [0, 0]),
        (samples(master=float("nan"), node01=5), "neutral", [50, 0]),
        (samples(master=float("inf"), node01=0), "neutral", [50, 100]),
        (samples(), "neutral", [50, 50]),
    ],
    ids=["nothing moves", "the example", "no sample", "no sample, worst", "NaN", "infinite", "no node at all"],
)
def test_nodes_without_a_usable_sample_fail_nothing(answer: httpx.Response, missing: str, expected: list[int]) -> None:
    assert only_scores(two_nodes(traffic(lambda _: answer, missing=missing)))[1] == expected


def test_the_record_has_the_samples_their_query_and_when_prometheus_evaluated_it() -> None:
    result = two_nodes(traffic(lambda _: samples(master=200_000)))
    (inputs,) = (run.inputs for run in result.trace.inputs)
    assert inputs.source == f"Prometheus: {build_query(NetworkTrafficArgs(ip=URL))}"
    assert [(number.name, number.unit) for number in inputs.numbers] == [("received", "B/s")]
    np.testing.assert_equal(inputs.numbers[0].values, [200_000, np.nan])
    np.testing.assert_equal(inputs.measured_s, [1, 1])


def test_a_cycle_uses_one_answer_although_newer_ones_arrive() -> None:
    """The mark, the points and the inputs of one record are about the same samples."""
    runner = traffic(lambda _: samples(master=2, node01=1))
    (plugin,) = runner.profile.score
    assert isinstance(plugin, NetworkTraffic)
    answers = iter([plugin.source.latest(), Samples({"master": 8.0, "node01": 9.0}, received_s=0.0, evaluated_s=2.0)])
    plugin.source = SimpleNamespace(latest=lambda: next(answers))
    result = two_nodes(runner)
    assert only_scores(result)[0] == [2, 1]
    np.testing.assert_equal(result.trace.inputs[0].inputs.numbers[0].values, [2, 1])


def test_two_samples_of_one_node_count_as_the_larger() -> None:
    double = samples(master=1, node01=1).json()
    double["data"]["result"].append({"metric": {"nodename": "master"}, "value": [1, "9"]})
    assert only_scores(two_nodes(traffic(lambda _: httpx.Response(200, json=double))))[0] == [9, 1]


def refuse(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (refuse, "connection refused"),
        (lambda _: httpx.Response(400, json={"status": "error", "error": "parse error"}), "parse error"),
        (
            lambda _: httpx.Response(502, text="bad gateway"),
            "unreadable answer with status 502: JSON is malformed: invalid character (byte 0)",
        ),
    ],
    ids=["down", "refused", "no Prometheus"],
)
def test_placement_continues_without_prometheus_and_the_record_names_the_error(answer: Answer, why: str) -> None:
    result = two_nodes(traffic(answer))
    assert result.chosen is not None
    assert notes.format_notes(result.trace.notes) == [f"NetworkTraffic: no answer of Prometheus: {why}"]
    assert [run.raw for run in result.trace.scores] == [None]


def test_before_the_first_answer_nothing_is_waited_for() -> None:
    assert notes.format_notes(two_nodes(traffic(refuse, queries=0)).trace.notes) == [
        "NetworkTraffic: no answer of Prometheus: no answer yet"
    ]


def test_an_old_answer_is_used_until_it_is_too_old() -> None:
    answers = iter([samples(master=2, node01=1)])

    def once(request: httpx.Request) -> httpx.Response:
        return next(answers, None) or refuse(request)

    runner = traffic(once, queries=3)
    assert only_scores(two_nodes(runner))[1] == [0, 50]
    (plugin,) = runner.profile.score
    assert isinstance(plugin, NetworkTraffic)
    read_at = plugin.source.latest().received_s
    assert read_at is not None
    plugin._clock = lambda: read_at + 500.0
    note = "NetworkTraffic: the last answer of Prometheus is 500 s old: connection refused"
    assert notes.format_notes(two_nodes(runner).trace.notes) == [note]


@pytest.mark.parametrize(("age_s", "limit_s", "is_stale"), [(119, 120, False), (121, 120, True), (121, 300, False)])
def test_with_score_alone_an_answer_expires_too(age_s: float, limit_s: float, is_stale: bool) -> None:
    """The configuration of the original: nothing but Score is enabled."""
    answers = iter([samples(master=2, node01=1)])
    only_score = ("score",)

    def once(request: httpx.Request) -> httpx.Response:
        return next(answers, None) or refuse(request)

    runner = traffic(once, queries=2, points=only_score, maxAgeSeconds=limit_s)
    (plugin,) = runner.profile.score
    assert isinstance(plugin, NetworkTraffic)
    read_at = plugin.source.latest().received_s
    assert read_at is not None
    plugin._clock = lambda: read_at + age_s
    result = two_nodes(runner)
    assert only_scores(result) == (([-1, -1], [50, 50]) if is_stale else ([2, 1], [0, 50]))
    (inputs,) = (run.inputs for run in result.trace.inputs)
    assert inputs.stale is not None
    assert inputs.stale.tolist() == [is_stale, is_stale]


def test_verbosity_3_logs_each_node_s_bandwidth_as_the_original_did() -> None:
    stream = io.StringIO()
    for verbosity in (2, 3):
        klog.setup(verbosity, stream)
        assert two_nodes(traffic(lambda _: samples(master=200_000, node01=140_000))).chosen == 1
    assert [line.partition("] ")[2] for line in stream.getvalue().splitlines() if "[NetworkTraffic]" in line] == [
        '"[NetworkTraffic] node bandwidth" node="master" bandwidth=200000',
        '"[NetworkTraffic] node bandwidth" node="node01" bandwidth=140000',
    ]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            {"device_name": "ens33", "time_range": 60},
            'rate(node_network_receive_bytes_total{device="ens33"}[60m])'
            " * on(instance) group_left(nodename) node_uname_info",
        ),
        (
            {"function": "sum_over_time", "device_name": 'e"0'},
            'sum_over_time(node_network_receive_bytes_total{device="e\\"0"}[5m])'
            " * on(instance) group_left(nodename) node_uname_info",
        ),
    ],
    ids=["a rate", "the original's sum"],
)
def test_the_query_follows_the_arguments(args: dict[str, Any], expected: str) -> None:
    assert build_query(NetworkTrafficArgs(ip=URL, **args)) == expected
