"""Alerts and dashboard are about metrics that the programs have, by labels that these metrics have."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics import MetricWrapperBase

from herodotus_endpoint.metrics import Metrics as ServiceMetrics
from scheduler.metrics import Metrics
from scheduler.observe.metrics import ObserverMetrics
from scheduler.vitals import Vitals
from tests.deploy.charts import combined, named, objects

SERIES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
TARGETS = {"le", "namespace", "instance", "pod", "persistentvolumeclaim"}  # of Prometheus, and of where a pod runs
KUBELET = {"kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"}


def families(folder: Path) -> Iterator[tuple[Metric, set[str] | None]]:
    """Every metric of ours, and its labels where they are fixed."""
    recorder: Any = SimpleNamespace(incarnation="", recorded=0, dropped=0, gaps=0, spool_bytes=0)
    supervisor: Any = SimpleNamespace(running=True, restarts=0)
    metrics = Metrics()
    metrics.registry.register(Vitals(threading.Event(), metrics, folder, 1, 15.0, None, None, recorder, supervisor))
    for registry in (metrics.registry, ObserverMetrics().registry, ServiceMetrics().registry):
        yield from of(registry)


def of(registry: CollectorRegistry) -> Iterator[tuple[Metric, set[str] | None]]:
    for collector in registry._collector_to_names:
        labels = set(collector._labelnames) if isinstance(collector, MetricWrapperBase) else None
        for family in collector.collect():
            yield family, labels


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str] | None]:
    """The names that Prometheus has, and their labels."""
    return {
        family.name + suffix: labels
        for family, labels in families(tmp_path_factory.mktemp("spool"))
        for suffix in SERIES.get(family.type, [""])
    }


MADE = objects(combined("monitoring"))
RULES = named(MADE, "PrometheusRule", "herodotus")["spec"]["groups"][0]["rules"]
DASHBOARD = json.loads(named(MADE, "ConfigMap", "herodotus-dashboard")["data"]["herodotus.json"])
QUERIES = {
    f"{panel['title']}: {target['legendFormat']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
}


@pytest.mark.parametrize("expression", [*QUERIES.values(), *(rule["expr"] for rule in RULES)], ids=[
    *QUERIES, *(rule["alert"] for rule in RULES)
])  # fmt: skip
def test_every_query_is_of_metrics_that_there_are(expression: str, series: dict[str, set[str] | None]) -> None:
    asked = set(re.findall(r"\b(?:herodotus|scheduler|leader|kubelet|process)_\w+", expression))
    assert asked
    assert asked <= series.keys() | KUBELET
    grouped = {word.strip() for words in re.findall(r"by \(([^)]*)\)", expression) for word in words.split(",")}
    selected = set(re.findall(r"[{,](\w+)=", expression))
    known = [series.get(name) for name in asked]
    if None not in known:
        assert grouped | selected <= TARGETS.union(*(labels for labels in known if labels))


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    panels = [p for p in DASHBOARD["panels"] if p["type"] != "row"]
    ids = [p["id"] for p in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert len(panels) > 20
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]]
    assert len(set(places)) == len(places), "none lies on another"
    assert all('{namespace="$namespace"' in expression for expression in QUERIES.values())
    assert {v["name"] for v in DASHBOARD["templating"]["list"]} == {"datasource", "namespace"}


def test_alerts_say_what_is_wrong_and_how_bad_it_is() -> None:
    assert all({"summary", "description"} <= rule["annotations"].keys() for rule in RULES)
    assert all(rule["labels"]["severity"] in ("info", "warning", "critical") for rule in RULES)
    (disk,) = (rule for rule in RULES if rule["alert"] == "HerodotusDiskFillsUp")
    assert "{{ $labels.persistentvolumeclaim }}" in disk["annotations"]["description"]


def test_alerts_are_of_the_release_s_namespace() -> None:
    (rule,) = (o for o in objects(combined("monitoring"), namespace="blue") if o["kind"] == "PrometheusRule")
    assert 'namespace="blue"' in json.dumps(rule).replace('\\"', '"')
