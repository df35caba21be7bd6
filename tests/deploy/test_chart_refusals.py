"""Values of the chart that are wrong, or do not go together, are refused with the reason before anything is made."""

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


def at(path: str, value: Any) -> Json:
    """{"a": {"b": value}} of "a.b"."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (at("endpoint.replicas", 2), "endpoint.replicas: a SQLite database has one writer"),
        (at("endpoint.workers", 2), "endpoint.workers: a SQLite database has one writer"),
        (at("endpoint.aggregatedAPI.enabled", True), "endpoint.aggregatedAPI: an APIService whose one replica is away"),
        (at("endpoint.database.urlSecret.name", "x"), "endpoint.database.urlSecret: SQLite has no URL"),
        (at("endpoint.database.maxGiB", 5), "endpoint.persistence.sizeGiB: 6 is too small"),
        (at("endpoint.database.kind", "PostgreSQL"), "endpoint.database.urlSecret.name: PostgreSQL needs a Secret"),
        (merged(POSTGRESQL, at("endpoint.aggregatedAPI.enabled", False)), "endpoint.aggregatedAPI: PostgreSQL needs"),
        (merged(POSTGRESQL, at("endpoint.replicas", 1)), "endpoint.replicas: an APIService without an answering"),
        (merged(POSTGRESQL, at("endpoint.certificate.source", "none")), "endpoint.certificate.source: the API server"),
        (
            merged(POSTGRESQL, at("endpoint.certificate.source", "own")),
            "endpoint.certificate.source: the API server must",
        ),
        (
            merged(at("networkPolicy.enabled", False), at("endpoint.certificate.source", "none")),
            "networkPolicy.enabled: without a certificate for the service nothing",
        ),
        (at("fullnameOverride", "1st"), "fullnameOverride: names of Services begin with a letter"),
        (at("endpoint.certificate.source", "secret"), "endpoint.certificate.secret: source secret needs its name"),
        (
            merged(POSTGRESQL, at("endpoint.certificate", {"source": "secret", "secret": "mine"})),
            "endpoint.certificate.caBundle: the API server must know",
        ),
        (at("endpoint.certificate.secret", "mine"), "endpoint.certificate: secret and caBundle go with source secret"),
        (at("endpoint.certificate.issuer.name", "mine"), "endpoint.certificate.issuer: goes with source certManager"),
        (at("scheduler.configuration.profiles", []), "scheduler.configuration.profiles: give one profile"),
        (
            at("scheduler.configuration.profiles", [{"schedulerName": "default-scheduler"}]),
            "scheduler.configuration: a profile named default-scheduler takes the pods",
        ),
        (
            at("scheduler.configuration.profiles", [{"schedulerName": "one"}, {"plugins": {}}]),
            "scheduler.configuration.profiles: each needs a schedulerName of its own",
        ),
        (
            at("scheduler.configuration.profiles", [{"schedulerName": "one"}, {"schedulerName": "one"}]),
            "scheduler.configuration.profiles: each needs a schedulerName of its own",
        ),
        (at("scheduler.replaceDefaultScheduler", True), "scheduler.replaceDefaultScheduler: no profile"),
        (
            {"scheduler": {"replicas": 2, "configuration": {"leaderElection": {"leaderElect": False}}}},
            "scheduler.replicas: several need leaderElection",
        ),
        (at("priorityClass.create", True), "priorityClass.create: scheduler.priorityClassName must be a name of your"),
        (
            merged(OBSERVER, at("scheduler.enabled", False), at("priorityClass.create", True)),
            "priorityClass.create: it is of the scheduler's pods",
        ),
        (at("endpoint.enabled", False), "records.url: with endpoint.enabled false it must say"),
        (at("records.url", "http://elsewhere:8001"), "records.url: records go to this release's own"),
        (
            {"endpoint": {"enabled": False}, "records": {"url": "http://elsewhere", "secret": "mine"}},
            "records.secret: a certificate is shown over TLS alone",
        ),
        (at("observer.enabled", True), "observer.configuration: give the configuration of the observed scheduler"),
        (
            merged(OBSERVER, at("observer.configuration.profiles", [{"schedulerName": "herodotus-scheduler"}])),
            "observer.configuration: herodotus-scheduler is this release's own scheduler",
        ),
        (combined("agents", "observer"), "agents.enabled: agents run in the scheduler's pod"),
        (at("agents.enabled", True), "agents.extenders: say what the scheduler asks"),
        (at("annotators.usage.enabled", True), "annotators.prometheus: usage and congestion are asked of Prometheus"),
        (
            merged(POSTGRESQL, at("access.readers", [{"kind": "Group", "name": "developers"}])),
            "access.readers, access.whatif: with endpoint.aggregatedAPI these rights go",
        ),
        (at("access.nodes", [{"kind": "Group", "name": "sre"}]), "access.nodes: without endpoint.aggregatedAPI"),
        (at("access.readers", [{"kind": "ServiceAccount", "name": "x"}]), "access: a ServiceAccount has a namespace"),
    ],
    ids=lambda v: v.partition(":")[0] if isinstance(v, str) else "",
)
def test_what_does_not_go_together_is_refused_with_the_reason(values: Json, reason: str) -> None:
    assert reason in refusal(values)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        (at("schedular.replicas", 2), "schedular"),
        (at("scheduler.replica", 2), "replica"),
        (at("scheduler.replicas", 0), "/scheduler/replicas"),
        (at("scheduler.replicas", "two"), "/scheduler/replicas"),
        (at("scheduler.replicas", None), "at '/scheduler': missing property 'replicas'"),
        (at("scheduler.configuration.kind", "KubeSchedulerConfiguration"), "/scheduler/configuration"),
        (at("scheduler.extraArgs", ["v=4"]), "/scheduler/extraArgs/0"),
        (at("endpoint.extraEnv", ["A=b"]), "/endpoint/extraEnv/0"),
        (at("endpoint.extraVolumes", [{"emptyDir": {}}]), "/endpoint/extraVolumes/0"),
        (at("observer.extraVolumeMounts", [{"name": "x", "mountPath": "x"}]), "/observer/extraVolumeMounts/0"),
        (at("endpoint.certificate.source", "None"), "/endpoint/certificate/source"),
        (at("endpoint.database.kind", "MySQL"), "/endpoint/database/kind"),
        (at("endpoint.retention.maxAge", "7 days"), "/endpoint/retention/maxAge"),
        (at("endpoint.resources.limits.memory", "1 GB"), "/endpoint/resources/limits/memory"),
        (at("endpoint.image.digest", "latest"), "/endpoint/image/digest"),
        (at("agents.extenders", [{"prioritizeVerb": "priorities/safe"}]), "/agents/extenders/0"),
        (at("records.omitLabels", ["a,b"]), "/records/omitLabels/0"),
        (at("records.url", "elsewhere:8001"), "/records/url"),
        (at("networkPolicy.apiServerCIDRs", ["192.0.2.1"]), "/networkPolicy/apiServerCIDRs/0"),
        (at("access.readers", [{"kind": "Role", "name": "x"}]), "/access/readers/0/kind"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_value_that_is_wrong_is_refused_by_its_place(values: Json, where: str) -> None:
    assert where in refusal(values)


@pytest.mark.parametrize(
    "values",
    [
        merged(POSTGRESQL, at("endpoint.certificate.source", "selfSigned")),
        merged(POSTGRESQL, at("endpoint.certificate.issuer", {"name": "company", "kind": "ClusterIssuer"})),
        merged(OBSERVER, at("endpoint.certificate.source", "selfSigned")),
        {"priorityClass": {"create": True}, "scheduler": {"priorityClassName": "herodotus"}},
        at("endpoint.retention", {"maxAge": "3d", "maxAgeOf": ["noisy=1h"], "summaryMaxAge": "90d"}),
        at("networkPolicy.apiServerCIDRs", ["192.0.2.1/32", "::1/128"]),
        at("networkPolicy.enabled", False),
        at("endpoint.certificate.source", "none"),
        at("access", {"readers": [{"kind": "Group", "name": "developers"}]}),
    ],
)
def test_values_beside_those_that_are_refused_are_taken(values: Json) -> None:
    assert objects(values)


SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_the_schema_has_the_values_and_no_others() -> None:
    known = dict(properties(SCHEMA))
    assert known.pop("global")["type"] == "object", "Helm's own, for charts that contain this one"
    assert known.keys() == dict(paths(VALUES)).keys()
    assert [place for place, found in known.items() if not closed(place, found)] == []


def test_what_has_a_default_cannot_be_taken_away() -> None:
    """`key: null` deletes a default; only what is empty anyway, or a resource, may be left out."""
    needed = {f"{place}.{key}" for place, found in properties(SCHEMA) for key in found.get("required", ())}
    filled = {place for place, value in paths(VALUES) if value not in ("", [], {})}
    assert needed | set(SCHEMA["required"]) == {p for p in filled if not p.endswith((".requests", ".limits"))}


FREE = {"configuration", "affinity", "issuer", "settings"}  # somebody else's words, or any of them


def properties(schema: Json, place: str = "") -> Iterator[tuple[str, Json]]:
    """Each place, and what the schema says of it."""
    for key, found in schema.get("properties", {}).items():
        while "$ref" in found:
            found = SCHEMA["$defs"][found["$ref"].removeprefix("#/$defs/")]
        yield f"{place}{key}", found
        if key not in FREE:
            yield from properties(found, f"{place}{key}.")


def closed(place: str, found: Json) -> bool:
    """Whether it takes only what is written there."""
    free = place.rpartition(".")[2] in FREE
    return free or found.get("type") != "object" or found.get("additionalProperties", True) is not True


def paths(values: Json, place: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        yield f"{place}{key}", value
        if isinstance(value, dict) and key not in FREE | {"labels", "requests", "limits"}:
            yield from paths(value, f"{place}{key}.")
