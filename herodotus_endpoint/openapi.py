"""The OpenAPI 3.0 documents: one of all HTTP routes, and one of the API group only.

Owns: paths, parameters, responses. Does not own: schemas (`schemas`), routes; a test compares both with the app. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from herodotus_endpoint.api.resources import (
    AGREEMENTS,
    BALANCE,
    DECISION,
    EXPLANATION,
    GROUP,
    HISTORY,
    INCARNATION,
    NODE_COMPARISON,
    PENDING,
    POD_COMPARISON,
    POD_HISTORY,
    PREFIX,
    REVIEW,
    SERVICE_VERSION,
    VERSION,
    WORKLOAD,
    ServedResource,
)
from herodotus_endpoint.api.schemas import NAME, SCHEMAS, schema_reference
from herodotus_endpoint.pages import HOME, TYPES
from herodotus_record import codec
from herodotus_record.version import __version__

Json = dict[str, Any]
TEXT: Final = "text/plain"
PAGE_TYPES: Final = [kind.partition(";")[0] for kind in TYPES.values()]
_NAME: Final = {"type": "string", "maxLength": 253}
_FLAG: Final = {"type": "string", "enum": ["true", "false"]}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 2**31}
_TEXT: Final = {"type": "string", "maxLength": 512}

# The schema and the description of each query parameter.
PARAMETERS: Final[dict[str, tuple[Json, str]]] = {
    "allowWatchBookmarks": (_FLAG, "Whether a watch sends bookmarks."),
    "a": (_NAME, "One node."),
    "all": (_FLAG, "Return every node, not only the most relevant ones."),
    "attempt": (
        {"type": "integer", "minimum": 1, "maximum": 2**62},
        "Number of the pod's stored attempt, ordered by start.",
    ),
    "b": (_NAME, "The other node."),
    "cluster": (_NAME, "The UID of a cluster's namespace kube-system. Without it, the API server's own cluster."),
    "columns": (_FLAG, "Return all nodes as columns, which are compact."),
    "continue": (_TEXT, "Cursor from the previous page."),
    "fieldSelector": (_TEXT, "Such as spec.pod=NAME,status.state!=Bound."),
    "includeObject": (
        {"type": "string", "enum": ["None", "Metadata", "Object"]},
        "Which object each row of a table contains.",
    ),
    "labelSelector": (
        _TEXT,
        "Such as app=web,herodotus.dev/state in (Unschedulable, Error); labels of pods and of decisions.",
    ),
    "limit": (_COUNT, "Maximum number of items."),
    "name": (_NAME, "A name."),
    "namespace": (_NAME, "A namespace."),
    "node": (_NAME, "Only this node."),
    "pod": (_NAME, "Only this pod's decisions."),
    "profile": (_NAME, "Only decisions of this profile (spec.schedulerName)."),
    "pretty": (_FLAG, "Accepted without effect."),
    "resourceVersion": (
        {"type": "string", "maxLength": 18},
        "Version after which a watch starts; without effect elsewhere.",
    ),
    "resourceVersionMatch": (_TEXT, "Accepted without effect."),
    "sendInitialEvents": (_FLAG, "Not supported: list, then watch."),
    "since": (_TEXT, "Seconds before now, or a time with its offset."),
    "timeout": (_TEXT, "Accepted without effect."),
    "timeoutSeconds": (_COUNT, "Duration of a watch."),
    "uid": (_NAME, "Only the pod of this UID."),
    "watch": (_FLAG, "Stream new and changed decisions until the client disconnects or the timeout passes."),
    "weights": (_TEXT, "Other weights, such as NodeResourcesFit=5,ImageLocality=0."),
    "with": (_NAME, "The other pod."),
}
_GET: Final = ("includeObject", "pretty", "resourceVersion")
_LIST: Final = ("limit", "continue", "labelSelector", "fieldSelector", "resourceVersionMatch", *_GET)
_WATCH: Final = ("watch", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents")


@dataclass(frozen=True)
class OpenApiOperation:
    """One HTTP operation of the service, from which its entry in the OpenAPI document is built.

    `answers` is the kind of the document that it returns, TEXT for plain text, or "" for other JSON. `query` names its
    query parameters. `fails` holds the HTTP status codes of its errors.
    """

    id: str
    summary: str
    answers: str = ""
    query: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    resource: ServedResource | None = None
    action: str = ""
    fails: tuple[int, ...] = ()


_READ: Final = (400, 401, 403, 406, 503)
_DECISIONS: Final = ("pod", "cluster", *_LIST, *_WATCH)
OPERATIONS: Final[dict[str, OpenApiOperation]] = {
    "/": OpenApiOperation("index", "The routes."),
    "/livez": OpenApiOperation("livez", "Liveness probe.", TEXT),
    "/readyz": OpenApiOperation("readyz", "Readiness probe.", TEXT, fails=(503, 507)),
    "/metrics": OpenApiOperation("metrics", "Metrics for Prometheus.", TEXT, fails=(401, 403, 503)),
    "/version": OpenApiOperation("version", "The version of the service.", "ServiceVersion"),
    "/openapi.json": OpenApiOperation("openapi", "This document."),
    "/openapi/v3": OpenApiOperation("openapiIndex", "Paths of the OpenAPI documents of API groups."),
    f"/openapi/v3{PREFIX}": OpenApiOperation("openapiGroup", "The document of the API group."),
    "/apis": OpenApiOperation("groups", "The API groups.", fails=(406,)),
    f"/apis/{GROUP}": OpenApiOperation("group", "The API group."),
    PREFIX: OpenApiOperation("resources", "The resources of the API group."),
    f"{PREFIX}/decisions": OpenApiOperation(
        "listAllDecisions", "Decisions of all namespaces.", "DecisionList", _DECISIONS, (), DECISION, "list",
        (*_READ, 410, 422, 429),
    ),
    f"{PREFIX}/namespaces/{{namespace}}/decisions": OpenApiOperation(
        "listDecisions", "Decisions of a namespace.", "DecisionList", _DECISIONS, (), DECISION, "list",
        (*_READ, 410, 422, 429),
    ),
    f"{PREFIX}/namespaces/{{namespace}}/decisions/{{name}}": OpenApiOperation(
        "getDecision", "A decision by its id, or a pod's latest.", "Decision",
        ("attempt", "uid", "cluster", *_GET), (), DECISION, "get", (*_READ, 404),
    ),
    f"{PREFIX}/namespaces/{{namespace}}/podexplanations/{{pod}}": OpenApiOperation(
        "getPodExplanation", "What happened to a pod.", "PodExplanation",
        ("attempt", "all", "columns", "node", "uid", "cluster"), (), EXPLANATION, "get", (*_READ, 404),
    ),
    f"{PREFIX}/nodehistories": OpenApiOperation(
        "listNodeHistories", "Nodes and their counts.", "NodeHistoryList",
        ("since", "cluster", *_LIST, *_WATCH), (), HISTORY, "list", (*_READ, 405),
    ),
    f"{PREFIX}/nodehistories/{{node}}": OpenApiOperation(
        "getNodeHistory", "How often a node was considered, rejected and chosen.", "NodeHistory",
        ("since", "cluster", *_GET), (), HISTORY, "get", (*_READ, 404),
    ),
    f"{PREFIX}/incarnations": OpenApiOperation(
        "listIncarnations", "Scheduler processes.", "IncarnationList", ("cluster",), (), INCARNATION, "list", _READ
    ),
    f"{PREFIX}/namespaces/{{namespace}}/podhistories/{{pod}}": OpenApiOperation(
        "getPodHistory", "A pod's attempts, and what changed between them.", "PodHistory", ("limit", "uid", "cluster"),
        (), POD_HISTORY, "get", (*_READ, 404),
    ),
    f"{PREFIX}/namespaces/{{namespace}}/podcomparisons/{{pod}}": OpenApiOperation(
        "getPodComparison", "Two pods side by side.", "PodComparison", ("with", "cluster"), ("with",), POD_COMPARISON,
        "get", (*_READ, 404),
    ),
    f"{PREFIX}/namespaces/{{namespace}}/nodecomparisons/{{pod}}": OpenApiOperation(
        "getNodeComparison", "Two nodes for one pod.", "NodeComparison", ("a", "b", "attempt", "uid", "cluster"),
        ("a", "b"), NODE_COMPARISON, "get", (*_READ, 404),
    ),
    f"{PREFIX}/pendingpods": OpenApiOperation(
        "listAllPendingPods", "Pending pods of all namespaces.", "PendingPods", ("cluster", "labelSelector"), (),
        PENDING, "list", _READ,
    ),
    f"{PREFIX}/namespaces/{{namespace}}/pendingpods": OpenApiOperation(
        "listPendingPods", "Pending pods of a namespace.", "PendingPods", ("cluster", "labelSelector"), (), PENDING,
        "list", _READ,
    ),
    f"{PREFIX}/namespaces/{{namespace}}/workloadplacements/{{workload}}": OpenApiOperation(
        "getWorkloadPlacement", "Where the pods of a workload (KIND.NAME) were placed.", "WorkloadPlacement",
        ("since", "cluster", "labelSelector"),
        (), WORKLOAD, "get", (*_READ, 404),
    ),
    f"{PREFIX}/balances": OpenApiOperation(
        "listBalances", "Which nodes win, and which would win with other weights.", "Balance",
        ("since", "limit", "weights", "profile", "cluster", "labelSelector"), (), BALANCE, "list", _READ,
    ),
    f"{PREFIX}/agreements": OpenApiOperation(
        "listAllAgreements", "How other schedulers' outcomes compare with the reconstruction, in all namespaces.",
        "Agreements", ("since", "profile", "cluster", "labelSelector"), (), AGREEMENTS, "list", _READ,
    ),
    f"{PREFIX}/namespaces/{{namespace}}/agreements": OpenApiOperation(
        "listAgreements", "How other schedulers' outcomes compare with the reconstruction.", "Agreements",
        ("since", "profile", "cluster", "labelSelector"), (), AGREEMENTS, "list", _READ,
    ),
    f"{PREFIX}/serviceversions": OpenApiOperation(
        "listServiceVersions", "The version of the service.", "ServiceVersion", (), (), SERVICE_VERSION, "list",
    ),
    "/pod": OpenApiOperation(
        "legacyPod", "The first Herodotus' answer for a pod.", "", ("name", "namespace", "cluster"),
        ("name", "namespace"), fails=(*_READ, 404),
    ),
    "/node": OpenApiOperation(
        "legacyNode", "The first Herodotus' answer for a node.", "", ("name", "cluster"), ("name",), fails=(*_READ, 404)
    ),
}  # fmt: skip
_INGEST: Final = {
    "operationId": "ingest",
    "description": "Store a batch of frames; 200 after the commit.",
    "requestBody": {
        "required": True,
        "content": {codec.CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    },
    "parameters": [
        {"name": "Content-Encoding", "in": "header", "schema": {"type": "string", "enum": ["zstd", "identity"]}}
    ],
}

# Routes for schedulers, and the creation of reviews.
_CREATE: Final = f"{PREFIX}/namespaces/{{namespace}}/{REVIEW.plural}"
_REVIEW: Final = OpenApiOperation(
    "createPlacementReview", "Where hypothetical pods would be placed.", REVIEW.kind, (), (), REVIEW, "post",
    (400, 401, 403, 404, 413, 422, 429, 503, 504),
)  # fmt: skip
_REVIEWS_PATH: Final = "/ingest/v1/reviews"
_OPEN: Final = "/ingest/v1/open-decisions"
_SENDERS_FAIL: Final = (400, 401, 403, 429, 503)


_RECEIPT: Final = {
    "type": "object",
    "required": ["accepted", "duplicates", "decisions", "outcomes", "gaps", "nodeRows"],
    "additionalProperties": {"type": "integer", "minimum": 0},
}


def build_document() -> Json:
    """Return the OpenAPI document of all HTTP routes of the service."""
    paths = {path: {"get": _operation(path, operation)} for path, operation in OPERATIONS.items()}
    paths[_CREATE] = _review()
    paths |= _sender_paths() | _pages()
    paths["/ui"] = {"get": {"operationId": "ui", "responses": {"302": {"description": "Redirect to the web pages."}}}}
    failures = {str(code): _failure() for code in (400, 401, 403, 409, 413, 415, 429, 503, 507)}
    stored = {"200": {"description": "Stored.", "content": {"application/json": {"schema": _RECEIPT}}}}
    paths["/ingest/v1/frames"] = {"post": _INGEST | {"responses": stored | failures}}
    return _document("Herodotus decisions service", __version__, paths)


def build_group_document() -> Json:
    """Return the OpenAPI document of the API group, which the API server merges into its document."""
    operations = {path: operation for path, operation in OPERATIONS.items() if operation.resource}
    paths = {path: {"get": _operation(path, operation)} for path, operation in operations.items()}
    return _document(f"{GROUP}", VERSION, paths | {_CREATE: _review()} | _pages())


def _review() -> Json:
    """Return the OpenAPI path item of placementreviews, whose only method is POST."""
    found = _operation(_CREATE, _REVIEW)
    found["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": schema_reference(REVIEW.kind)}},
    }
    found["responses"]["201"] = found["responses"].pop("200")
    return {"post": found}


def _pages() -> Json:
    """Return the OpenAPI path items, by path, of the web pages' static files."""
    named: Json = {"name": "name", "in": "path", "required": True, "schema": _NAME | {"minLength": 1}}
    kept: Json = {"304": {"description": "The browser's copy is current."}}
    html, any_ = ({kind: {"schema": {"type": "string"}} for kind in kinds} for kinds in (PAGE_TYPES[:1], PAGE_TYPES))
    home = {"operationId": "home", "responses": {"200": {"description": "The start page.", "content": html}} | kept}
    found = {"200": {"description": "The file.", "content": any_}, "404": _failure()} | kept
    return {
        HOME: {"get": home},
        f"{HOME}{{name}}": {"get": {"operationId": "page", "parameters": [named], "responses": found}},
    }


def _sender_paths() -> Json:
    """Return the OpenAPI path items, by path, of routes that only schedulers use.

    With these routes, they take reviews, answer reviews, and list decisions without a recorded result.
    """
    failures = {str(code): _failure() for code in _SENDERS_FAIL}
    named: Json = {"name": "scheduler", "in": "query", "required": True, "schema": _NAME | {"minLength": 1}}
    cluster: Json = {"name": "cluster", "in": "query", "schema": _NAME}
    taken = {"200": {"description": "A review."}, "204": {"description": "No review is queued."}}
    answered = {
        "200": {"description": "The answer was delivered to the client."},
        "404": _failure(),
        "413": _failure(),
        "415": _failure(),
    }
    id_: Json = {"name": "id", "in": "path", "required": True, "schema": _NAME | {"minLength": 1}}
    listed = {"200": {"description": "Decisions of other incarnations whose result is not stored, oldest first."}}
    except_: Json = {"name": "exceptIncarnation", "in": "query", "schema": _NAME}
    return {
        _OPEN: {
            "get": {
                "operationId": "listOpenDecisions",
                "parameters": [cluster, named, except_],
                "responses": listed | failures,
            }
        },
        _REVIEWS_PATH: {
            "get": {"operationId": "takeReview", "parameters": [cluster, named], "responses": taken | failures}
        },
        f"{_REVIEWS_PATH}/{{id}}": {
            "post": {"operationId": "answerReview", "parameters": [cluster, id_], "responses": answered | failures}
        },
    }


def _document(title: str, version: str, paths: Json) -> Json:
    return {
        "openapi": "3.0.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(path: str, operation: OpenApiOperation) -> Json:
    parts = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = [{"name": p, "in": "path", "required": True, "schema": _NAME | {"minLength": 1}} for p in parts]
    for name in (*operation.query, *(("timeout",) if operation.query else ())):
        schema, description = PARAMETERS[name]
        needed = {"required": True} if name in operation.required else {}
        parameters.append({"name": name, "in": "query", "schema": schema, "description": description, **needed})
    content_type = TEXT if operation.answers == TEXT else "application/json"
    schema = {"type": "string"} if content_type == TEXT else {"type": "object"}
    schema = schema_reference(operation.answers) if f"{NAME}.{operation.answers}" in SCHEMAS else schema
    answer: Json = {"description": "OK", "content": {content_type: {"schema": schema}}}
    found: Json = {
        "operationId": operation.id,
        "description": operation.summary,
        "parameters": parameters,
        "responses": {"200": answer} | {str(code): _failure() for code in operation.fails},
    }
    if operation.resource:
        found["x-kubernetes-action"] = operation.action
        found["x-kubernetes-group-version-kind"] = {
            "group": GROUP,
            "kind": operation.resource.kind,
            "version": VERSION,
        }
    return found


def _failure() -> Json:
    return {"description": "Failed", "content": {"application/json": {"schema": schema_reference("Status")}}}
