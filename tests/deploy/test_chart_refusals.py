"""The chart rejects wrong or contradicting values with the reason before it creates anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from scripts.manifests import CHART
from tests.deploy.charts import Json, combined, merged, objects, refusal

POSTGRESQL = combined("postgresql")
OBSERVER = {"observer": {"enabled": True, "configuration": {"profiles": [{"schedulerName": "theirs"}]}}}


def nested(path: str, value: Any) -> Json:
    """Return the nested values of a dotted path: {"a": {"b": value}} for "a.b"."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (nested("endpoint.replicas", 2), "endpoint.replicas: a SQLite database has one writer"),
        (nested("endpoint.workers", 2), "endpoint.workers: a SQLite database has one writer"),
        (
            nested("endpoint.aggregatedAPI.enabled", True),
            "endpoint.aggregatedAPI: an APIService whose one replica is away",
        ),
        (nested("endpoint.database.urlSecret.name", "x"), "endpoint.database.urlSecret: SQLite has no URL"),
        (nested("endpoint.database.maxGiB", 5), "endpoint.persistence.sizeGiB: 6 is too small"),
        (nested("endpoint.database.kind", "PostgreSQL"), "endpoint.database.urlSecret.name: PostgreSQL needs a Secret"),
        (
            merged(POSTGRESQL, nested("endpoint.aggregatedAPI.enabled", False)),
            "endpoint.aggregatedAPI: PostgreSQL needs",
        ),
        (merged(POSTGRESQL, nested("endpoint.replicas", 1)), "endpoint.replicas: an APIService without an answering"),
        (
            merged(POSTGRESQL, nested("endpoint.certificate.source", "none")),
            "endpoint.certificate.source: the API server",
        ),
        (
            merged(POSTGRESQL, nested("endpoint.certificate.source", "own")),
            "endpoint.certificate.source: the API server must",
        ),
        (
            merged(nested("networkPolicy.enabled", False), nested("endpoint.certificate.source", "none")),
            "networkPolicy.enabled: without a certificate for the service nothing",
        ),
        (nested("fullnameOverride", "1st"), "fullnameOverride: names of Services begin with a letter"),
        (nested("endpoint.certificate.source", "secret"), "endpoint.certificate.secret: source secret needs its name"),
        (
            merged(POSTGRESQL, nested("endpoint.certificate", {"source": "secret", "secret": "mine"})),
            "endpoint.certificate.caBundle: the API server must know",
        ),
        (
            nested("endpoint.certificate.secret", "mine"),
            "endpoint.certificate: secret and caBundle go with source secret",
        ),
        (
            nested("endpoint.certificate.issuer.name", "mine"),
            "endpoint.certificate.issuer: goes with source certManager",
        ),
        (nested("scheduler.configuration.profiles", []), "scheduler.configuration.profiles: give one profile"),
        (
            nested("scheduler.configuration.profiles", [{"schedulerName": "default-scheduler"}]),
            "scheduler.configuration: a profile named default-scheduler takes the pods",
        ),
        (
            nested("scheduler.configuration.profiles", [{"schedulerName": "one"}, {"plugins": {}}]),
            "scheduler.configuration.profiles: each needs a schedulerName of its own",
        ),
        (
            nested("scheduler.configuration.profiles", [{"schedulerName": "one"}, {"schedulerName": "one"}]),
            "scheduler.configuration.profiles: each needs a schedulerName of its own",
        ),
        (nested("scheduler.replaceDefaultScheduler", True), "scheduler.replaceDefaultScheduler: no profile"),
        (
            {"scheduler": {"replicas": 2, "configuration": {"leaderElection": {"leaderElect": False}}}},
            "scheduler.replicas: several need leaderElection",
        ),
        (
            nested("priorityClass.create", True),
            "priorityClass.create: scheduler.priorityClassName must be a name of your",
        ),
        (
            merged(OBSERVER, nested("scheduler.enabled", False), nested("priorityClass.create", True)),
            "priorityClass.create: it is of the scheduler's pods",
        ),
        (nested("endpoint.enabled", False), "records.url: with endpoint.enabled false it must say"),
        (nested("records.url", "http://elsewhere:8001"), "records.url: records go to this release's own"),
        (
            {"endpoint": {"enabled": False}, "records": {"url": "http://elsewhere", "secret": "mine"}},
            "records.secret: a certificate is shown over TLS alone",
        ),
        (nested("observer.enabled", True), "observer.configuration: give the configuration of the observed scheduler"),
        (
            merged(OBSERVER, nested("observer.configuration.profiles", [{"schedulerName": "herodotus-scheduler"}])),
            "observer.configuration: herodotus-scheduler is this release's own scheduler",
        ),
        (combined("agents", "observer"), "agents.enabled: agents run in the scheduler's pod"),
        (nested("agents.enabled", True), "agents.extenders: say what the scheduler asks"),
        (
            nested("annotators.usage.enabled", True),
            "annotators.prometheus: usage and congestion are asked of Prometheus",
        ),
        (
            merged(POSTGRESQL, nested("access.readers", [{"kind": "Group", "name": "developers"}])),
            "access.readers, access.whatif: with endpoint.aggregatedAPI these rights go",
        ),
        (
            nested("access.clusterReviewers", [{"kind": "Group", "name": "sre"}]),
            "access.clusterReviewers: without endpoint.aggregatedAPI",
        ),
        (nested("access.nodes", [{"kind": "Group", "name": "sre"}]), "access.nodes: without endpoint.aggregatedAPI"),
        (
            nested("access.readers", [{"kind": "ServiceAccount", "name": "x"}]),
            "access: a ServiceAccount has a namespace",
        ),
    ],
    ids=lambda v: v.partition(":")[0] if isinstance(v, str) else "",
)
def test_contradicting_values_are_rejected_with_the_reason(values: Json, reason: str) -> None:
    assert reason in refusal(values)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        (nested("schedular.replicas", 2), "schedular"),
        (nested("scheduler.replica", 2), "replica"),
        (nested("scheduler.replicas", 0), "/scheduler/replicas"),
        (nested("scheduler.replicas", "two"), "/scheduler/replicas"),
        (nested("scheduler.replicas", None), "at '/scheduler': missing property 'replicas'"),
        (nested("scheduler.configuration.kind", "KubeSchedulerConfiguration"), "/scheduler/configuration"),
        (nested("scheduler.extraArgs", ["v=4"]), "/scheduler/extraArgs/0"),
        (nested("endpoint.extraEnv", ["A=b"]), "/endpoint/extraEnv/0"),
        (nested("endpoint.extraVolumes", [{"emptyDir": {}}]), "/endpoint/extraVolumes/0"),
        (nested("observer.extraVolumeMounts", [{"name": "x", "mountPath": "x"}]), "/observer/extraVolumeMounts/0"),
        (nested("endpoint.certificate.source", "None"), "/endpoint/certificate/source"),
        (nested("endpoint.database.kind", "MySQL"), "/endpoint/database/kind"),
        (nested("endpoint.retention.maxAge", "7 days"), "/endpoint/retention/maxAge"),
        (nested("endpoint.resources.limits.memory", "1 GB"), "/endpoint/resources/limits/memory"),
        (nested("endpoint.image.digest", "latest"), "/endpoint/image/digest"),
        (nested("agents.extenders", [{"prioritizeVerb": "priorities/safe"}]), "/agents/extenders/0"),
        (nested("records.omitLabels", ["a,b"]), "/records/omitLabels/0"),
        (nested("records.url", "elsewhere:8001"), "/records/url"),
        (nested("networkPolicy.apiServerCIDRs", ["192.0.2.1"]), "/networkPolicy/apiServerCIDRs/0"),
        (nested("access.readers", [{"kind": "Role", "name": "x"}]), "/access/readers/0/kind"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_wrong_value_is_rejected_with_its_path(values: Json, where: str) -> None:
    assert where in refusal(values)


@pytest.mark.parametrize(
    "values",
    [
        merged(POSTGRESQL, nested("endpoint.certificate.source", "selfSigned")),
        merged(POSTGRESQL, nested("endpoint.certificate.issuer", {"name": "company", "kind": "ClusterIssuer"})),
        merged(OBSERVER, nested("endpoint.certificate.source", "selfSigned")),
        {"priorityClass": {"create": True}, "scheduler": {"priorityClassName": "herodotus"}},
        nested("endpoint.retention", {"maxAge": "3d", "maxAgeOf": ["noisy=1h"], "summaryMaxAge": "90d"}),
        nested("networkPolicy.apiServerCIDRs", ["192.0.2.1/32", "::1/128"]),
        nested("networkPolicy.enabled", False),
        nested("endpoint.certificate.source", "none"),
        nested("access", {"readers": [{"kind": "Group", "name": "developers"}]}),
    ],
)
def test_values_next_to_rejected_ones_are_accepted(values: Json) -> None:
    assert objects(values)


SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_the_schema_has_exactly_the_values() -> None:
    known = dict(properties(SCHEMA))
    assert known.pop("global")["type"] == "object", "Helm's own, for charts that contain this one"
    assert known.keys() == dict(paths(VALUES)).keys()
    assert [place for place, found in known.items() if not closed(place, found)] == []


def test_values_with_a_default_cannot_be_null() -> None:
    """A `key: null` deletes a default; only empty defaults and resources may be deleted."""
    needed = {f"{place}.{key}" for place, found in properties(SCHEMA) for key in found.get("required", ())}
    filled = {place for place, value in paths(VALUES) if value not in ("", [], {})}
    assert needed | set(SCHEMA["required"]) == {p for p in filled if not p.endswith((".requests", ".limits"))}


FREE = {"configuration", "affinity", "issuer", "settings"}  # somebody else's words, or any of them


def properties(schema: Json, place: str = "") -> Iterator[tuple[str, Json]]:
    """Return each path of the schema with its definition."""
    for key, found in schema.get("properties", {}).items():
        while "$ref" in found:
            found = SCHEMA["$defs"][found["$ref"].removeprefix("#/$defs/")]
        yield f"{place}{key}", found
        if key not in FREE:
            yield from properties(found, f"{place}{key}.")


def closed(place: str, found: Json) -> bool:
    """Return whether a schema forbids unknown keys."""
    free = place.rpartition(".")[2] in FREE
    return free or found.get("type") != "object" or found.get("additionalProperties", True) is not True


def paths(values: Json, place: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        yield f"{place}{key}", value
        if isinstance(value, dict) and key not in FREE | {"labels", "requests", "limits"}:
            yield from paths(value, f"{place}{key}.")
