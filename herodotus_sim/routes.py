"""Maps a path and a method to a verb: path -> RequestInfo -> verb -> SimulatedResponse.

    /api/v1/... , /apis/GROUP/VERSION/...   resources (the table in `kinds`)
    /api, /apis, /version, /openapi, /livez  discovery and health

Does not own: HTTP framing, what the verbs do. Invariant: a path outside the table ends in 404, a verb in 405.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from herodotus_sim import discovery, errors, subresources, tables
from herodotus_sim import watch as watching
from herodotus_sim.kinds import BY_RESOURCE, ApiResource
from herodotus_sim.options import MAX_WATCHES, Options
from herodotus_sim.patches import apply_patch, read_patch
from herodotus_sim.proxy import forward
from herodotus_sim.registry import (
    RequestInfo,
    ResourceRegistry,
    content_type,
    encode_list,
    is_dry_run,
    object_response,
    read_object,
)
from herodotus_sim.selectors import SelectionPredicate, build_predicate
from herodotus_sim.storage import ObjectStorage, StoredObject
from herodotus_sim.wire import Object, SimulatedRequest, SimulatedResponse, encode, json_response
from herodotus_sim.workloads import CONTROLLED, WITHOUT_CONTROLLER

_VERB = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_HEALTH = ("/livez", "/readyz", "/healthz")
_NO_NAMESPACE = ("status", "finalize")


class Router:
    """The request handler of one cluster, which maps each path and method to a verb and calls it."""

    def __init__(self, store: ObjectStorage, options: Options) -> None:
        self.store = store
        self.options = options
        self.verbs = ResourceRegistry(store, options.run_controllers)
        self._watches = 0

    def handle(self, request: SimulatedRequest) -> SimulatedResponse:
        """Return the response to a request; raise StatusError for an error response."""
        path = request.path
        if path.startswith(("/api/", "/apis/")):
            target = parse_request_info(path)
            if target is not None:
                return self._resource(target, request)
        if request.method not in ("GET", "HEAD"):
            raise errors.unknown_path()
        if path in _HEALTH or path.startswith(tuple(f"{p}/" for p in _HEALTH)):
            return SimulatedResponse(200, b"ok", "text/plain; charset=utf-8")
        return discovery.serve_discovery(path.rstrip("/") or "/", request)

    def _resource(self, target: RequestInfo, request: SimulatedRequest) -> SimulatedResponse:
        verb = self._verb(target, request)
        if target.subresource:
            return self._subresource(target, verb, request)
        if verb == "watch":
            return self._watch(target, request)
        if verb == "list":
            listed = self.verbs.list(target, self._selection(target, request), request)
            row_object = tables.requested_row_object(request)
            if row_object is None:
                return SimulatedResponse(200, encode_list(target.kind, listed))
            return SimulatedResponse(
                200, encode(tables.convert_to_table(target.kind, listed.items, listed.metadata(), row_object))
            )
        if verb == "get":
            stored = self.store.get(target.kind, target.namespace, target.name)
            row_object = tables.requested_row_object(request)
            if row_object is None:
                return object_response(stored, target.kind)
            meta = {"resourceVersion": str(stored.version)}
            return SimulatedResponse(200, encode(tables.convert_to_table(target.kind, [stored], meta, row_object)))
        if verb == "create":
            return self._create(target, request)
        if verb == "delete":
            return self.verbs.delete(target, request)
        if verb == "deletecollection":
            return self.verbs.delete_collection(target, self._selection(target, request), request)
        modified, created = (self.verbs.update if verb == "update" else self.verbs.patch)(target, request)
        return self._respond_created(modified, target.kind) if created else object_response(modified, target.kind)

    def _respond_created(self, version: StoredObject, kind: ApiResource) -> SimulatedResponse:
        """Return the response with a created object.

        It has a warning for kubectl if the object needs a controller and none runs.
        """
        response = object_response(version, kind, 201)
        if not self.options.run_controllers and kind in (*CONTROLLED, *WITHOUT_CONTROLLER):
            warning = f"the simulated cluster runs no controllers: no pods follow from this {kind.kind}"
            response.headers = (("Warning", f'299 - "{warning}"'),)
        return response

    def _verb(self, target: RequestInfo, request: SimulatedRequest) -> str:
        verb = _VERB.get(request.method, "")
        if target.subresource == "proxy":
            allowed: tuple[str, ...] = tuple(_VERB.values())
        elif target.subresource:
            allowed = dict(target.kind.subresources)[target.subresource]
        else:
            allowed = target.kind.verbs
            if not target.name:
                verb = {"get": "list", "delete": "deletecollection", "create": "create"}.get(verb, "")
            elif verb == "create":
                verb = ""
            if target.kind.namespaced and not target.namespace and verb == "create":
                verb = ""
            if verb in ("get", "list") and request.flag("watch"):
                verb = "watch"
        if verb not in allowed:
            raise errors.method_not_allowed()
        return verb

    def _create(self, target: RequestInfo, request: SimulatedRequest) -> SimulatedResponse:
        kind = target.kind.kind
        if kind == "Binding":
            return subresources.bind(self.verbs, target, request)
        if kind in ("SelfSubjectAccessReview", "SelfSubjectReview"):
            return json_response(discovery.review_access(target.kind, read_object(request, target.kind)), 201)
        return self._respond_created(self.verbs.create(target, request), target.kind)

    def _subresource(self, target: RequestInfo, verb: str, request: SimulatedRequest) -> SimulatedResponse:
        if target.subresource == "proxy":
            return forward(self.store, target, request)
        if target.subresource == "binding":
            return subresources.bind(self.verbs, target, request)
        if target.subresource == "eviction":
            return subresources.evict(self.verbs, target, request)
        if target.subresource == "scale":
            return self._scale(target, verb, request)
        if verb == "get":
            return object_response(self.store.get(target.kind, target.namespace, target.name), target.kind)
        modified, _ = (self.verbs.update if verb == "update" else self.verbs.patch)(target, request)
        return object_response(modified, target.kind)

    def _scale(self, target: RequestInfo, verb: str, request: SimulatedRequest) -> SimulatedResponse:
        """Read, replace or patch the Scale of a workload, according to `verb`, and return the response."""
        if verb == "get":
            return json_response(
                subresources.scale_from_workload(self.store.get(target.kind, target.namespace, target.name))
            )
        sent = read_object(request, subresources.SCALE) if verb == "update" else None
        media_type = content_type(request)
        patch = None if sent is not None else read_patch(media_type, request.body)

        def modified(old: StoredObject) -> Object:
            return subresources.apply_scale(
                target.kind,
                old,
                apply_patch(media_type, subresources.scale_from_workload(old), patch) if sent is None else sent,
            )

        scaled = self.store.guaranteed_update(target.kind, target.namespace, target.name, modified, is_dry_run(request))
        return json_response(subresources.scale_from_workload(scaled))

    def _selection(self, target: RequestInfo, request: SimulatedRequest) -> SelectionPredicate:
        query = request.query
        return build_predicate(
            target.kind, target.namespace, target.name, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )

    def _watch(self, target: RequestInfo, request: SimulatedRequest) -> SimulatedResponse:
        kind, selected = target.kind, self._selection(target, request)
        row_object = tables.requested_row_object(request)
        if self._watches >= MAX_WATCHES:
            raise errors.too_many(f"the simulated cluster serves {MAX_WATCHES} watches at once, its limit")
        try:
            start = watching.start_watch(self.store, kind, selected, request, self.options)
        except errors.StatusError as error:
            if error.code != 410 or self.options.expired_watch_as_http:
                raise
            return SimulatedResponse(200, stream=iter([watching.encode_error_event(error)]))
        encode_row = None if row_object is None else tables.row_encoder(kind, row_object)
        watched = watching.WatchedCollection(kind, selected, encode_row)
        events = watching.stream_events(self.store, watched, start, request, self.options)
        return SimulatedResponse(200, stream=self._counted(events))

    def _counted(self, events: Iterator[bytes]) -> Iterator[bytes]:
        with self.store.lock:
            self._watches += 1
        try:
            yield from events
        finally:
            with self.store.lock:
                self._watches -= 1


def parse_request_info(path: str) -> RequestInfo | None:
    """Return the resource, namespace, name and subresource in a path, or None for a discovery path.

    Raises StatusError 404 if the path names no supported resource.
    """
    parts = path.split("/")
    group_version = ("", parts[2]) if parts[1] == "api" else (parts[2], parts[3] if len(parts) > 3 else "")
    segments = parts[3:] if parts[1] == "api" else parts[4:]
    if not any(segments):
        return None
    namespace = ""
    if len(segments) > 2 and segments[0] == "namespaces" and segments[2] not in _NO_NAMESPACE:
        namespace, segments = unquote(segments[1]), segments[2:]
    kind = BY_RESOURCE.get((*group_version, segments[0]))
    name = unquote(segments[1]) if len(segments) > 1 else ""
    subresource = segments[2] if len(segments) > 2 else ""
    if kind is None or (namespace and not kind.namespaced) or (kind.namespaced and name and not namespace):
        raise errors.unknown_path()
    if subresource == "proxy" and subresource in dict(kind.subresources):
        return RequestInfo(
            kind,
            namespace,
            name,
            subresource,
            "/" + "/".join(segments[3:]) if len(segments) > 3 else "",
        )
    if len(segments) > 3 or (subresource and subresource not in dict(kind.subresources)):
        raise errors.unknown_path()
    return RequestInfo(kind, namespace, name, subresource)
