"""Owns: get, list, create, update, patch, delete and deletecollection for every stored kind.

Does not own: watch streams (`watching`), subresources, printing. Invariant: everything that is written passes through
`defaults.prepare_new` or `updates.replacement`; with `dryRun=All` nothing is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from herodotus_sim import errors, protobuf, views
from herodotus_sim.defaults import now, prepare_new
from herodotus_sim.kinds import EVENT, KINDS, NAMESPACE, POD, Kind
from herodotus_sim.paging import Listed, Pages
from herodotus_sim.patches import APPLY_PATCH, apply_patch, read_patch
from herodotus_sim.selectors import Selection
from herodotus_sim.store import Store, Version
from herodotus_sim.strategic import strategic_merge
from herodotus_sim.updates import replacement
from herodotus_sim.wire import JSON, Object, Request, Response, decode, encode

_BODY_TYPES = (JSON, "application/yaml", protobuf.MEDIA_TYPE)


@dataclass(frozen=True)
class Target:
    """What a path names."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows a proxy subresource, with its leading slash."""


def content_type(request: Request) -> str:
    """The body's media type without parameters."""
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower() or JSON


def read_object(request: Request, kind: Kind) -> Object:
    """The object in the body. Raises 400 when it is none, or of another type than the path says."""
    obj = _read_body(request)
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata") or {}, dict):
        raise errors.bad_request("the body is no object")
    sent = (obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind)
    if sent != (kind.api_version, kind.kind):
        raise errors.bad_request(
            f"the API version or kind in the data ({sent[0]}, Kind={sent[1]}) does not match the expected "
            f"({kind.api_version}, Kind={kind.kind})"
        )
    return obj


def _read_body(request: Request) -> Any:
    type_ = content_type(request)
    try:
        if type_ == JSON:
            return decode(request.body)
        if type_ == "application/yaml":
            return yaml.safe_load(request.body)
        if type_ == protobuf.MEDIA_TYPE:
            return protobuf.decode(request.body)
    except (ValueError, yaml.YAMLError) as error:
        raise errors.bad_request(f"error decoding the body: {error}") from None
    except protobuf.UnreadableError:
        pass
    raise errors.unsupported_media_type(_BODY_TYPES)


def is_dry_run(request: Request) -> bool:
    """Whether nothing is to be stored."""
    return request.query.get("dryRun") == "All"


def is_dry_delete(request: Request, options: Object) -> bool:
    """Whether nothing is to be deleted; DeleteOptions may say so too."""
    return is_dry_run(request) or options.get("dryRun") == ["All"]


def respond(version: Version, kind: Kind, status: int = 200) -> Response:
    """The answer that carries one object."""
    return Response(status, version.encoded(kind))


class Verbs:
    """The verbs over one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._pages = Pages(store)

    def list(self, target: Target, selected: Selection, request: Request) -> Listed:
        """One page of what is selected."""
        return self._pages.page(target.kind, selected, request)

    def create(self, target: Target, request: Request) -> Version:
        """Store a new object."""
        kind = target.kind
        obj = read_object(request, kind)
        given = (obj.get("metadata") or {}).get("namespace")
        if kind.namespaced and given and given != target.namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise errors.bad_request(message)
        return self.insert(kind, target.namespace, obj, dry_run=is_dry_run(request))

    def insert(
        self, kind: Kind, namespace: str, obj: Object, keep_status: bool = False, dry_run: bool = False
    ) -> Version:
        """Store a new object; `keep_status` is for objects that do not come from a client."""
        prepared = prepare_new(self.store, kind, namespace, views.stored(kind, obj), keep_status)
        return self.store.insert(kind, prepared, dry_run)

    def update(self, target: Target, request: Request) -> tuple[Version, bool]:
        """Replace an object. Also says whether it was created, which some kinds allow."""
        kind = target.kind
        obj = read_object(request, kind)
        meta = obj.get("metadata") or {}
        if meta.get("name", target.name) != target.name:
            raise errors.bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})"
            )
        if kind.namespaced and meta.get("namespace", target.namespace) != target.namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise errors.bad_request(message)
        if kind.create_on_update and self.store.find(kind, target.namespace, target.name) is None:
            named = {**obj, "metadata": {**meta, "name": target.name}}
            return self.insert(kind, target.namespace, named, dry_run=is_dry_run(request)), True
        new = views.stored(kind, obj)
        changed = self.store.modify(
            kind,
            target.namespace,
            target.name,
            lambda old: replacement(kind, old, new, target.subresource),
            is_dry_run(request),
        )
        return changed, False

    def patch(self, target: Target, request: Request) -> tuple[Version, bool]:
        """Patch an object. Also says whether it was created, which apply does."""
        type_ = content_type(request)
        patch = read_patch(type_, request.body)
        if type_ == APPLY_PATCH:
            return self._apply(target, patch, request)
        return self._modify(target, lambda obj: apply_patch(type_, obj, patch), request), False

    def _modify(self, target: Target, change: Any, request: Request) -> Version:
        kind = target.kind

        def changed(old: Version) -> Object:
            before = old.view(kind)
            after = change(before)
            return replacement(kind, old, views.stored(kind, after), target.subresource)

        return self.store.modify(kind, target.namespace, target.name, changed, is_dry_run(request))

    def _apply(self, target: Target, config: Object, request: Request) -> tuple[Version, bool]:
        """Server-side apply without ownership of fields: a merge, and a note of who applied."""
        manager = request.query.get("fieldManager")
        if not manager:
            message = "Required value: is required for apply patch"
            raise errors.ApiError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: fieldManager: {message}')
        entry = {
            "manager": manager,
            "operation": "Apply",
            "apiVersion": target.kind.api_version,
            "time": now(),
            "fieldsType": "FieldsV1",
            "fieldsV1": {},
        }

        def merged(obj: Object) -> Object:
            after = strategic_merge(obj, config)
            known = obj["metadata"].get("managedFields") or []
            mine = next((e for e in known if e["manager"] == manager and e["operation"] == "Apply"), None)
            if mine is None:
                after["metadata"] = {**after["metadata"], "managedFields": [*known, entry]}
            return after

        if self.store.find(target.kind, target.namespace, target.name) is None and not target.subresource:
            new = merged({"metadata": {"name": target.name}})
            return self.insert(target.kind, target.namespace, new, dry_run=is_dry_run(request)), True
        return self._modify(target, merged, request), False

    def delete(self, target: Target, request: Request) -> Response:
        """Delete one object."""
        options = _delete_options(request)
        kind = target.kind
        with self.store.lock:
            found = self.store.get(kind, target.namespace, target.name)
            _check_preconditions(kind, found, options.get("preconditions") or {})
            if is_dry_delete(request, options):
                return respond(found, kind)
            gone = self.remove(kind, found)
        if gone is not None and kind is not POD:
            details = {"name": target.name, "group": kind.group, "kind": kind.plural}
            details["uid"] = found.obj["metadata"]["uid"]
            return Response(200, encode(errors.success(details={k: v for k, v in details.items() if v})))
        return respond(gone or self.store.get(kind, target.namespace, target.name), kind)

    def delete_collection(self, target: Target, selected: Selection, request: Request) -> Response:
        """Delete everything that is selected. Answers with the list of it."""
        options = _delete_options(request)
        with self.store.lock:
            found = [v for v in self.store.ordered(target.kind) if selected.matches(v.obj)]
            if not is_dry_delete(request, options):
                for version in found:
                    self.remove(target.kind, version)
            return Response(200, encode_list(target.kind, Listed(found, self.store.version)))

    def remove(self, kind: Kind, found: Version) -> Version | None:
        """Delete an object, or mark it when finalizers keep it (then the answer is None).

        There is no kubelet to wait for and no namespace controller to empty a namespace.
        """
        namespace, name = found.key
        if found.obj["metadata"].get("finalizers"):
            if not found.obj["metadata"].get("deletionTimestamp"):
                mark = {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}
                self.store.modify(kind, namespace, name, lambda v: {**v.obj, "metadata": {**v.obj["metadata"], **mark}})
            return None
        if kind is NAMESPACE:
            self._empty(name)
        return self.store.remove(kind, namespace, name)

    def _empty(self, namespace: str) -> None:
        for kind in KINDS:
            if kind.namespaced and (kind is EVENT or kind.plural != EVENT.plural):
                for version in self.store.ordered(kind):
                    if version.key[0] == namespace:
                        self.remove(kind, version)


def encode_list(kind: Kind, listed: Listed) -> bytes:
    """A list of objects. Items carry no type of their own, as with kube-apiserver."""
    head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": listed.metadata()}
    return b'%b,"items":[%b]}' % (encode(head)[:-1], b",".join([v.item(kind) for v in listed.items]))


def _delete_options(request: Request) -> Object:
    options = _read_body(request) if request.body else {}
    if not isinstance(options, dict):
        raise errors.bad_request("the body is no DeleteOptions")
    return options


def _check_preconditions(kind: Kind, found: Version, wanted: Object) -> None:
    meta = found.obj["metadata"]
    name = meta["name"]
    if wanted.get("uid") and wanted["uid"] != meta["uid"]:
        why = (
            f"the UID in the precondition ({wanted['uid']}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(kind, name, why)
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({wanted['resourceVersion']}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise errors.conflict(kind, name, why)
