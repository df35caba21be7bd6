"""The OpenAPI 3.0 documents: one of all HTTP routes, and one of the API group only.

Owns: the form of an operation. Does not own: what it says of a route (`routing.Route`, declared at each view), schemas
(`schemas`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from herodotus_answers.schema import NAME, build_schemas, refer_to
from herodotus_endpoint.parameters import MAX_NAME, TIMEOUT, Parameter
from herodotus_endpoint.resources import GROUP, PREFIX, RESOURCES, VERSION
from herodotus_endpoint.routing import JSON, TEXT, Answer, Route
from herodotus_record.version import __version__

Json = dict[str, Any]


@cache
def build_component_schemas() -> Mapping[str, Json]:
    """Return the schema of every kind of document by its name in `components`.

    The first call takes a tenth of a second, which a start of the service saves.
    """
    return {f"{NAME}.{kind}": _identify(kind, schema) for kind, schema in build_schemas().items()}


def _identify(kind: str, schema: Json) -> Json:
    """Return the schema of a kind. A resource of the API group gets the extension with its group, version and kind."""
    if kind not in {resource.kind for resource in RESOURCES}:
        return schema
    return schema | {"x-kubernetes-group-version-kind": [{"group": GROUP, "kind": kind, "version": VERSION}]}


_NAME: Final = {"type": "string", "maxLength": MAX_NAME, "minLength": 1}


def build_document(routes: Sequence[Route]) -> Json:
    """Return the OpenAPI document of all routes of the service."""
    return _document("Herodotus decisions service", __version__, routes)


def build_group_document(routes: Sequence[Route]) -> Json:
    """Return the OpenAPI document of the API group, which the API server merges into its document."""
    return _document(GROUP, VERSION, [route for route in routes if route.path.startswith(f"{PREFIX}/")])


def _document(title: str, version: str, routes: Sequence[Route]) -> Json:
    paths: Json = {}
    for route in sorted(routes, key=lambda route: route.path):
        operations = paths.setdefault(re.sub(r"<(\w+)>", r"{\1}", route.path), {})
        operations[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": build_component_schemas()},
    }


def _operation(route: Route) -> Json:
    accepted = (*route.parameters, TIMEOUT) if route.rejects_unknown_parameters else route.parameters
    operation: Json = {
        "operationId": route.operation_id,
        "description": route.summary,
        "parameters": [
            *({"name": part, "in": "path", "required": True, "schema": _NAME} for part in route.path_parts),
            *(_parameter(parameter, "query") for parameter in accepted),
            *(_parameter(parameter, "header") for parameter in route.headers),
        ],
        "responses": {str(answer.code): _response(route, answer) for answer in route.answers}
        | {str(code): _failure() for code in route.errors},
    }
    if route.body:
        content = {content_type: {"schema": schema} for content_type, schema in route.body.items()}
        operation["requestBody"] = {"required": True, "content": content}
    if route.resource and route.api_request:
        verb, _ = route.api_request
        operation["x-kubernetes-action"] = "post" if verb == "create" else verb
        operation["x-kubernetes-group-version-kind"] = {"group": GROUP, "kind": route.resource.kind, "version": VERSION}
    return operation


def _parameter(parameter: Parameter, place: str) -> Json:
    document = {"name": parameter.name, "in": place, "schema": parameter.schema, "description": parameter.description}
    return document | ({"required": True} if parameter.missing else {})


def _response(route: Route, answer: Answer) -> Json:
    schema = answer.schema
    if schema is None and f"{NAME}.{route.document_kind}" in build_component_schemas():
        schema = refer_to(route.document_kind)
    types = (TEXT,) if route.document == TEXT else answer.content_types
    content = {kind: {"schema": schema or {"type": "object" if kind == JSON else "string"}} for kind in types}
    return {"description": answer.description} | ({"content": content} if content else {})


def _failure() -> Json:
    return {"description": "Failed", "content": {JSON: {"schema": refer_to("Status")}}}
