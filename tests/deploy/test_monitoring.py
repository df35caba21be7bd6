"""Alerts and dashboard query metrics and labels that the programs have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics import MetricWrapperBase

from herodotus_endpoint.metrics import EndpointMetrics as ServiceMetrics
from herodotus_kube.request_metrics import RequestMetrics
from scheduler.commands.health_checks import ProcessHealth
from scheduler.live.metrics import SchedulerMetrics
from scheduler.offline.observe.metrics import ObserverMetrics
from tests.deploy.charts import combined, list_queries, merged, named, objects

SERIES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
TARGETS = {"le", "namespace", "instance", "pod", "persistentvolumeclaim"}  # of Prometheus, and of where a pod runs
KUBELET = {"kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"}


def families(folder: Path) -> Iterator[tuple[Metric, set[str] | None]]:
    """Return each of our metrics with its labels, where they are fixed."""
    recorder: Any = SimpleNamespace(
        incarnation="", recorded=0, dropped=0, gaps=0, spool_bytes=0, spool_repairs=0, repeated=0
    )
    supervisor: Any = SimpleNamespace(running=True, restarts=0)
    metrics = SchedulerMetrics()
    metrics.registry.register(
        ProcessHealth(threading.Event(), metrics, folder, 1, 15.0, None, None, recorder, supervisor)
    )
    metrics.registry.register(RequestMetrics("http://api"))
    for registry in (metrics.registry, ObserverMetrics().registry, ServiceMetrics().registry):
        yield from of(registry)


def of(registry: CollectorRegistry) -> Iterator[tuple[Metric, set[str] | None]]:
    for collector in registry._collector_to_names:
        labels = set(collector._labelnames) if isinstance(collector, MetricWrapperBase) else None
        for family in collector.collect():
            yield family, labels


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str] | None]:
    """Return the names of Prometheus' series with their labels."""
    return {
        family.name + suffix: labels
        for family, labels in families(tmp_path_factory.mktemp("spool"))
        for suffix in SERIES.get(family.type, [""])
    }


MADE = objects(combined("monitoring"))
RULES = named(MADE, "PrometheusRule", "herodotus")["spec"]["groups"][0]["rules"]
CONFIG_MAP = named(MADE, "ConfigMap", "herodotus-dashboard")
DASHBOARDS = {file: json.loads(text) for file, text in CONFIG_MAP["data"].items()}
QUERIES = list_queries(DASHBOARDS)


@pytest.mark.parametrize("expression", [*QUERIES.values(), *(rule["expr"] for rule in RULES)], ids=[
    *QUERIES, *(rule["alert"] for rule in RULES)
])  # fmt: skip
def test_every_query_uses_existing_metrics(expression: str, series: dict[str, set[str] | None]) -> None:
    asked = set(re.findall(r"\b(?:herodotus|scheduler|leader|kubelet|process|rest_client)_\w+", expression))
    assert asked
    assert asked <= series.keys() | KUBELET
    grouped = {word.strip() for words in re.findall(r"by \(([^)]*)\)", expression) for word in words.split(",")}
    selected = set(re.findall(r"[{,](\w+)!?=", expression))
    known = [series.get(name) for name in asked]
    if None not in known:
        assert grouped | selected <= TARGETS.union(*(labels for labels in known if labels))


def promtool(*arguments: str, folder: Path, **files: Any) -> str:
    """Run promtool and return its output; fail if it reports an error."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("NO promtool, which is in Debian's package prometheus")
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    command = [program, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    asked = (q.replace("$__rate_interval", "5m").replace("$namespace", "herodotus") for q in QUERIES.values())
    recorded = [{"record": f"query_{i}", "expr": expression} for i, expression in enumerate(asked)]
    groups = [{"name": "alerts", "rules": RULES}, {"name": "dashboard", "rules": recorded}]
    said = promtool("check", "rules", "rules.yaml", folder=tmp_path, rules={"groups": groups})
    assert f"{len(RULES) + len(recorded)} rules found" in said


# Of each alert: series of an hour, a value a minute, at the end of which it fires.
FIRES: dict[str, dict[str, str]] = {
    "HerodotusRecordsMissing": {'herodotus_missing_sequences{instance="a"}': "5x60"},
    "HerodotusRecordsLost": {'herodotus_lost_sequences{instance="a"}': "0+1x60"},
    "HerodotusSpoolFillsUp": {
        'herodotus_spool_waiting_bytes{instance="a"}': "600x60",
        'herodotus_spool_limit_bytes{instance="a"}': "1000x60",
    },
    "HerodotusDeliveryStuck": {
        'herodotus_spool_waiting_bytes{instance="a"}': "1x60",
        'herodotus_shipper_caught_up_timestamp_seconds{instance="a"}': "0x60",
    },
    "HerodotusRecordsRefused": {'herodotus_shipper_refused_frames_total{instance="a"}': "0+1x60"},
    "HerodotusDatabaseRefuses": {'herodotus_ingest_refused_total{instance="a",cause="database"}': "0+1x60"},
    "HerodotusDatabaseGone": {'herodotus_database_up{instance="a"}': "0x60"},
    "HerodotusDatabaseTooLarge": {
        'herodotus_database_bytes{instance="a",kind="files"}': "121x60",
        'herodotus_database_limit_bytes{instance="a"}': "100x60",
    },
    "HerodotusDiskFillsUp": {
        'kubelet_volume_stats_available_bytes{instance="a",namespace="herodotus"}': "9x60",
        'kubelet_volume_stats_capacity_bytes{instance="a",namespace="herodotus"}': "100x60",
    },
    "HerodotusWatchesRefused": {'herodotus_watches_refused_total{instance="a"}': "0+1x60"},
}


def test_each_alert_fires_for_its_condition_only(tmp_path: Path) -> None:
    """Each alert fires alone, and none fires in a healthy system."""
    assert FIRES.keys() == {rule["alert"] for rule in RULES}
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'

    def after_an_hour(series: dict[str, str], *alerts: str) -> dict[str, Any]:
        expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
        asked = {"expr": firing, "eval_time": "60m", "exp_samples": expected}
        given = [{"series": name, "values": values} for name, values in series.items()]
        return {"interval": "1m", "input_series": given, "promql_expr_test": [asked]}

    well = {name: "0x60" for series in FIRES.values() for name in series} | {
        'herodotus_shipper_caught_up_timestamp_seconds{instance="a"}': "0+60x60",
        'herodotus_spool_limit_bytes{instance="a"}': "1000x60",
        'herodotus_database_limit_bytes{instance="a"}': "100x60",
        'herodotus_database_up{instance="a"}': "1x60",
        'kubelet_volume_stats_available_bytes{instance="a",namespace="herodotus"}': "50x60",
        'kubelet_volume_stats_capacity_bytes{instance="a",namespace="herodotus"}': "100x60",
    }
    tests = [after_an_hour(well), *(after_an_hour(well | series, alert) for alert, series in FIRES.items())]
    rules = {"groups": [{"name": "alerts", "rules": RULES}]}
    unit = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    assert "SUCCESS" in promtool("test", "rules", "unit.yaml", folder=tmp_path, rules=rules, unit=unit)


@pytest.mark.parametrize("file", ["herodotus.json", "placement.json"])
def test_a_dashboard_is_valid_for_grafana(file: str) -> None:
    dashboard = DASHBOARDS[file]
    panels = [p for p in dashboard["panels"] if p["type"] != "row"]
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    assert len(panels) > 15
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
    assert len(set(places)) == len(places), "none lies on another"
    queries = list_queries({file: dashboard}).values()
    assert all('{namespace="$namespace"' in expression for expression in queries)
    assert {v["name"] for v in dashboard["templating"]["list"]} == {"datasource", "namespace"}


def test_grafana_s_sidecar_finds_the_dashboards_where_asked_for() -> None:
    assert CONFIG_MAP["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert len({dashboard["uid"] for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS) == 2
    assert not [o for o in objects({}) if o["metadata"]["name"] == "herodotus-dashboard"], "off by default"


def test_alerts_have_a_summary_and_a_severity() -> None:
    assert all({"summary", "description"} <= rule["annotations"].keys() for rule in RULES)
    assert all(rule["labels"]["severity"] in ("info", "warning", "critical") for rule in RULES)
    (disk,) = (rule for rule in RULES if rule["alert"] == "HerodotusDiskFillsUp")
    assert "{{ $labels.persistentvolumeclaim }}" in disk["annotations"]["description"]


def test_alerts_select_the_release_s_namespace() -> None:
    (rule,) = (o for o in objects(combined("monitoring"), namespace="blue") if o["kind"] == "PrometheusRule")
    assert 'namespace="blue"' in json.dumps(rule).replace('\\"', '"')


def test_the_scheduler_s_metrics_can_have_kube_scheduler_s_job() -> None:
    """kubernetes-mixin selects by this label."""

    def relabelings(job: str) -> dict[str, Any]:
        made = objects(merged(combined("monitoring"), {"monitoring": {"serviceMonitor": {"schedulerJob": job}}}))
        monitors = (o for o in made if o["kind"] == "ServiceMonitor")
        return {o["metadata"]["name"]: o["spec"]["endpoints"][0].get("relabelings") for o in monitors}

    assert relabelings("kube-scheduler") == {
        "herodotus-scheduler": [{"targetLabel": "job", "replacement": "kube-scheduler"}],
        "herodotus-endpoint": None,
    }
    assert set(relabelings("").values()) == {None}
