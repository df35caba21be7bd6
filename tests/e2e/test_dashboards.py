"""The queries of dashboards, run by a real Prometheus on the metrics of real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.deploy.charts import combined, list_queries, named, objects
from tests.e2e.monitored import CLUSTER, OURS_JOB, THEIRS_JOB, Monitored, run_monitored
from tests.processes import ROOT, eventually

pytestmark = pytest.mark.e2e

PAGE = ROOT / "docs/monitoring.md"
SELECTOR = f'cluster="{CLUSTER}", job="JOB", instance=~".+"'


def rate(metric: str, selector: str = "") -> str:
    return f"rate({metric}{{{SELECTOR}{selector}}}[5m])"


def quantile(histogram: str, selector: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le) ({rate(histogram + '_bucket', selector)}))"


# Panels of kubernetes-mixin's dashboard "Scheduler", each with queries of the same metrics, labels and functions.
DURATIONS = {
    "attempts": "scheduler_scheduling_attempt_duration_seconds",
    "creation to binding": "scheduler_pod_scheduling_sli_duration_seconds",
    "algorithm": "scheduler_scheduling_algorithm_duration_seconds",
    "volumes": "scheduler_volume_scheduling_duration_seconds",
}
MIXIN = {
    "Up": {"": f"sum(up{{{SELECTOR}}})"},
    "Scheduling Rate": {key: f"sum({rate(metric + '_count')})" for key, metric in DURATIONS.items()},
    "Scheduling latency 99th Quantile": {key: quantile(metric) for key, metric in DURATIONS.items()},
    "Kube API Request Rate": {
        f"{digit}xx": "sum(" + rate("rest_client_requests_total", f', code=~"{digit}.."') + ")" for digit in "2345"
    },
    "Post Request Latency 99th Quantile": {
        "": quantile("rest_client_request_duration_seconds", ', verb="POST"'),
    },
    "Get Request Latency 99th Quantile": {
        "": quantile("rest_client_request_duration_seconds", ', verb="GET"'),
    },
    "Memory": {"": f"process_resident_memory_bytes{{{SELECTOR}}}"},
    "CPU usage": {"": rate("process_cpu_seconds_total")},
    "Goroutines": {"": f"go_goroutines{{{SELECTOR}}}"},
}
WHEN_THEY_OCCUR = {"3xx", "4xx", "5xx"}  # a client that got no such response has no series of it


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    with run_monitored(tmp_path_factory.mktemp("monitored")) as running:
        yield running


def documented(heading: str) -> dict[str, str]:
    """Return the second cell of each row of the table under a heading of the page, by the first cell."""
    section = PAGE.read_text().partition(f"\n### {heading}\n")[2].partition("\n##")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {row[0]: row[1] for row in rows[2:]}


def panels_with_data(monitored: Monitored, job: str) -> dict[str, list[str]]:
    """Return of each panel the queries that return a number for a job."""
    return {
        panel: [
            key
            for key, query in queries.items()
            if key not in WHEN_THEY_OCCUR and monitored.numbers(query.replace("JOB", job))
        ]
        for panel, queries in MIXIN.items()
    }


def as_documented(found: dict[str, list[str]]) -> dict[str, str]:
    return {panel: ("yes" if keys == [""] else ", ".join(keys)) or "no" for panel, keys in found.items()}


def test_the_mixin_s_panels_have_data_where_the_page_says_so(monitored: Monitored) -> None:
    expected = documented("kubernetes-mixin's scheduler dashboard")
    assert expected.keys() == MIXIN.keys()

    eventually(
        lambda: as_documented(panels_with_data(monitored, OURS_JOB)) == expected, "data as the page says", every_s=1
    )
    ours, theirs = panels_with_data(monitored, OURS_JOB), panels_with_data(monitored, THEIRS_JOB)
    assert theirs["Scheduling Rate"], "kube-scheduler is measured, too"
    assert {panel for panel in MIXIN if not set(theirs[panel]) <= set(ours[panel])} == {"Goroutines"}


def test_requests_have_the_labels_of_kube_scheduler_s(monitored: Monitored) -> None:
    for metric in ("rest_client_requests_total", "rest_client_request_duration_seconds_bucket"):
        ours, theirs = (
            {name for series in monitored.query(f'{metric}{{job="{job}"}}') for name in series["metric"]}
            for job in (OURS_JOB, THEIRS_JOB)
        )
        assert ours == theirs
    hosts = {
        series["metric"]["host"]
        for job in (OURS_JOB, THEIRS_JOB)
        for series in monitored.query(f'rest_client_requests_total{{job="{job}"}}')
    }
    assert len(hosts) == 1, hosts


def test_the_chart_s_queries_have_data_where_the_page_says_so(monitored: Monitored) -> None:
    """A query without data here has a row in the page that says when it has."""
    text = named(objects(combined("monitoring")), "ConfigMap", "herodotus-dashboard")["data"]
    queries = list_queries({file: json.loads(dashboard) for file, dashboard in text.items()})
    without = documented("Queries without data")

    def ask(expression: str) -> list[float]:
        return monitored.numbers(expression.replace("$__rate_interval", "5m").replace("$namespace", "herodotus"))

    def empty() -> set[str]:
        return {name for name, expression in queries.items() if not ask(expression)}

    eventually(lambda: empty() <= without.keys(), "data in every panel but those of the page", every_s=2)
    assert without.keys() <= queries.keys()
    (spread,) = ask('max(herodotus_node_requested_ratio{namespace="$namespace",resource="cpu",quantile="1"})')
    assert 0 < spread < 1
