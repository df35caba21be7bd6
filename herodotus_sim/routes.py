"""Owns: what a path and a method mean: path -> Target -> verb -> Response.

    /api/v1/... , /apis/GROUP/VERSION/...   resources (the table in `kinds`)
    /api, /apis, /version, /openapi, /livez  discovery and health

Does not own: HTTP framing, what the verbs do. Invariant: whatever is not in the table ends in 404 or 405.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from herodotus_sim import binding, discovery, errors, tables, watching
from herodotus_sim.kinds import BY_RESOURCE
from herodotus_sim.options import MAX_WATCHES, Options
from herodotus_sim.proxy import forward
from herodotus_sim.selectors import Selection, selection
from herodotus_sim.store import Store
from herodotus_sim.verbs import Target, Verbs, encode_list, read_object, respond
from herodotus_sim.wire import Request, Response, encode, json_response

_VERB = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_HEALTH = ("/livez", "/readyz", "/healthz")
_NO_NAMESPACE = ("status", "finalize")


class Routes:
    """Every request of one cluster."""

    def __init__(self, store: Store, options: Options) -> None:
        self.store = store
        self.options = options
        self.verbs = Verbs(store)
        self._watches = 0

    def handle(self, request: Request) -> Response:
        """Answer a request. Raises ApiError."""
        path = request.path
        if path.startswith(("/api/", "/apis/")):
            target = parse(path)
            if target is not None:
                return self._resource(target, request)
        if request.method not in ("GET", "HEAD"):
            raise errors.unknown_path()
        if path in _HEALTH or path.startswith(tuple(f"{p}/" for p in _HEALTH)):
            return Response(200, b"ok", "text/plain; charset=utf-8")
        return discovery.answer(path.rstrip("/") or "/", request)

    def _resource(self, target: Target, request: Request) -> Response:
        verb = self._verb(target, request)
        if target.subresource:
            return self._subresource(target, verb, request)
        if verb == "watch":
            return self._watch(target, request)
        if verb == "list":
            listed = self.verbs.list(target, self._selection(target, request), request)
            form = tables.wanted(request)
            if form is None:
                return Response(200, encode_list(target.kind, listed))
            return Response(200, encode(tables.table(target.kind, listed.items, listed.metadata(), form)))
        if verb == "get":
            found = self.store.get(target.kind, target.namespace, target.name)
            form = tables.wanted(request)
            if form is None:
                return respond(found, target.kind)
            meta = {"resourceVersion": str(found.version)}
            return Response(200, encode(tables.table(target.kind, [found], meta, form)))
        if verb == "create":
            return self._create(target, request)
        if verb == "delete":
            return self.verbs.delete(target, request)
        if verb == "deletecollection":
            return self.verbs.delete_collection(target, self._selection(target, request), request)
        changed, created = (self.verbs.update if verb == "update" else self.verbs.patch)(target, request)
        return respond(changed, target.kind, 201 if created else 200)

    def _verb(self, target: Target, request: Request) -> str:
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

    def _create(self, target: Target, request: Request) -> Response:
        kind = target.kind.kind
        if kind == "Binding":
            return binding.bind(self.verbs, target, request)
        if kind in ("SelfSubjectAccessReview", "SelfSubjectReview"):
            return json_response(discovery.review(target.kind, read_object(request, target.kind)), 201)
        return respond(self.verbs.create(target, request), target.kind, 201)

    def _subresource(self, target: Target, verb: str, request: Request) -> Response:
        if target.subresource == "proxy":
            return forward(self.store, target, request)
        if target.subresource == "binding":
            return binding.bind(self.verbs, target, request)
        if target.subresource == "eviction":
            return binding.evict(self.verbs, target, request)
        if verb == "get":
            return respond(self.store.get(target.kind, target.namespace, target.name), target.kind)
        changed, _ = (self.verbs.update if verb == "update" else self.verbs.patch)(target, request)
        return respond(changed, target.kind)

    def _selection(self, target: Target, request: Request) -> Selection:
        query = request.query
        return selection(
            target.kind, target.namespace, target.name, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )

    def _watch(self, target: Target, request: Request) -> Response:
        kind, selected = target.kind, self._selection(target, request)
        form = tables.wanted(request)
        if self._watches >= MAX_WATCHES:
            raise errors.too_many(f"the simulated cluster serves {MAX_WATCHES} watches at once, its limit")
        try:
            start = watching.begin(self.store, kind, selected, request, self.options)
        except errors.ApiError as error:
            if error.code != 410 or self.options.expired_watch_as_http:
                raise
            return Response(200, stream=iter([watching.error_line(error)]))
        show = None if form is None else tables.row_encoder(kind, form)
        events = watching.stream(self.store, kind, selected, start, request, self.options, show)
        return Response(200, stream=self._counted(events))

    def _counted(self, events: Iterator[bytes]) -> Iterator[bytes]:
        with self.store.lock:
            self._watches += 1
        try:
            yield from events
        finally:
            with self.store.lock:
                self._watches -= 1


def parse(path: str) -> Target | None:
    """What a resource path names; None when it is a discovery path. Raises 404 for what is not in the table."""
    parts = path.split("/")
    group_version = ("", parts[2]) if parts[1] == "api" else (parts[2], parts[3] if len(parts) > 3 else "")
    rest = parts[3:] if parts[1] == "api" else parts[4:]
    if not any(rest):
        return None
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _NO_NAMESPACE:
        namespace, rest = unquote(rest[1]), rest[2:]
    kind = BY_RESOURCE.get((*group_version, rest[0]))
    name = unquote(rest[1]) if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if kind is None or (namespace and not kind.namespaced) or (kind.namespaced and name and not namespace):
        raise errors.unknown_path()
    if subresource == "proxy" and subresource in dict(kind.subresources):
        return Target(kind, namespace, name, subresource, "/" + "/".join(rest[3:]) if len(rest) > 3 else "")
    if len(rest) > 3 or (subresource and subresource not in dict(kind.subresources)):
        raise errors.unknown_path()
    return Target(kind, namespace, name, subresource)
