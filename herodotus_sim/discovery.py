"""Discovery: versions, groups, resources, OpenAPI, and the self subject reviews.

Does not own: the table from which it is generated (`kinds`). Invariant: discovery offers exactly the rows of the table.
"""

from __future__ import annotations

import hashlib
from typing import Any

from herodotus_sim import errors
from herodotus_sim.kinds import KINDS, ApiResource
from herodotus_sim.wire import Object, SimulatedRequest, SimulatedResponse, encode, json_response

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-herodotus-sim",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_USER = {"username": "herodotus-sim", "groups": ["system:masters", "system:authenticated"]}
_GROUP_VERSIONS = sorted({(k.group, k.version) for k in KINDS})
# With this parameter of a PATCH kubectl lets the server validate; without it, kubectl requests full schemas.
_FIELD_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def serve_discovery(path: str, request: SimulatedRequest) -> SimulatedResponse:
    """Return the response to a GET of a discovery path, such as `/apis` or `/version`.

    Raises StatusError 404 for an unknown path.
    """
    if path == "/openapi/v2":
        # kube-apiserver offers this document only as protobuf, and kubectl works without it.
        raise errors.not_acceptable(("application/com.github.proto-openapi.spec.v2@v1.0+protobuf",))
    document = _DOCUMENTS.get(path)
    if document is None:
        raise errors.unknown_path()
    if path == "/api":
        host = request.headers.get("host", "")
        return json_response({**document, "serverAddressByClientCIDRs": [_address(host)]})
    return json_response(document)


def review_access(kind: ApiResource, review: Object) -> Object:
    """Return a review of the client's own identity or rights with its status: the only user may do everything."""
    meta = {"metadata": {"creationTimestamp": None}}
    if kind.kind == "SelfSubjectReview":
        return {**kind.type_meta, **meta, "status": {"userInfo": _USER}}
    status = {"allowed": True, "reason": "the simulated API server allows everything"}
    return {**kind.type_meta, **meta, "spec": review.get("spec", {}), "status": status}


def _address(host: str) -> dict[str, str]:
    return {"clientCIDR": "0.0.0.0/0", "serverAddress": host}


def _documents() -> dict[str, Object]:
    groups = [_group(group) for group in sorted({group for group, _ in _GROUP_VERSIONS if group})]
    paths = {_base(group, version)[1:]: _openapi_link(group, version) for group, version in _GROUP_VERSIONS}
    return {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        "/openapi/v3": {"paths": paths},
        "/": {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]},
        **{f"/apis/{group['name']}": {"kind": "APIGroup", "apiVersion": "v1", **group} for group in groups},
        **{_base(group, version): _resources(group, version) for group, version in _GROUP_VERSIONS},
        **{f"/openapi/v3{_base(group, version)}": _openapi(group, version) for group, version in _GROUP_VERSIONS},
    }


def _base(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _group(group: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for g, version in _GROUP_VERSIONS if g == group
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> Object:
    resources: list[Object] = []
    for kind in KINDS:
        if (kind.group, kind.version) != (group, version):
            continue
        row: Object = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced}
        row |= {"kind": kind.kind, "verbs": list(kind.verbs)}
        row |= {"shortNames": list(kind.short_names)} if kind.short_names else {}
        row |= {"categories": list(kind.categories)} if kind.categories else {}
        resources.append(row)
        resources += [_subresource(kind, name, verbs) for name, verbs in kind.subresources]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _subresource(kind: ApiResource, name: str, verbs: tuple[str, ...]) -> Object:
    row: Object = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
    types = {
        "binding": {"kind": "Binding"},
        "eviction": {"kind": "Eviction", "group": "policy", "version": "v1"},
        "proxy": {"kind": "ServiceProxyOptions"},
        "scale": {"kind": "Scale", "group": "autoscaling", "version": "v1"},
    }
    return row | types.get(name, {"kind": kind.kind}) | {"verbs": list(verbs)}


def _openapi(group: str, version: str) -> Object:
    """Return an OpenAPI document without schemas, which declares server-side field validation for each kind.

    kubectl looks for it at a PATCH of the kind, even when it creates a kind that has no PATCH.
    """
    paths: dict[str, Any] = {}
    for kind in KINDS:
        if (kind.group, kind.version) == (group, version):
            scope = "namespaces/{namespace}/" if kind.namespaced else ""
            gvk = {"group": group, "version": version, "kind": kind.kind}
            operation = {"x-kubernetes-group-version-kind": gvk, "parameters": [_FIELD_VALIDATION], "responses": {}}
            paths[f"{_base(group, version)}/{scope}{kind.plural}/{{name}}"] = {"patch": operation}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _openapi_link(group: str, version: str) -> dict[str, str]:
    digest = hashlib.sha256(encode(_openapi(group, version))).hexdigest()[:32].upper()
    return {"serverRelativeURL": f"/openapi/v3{_base(group, version)}?hash={digest}"}


_DOCUMENTS = _documents()
