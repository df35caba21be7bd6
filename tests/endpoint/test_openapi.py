"""The OpenAPI document and the service say the same: routes, parameters, answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from herodotus_answers.schema import NAME
from herodotus_endpoint.api.ingest import PATH as INGEST
from herodotus_endpoint.openapi import build_component_schemas
from herodotus_endpoint.resources import RESOURCES
from herodotus_endpoint.routing import Route
from herodotus_record import codec
from herodotus_record.model import Gap, Owner
from tests.builders import INCARNATION, INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.service import API, Service, a_service, declared_routes, rows
from tests.processes import ROOT

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in TABLE.names}
EXAMPLES = int(os.environ.get("OPENAPI_EXAMPLES", "12"))  # of each operation: seconds in all
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as folder:
        service = a_service(Path(folder), insecure=True)
        owner = Owner("ReplicaSet", "web")
        first = a_decision(pod="web-1", sequence=1, owner=owner)
        service.stored(rows(TABLE), first, bound(first, TABLE, sequence=2))
        service.stored(a_decision(pod="web-2", sequence=3, rejected=FULL, owner=owner))
        yield service
        service.store.close()


def test_document_has_exactly_the_routes_of_the_app(shared: Service) -> None:
    rules = (re.sub(r"<(\w+)>", r"{\1}", rule.rule) for rule in shared.client.application.url_map.iter_rules())
    assert set(rules) == shared.get("/openapi.json")["paths"].keys()


def test_group_document_has_its_routes_and_kinds(shared: Service) -> None:
    document = shared.get(f"/openapi/v3{API}")
    whole = shared.get("/openapi.json")["paths"]
    assert document["paths"] == {path: operations for path, operations in whole.items() if path.startswith(f"{API}/")}
    kinds = {
        kind["kind"]
        for s in document["components"]["schemas"].values()
        for kind in s.get("x-kubernetes-group-version-kind", ())
    }
    assert {kind.kind for kind in RESOURCES} == kinds
    index = shared.get("/openapi/v3")["paths"]
    assert index == {API.lstrip("/"): {"serverRelativeURL": f"/openapi/v3{API}"}}


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Decision", f"{API}/namespaces/shop/decisions/web-2"),
        ("PodExplanation", f"{API}/namespaces/shop/podexplanations/web-2"),
        ("NodeHistory", f"{API}/nodehistories/worker-1"),
    ],
)
def test_every_field_of_a_response_has_a_description(shared: Service, kind: str, path: str) -> None:
    """Of those that the schema goes into: none is left out of `kubectl explain`."""
    assert unknown(shared.get(path), build_component_schemas()[f"{NAME}.{kind}"]) == []


def test_schemas_are_derived_with_the_first_document_and_not_at_the_start() -> None:
    code = "from herodotus_endpoint import app, openapi; print(openapi.build_component_schemas.cache_info().currsize)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "0\n"


def unknown(value: Any, explained: Any, path: str = "") -> list[str]:
    """Paths of fields that the schema does not name, where it names any."""
    if isinstance(value, list) and explained.get("items"):
        return [m for entry in value for m in unknown(entry, explained["items"], f"{path}[]")]
    if isinstance(value, dict) and isinstance(explained.get("additionalProperties"), dict):
        return [m for entry in value.values() for m in unknown(entry, explained["additionalProperties"], f"{path}{{}}")]
    fields = explained.get("properties")
    if not isinstance(value, dict) or not fields:
        return []
    missing = [f"{path}.{key}" for key in value if key not in fields]
    return missing + [m for key in value if key in fields for m in unknown(value[key], fields[key], f"{path}.{key}")]


# Bodies of ingest: whole frames, bytes that are none, packed or not. The document says of them that they are bytes.
FRAMES = [codec.encode(frame) for frame in (rows(TABLE), a_decision(sequence=5), Gap(INCARNATION, 6, 4, 4, "", 0))]
BATCHES = st.lists(st.one_of(st.sampled_from(FRAMES), st.binary(max_size=40)), max_size=4).map(b"".join)
schemathesis.openapi.media_type(codec.CONTENT_TYPE, st.one_of(BATCHES, BATCHES.map(codec.compress)))


@pytest.mark.parametrize("route", [r for r in declared_routes() if r.method == "GET" or r.path == INGEST], ids=str)
def test_responses_match_the_document(shared: Service, route: Route) -> None:
    """No 500, no status, content type or shape that is not documented."""
    path = re.sub(r"<(\w+)>", r"{\1}", route.path)
    operation = schemathesis.openapi.from_wsgi("/openapi.json", shared.client.application)[path][route.method]

    @given(case=operation.as_strategy())
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    def answered(case: Any) -> None:
        if case.query.get("watch") == "true":
            case.query["resourceVersion"] = "99999999"  # a watch that goes on is no answer to look at
        if "wait" in case.query:
            case.query["wait"] = 0  # no review will come
        case.call_and_validate(checks=CHECKS)

    answered()
