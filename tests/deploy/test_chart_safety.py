"""The chart's defaults: TLS, named senders, a right to one Secret; and additions to its pods."""

from __future__ import annotations

import pytest
import yaml

from herodotus_cli.connection import PLAIN_HTTP_SERVICE
from tests.deploy.charts import (
    ASKED_FOR,
    VALID,
    Json,
    combined,
    containers,
    every_combination,
    made_of,
    merged,
    named,
    objects,
    pods,
)

SECURE = [names for names in VALID if "plain-http" not in names]


@pytest.mark.parametrize("names", SECURE, ids=lambda names: "+".join(names) or "default")
def test_traffic_is_encrypted_and_senders_are_named(names: tuple[str, ...]) -> None:
    """Plain HTTP is opt-in."""
    made = made_of(names)
    flags = [flag for pod in pods(made).values() for c in pod["containers"] for flag in c["args"]]
    assert "--insecure" not in flags
    delivered = [flag for flag in flags if flag.startswith("--endpoint=")]
    assert all(flag.startswith("--endpoint=https://") for flag in delivered)
    assert len(delivered) == len([f for f in flags if f.startswith("--endpoint-ca-")])
    reached = {name for o in made if o["kind"] == "Role" for name in proxied(o)}
    assert reached <= {"https:herodotus-endpoint:8000"}


def proxied(role: Json) -> list[str]:
    return [name for rule in role["rules"] if "services/proxy" in rule["resources"] for name in rule["resourceNames"]]


@every_combination
def test_only_the_service_may_write_the_secret_of_its_certificate(names: tuple[str, ...]) -> None:
    made = made_of(names)
    rules = [
        (role["metadata"]["name"], rule["resourceNames"], rule["verbs"])
        for role in made
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        if "secrets" in rule.get("resources", ())
    ]
    own = any(container["name"] == "certificate" for pod in pods(made).values() for container in containers(pod))
    assert rules == [("herodotus-endpoint", ["herodotus-endpoint-own"], ["get", "update"])] * own


def test_without_tls_the_port_is_named_plain_http() -> None:
    made = objects(combined("plain-http", "monitoring"))
    ports = {p["name"]: p["port"] for p in named(made, "Service", "herodotus-endpoint")["spec"]["ports"]}
    assert PLAIN_HTTP_SERVICE.proxy_path.split("/")[-2] == "http:herodotus-endpoint:plain-http"
    assert ports == {PLAIN_HTTP_SERVICE.port: 8000, "ingest": 8001}
    assert proxied(named(made, "Role", "herodotus-reader")) == ["http:herodotus-endpoint:plain-http"]
    (scraped,) = named(made, "ServiceMonitor", "herodotus-endpoint")["spec"]["endpoints"]
    assert scraped["port"] == PLAIN_HTTP_SERVICE.port


@pytest.mark.parametrize("component", ["scheduler", "endpoint", "observer"])
@pytest.mark.parametrize("names", [(), ("postgresql",)], ids=["SQLite", "PostgreSQL"])
def test_additions_to_a_pod_keep_its_other_entries(names: tuple[str, ...], component: str) -> None:
    others = merged(combined("observer"), {"scheduler": {"enabled": True}})
    before, after = (
        pods(objects(merged(others, combined(*names), given)))[f"herodotus-{component}"]
        for given in ({}, {component: ASKED_FOR["extras"][component]})
    )
    (old,), (new,) = before["containers"], after["containers"]
    assert new.get("env", []) == [
        *old.get("env", ()),
        {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"},
    ]
    assert new["volumeMounts"] == [
        *old["volumeMounts"],
        {"name": "extra", "mountPath": "/etc/extra", "readOnly": True},
    ]
    assert after["volumes"] == [*before["volumes"], {"name": "extra", "configMap": {"name": "herodotus-extra"}}]


@pytest.mark.parametrize("given", [{}, {"leaderElect": None}, {"leaderElect": None, "resourceName": None}], ids=str)
def test_a_null_setting_of_the_election_is_omitted(given: Json) -> None:
    made = objects({"scheduler": {"configuration": {"leaderElection": given}}})
    lease = named(made, "Role", "herodotus-scheduler")["rules"][1]["resourceNames"]
    config = yaml.safe_load(named(made, "ConfigMap", "herodotus-scheduler")["data"]["config.yaml"])
    assert (config["leaderElection"]["leaderElect"], lease) == (True, ["herodotus-scheduler"])
