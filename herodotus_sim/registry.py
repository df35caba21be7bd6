"""The generic registry: get, list, create, update, patch, delete and deletecollection for every stored resource.

Does not own: watch streams (`watch`), subresources, printing.

Invariant: every write passes through `strategy.prepare_for_create` or `strategy.prepare_for_update`. With
`dryRun=All` nothing is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from herodotus_sim import errors, protobuf, workloads
from herodotus_sim.kinds import EVENT, KINDS, NAMESPACE, POD, ApiResource
from herodotus_sim.paging import ListPage, ListPager
from herodotus_sim.patches import APPLY_PATCH, apply_patch, read_patch, strategic_merge
from herodotus_sim.selectors import SelectionPredicate
from herodotus_sim.storage import ObjectStorage, StoredObject, to_storage_form
from herodotus_sim.strategy import now, prepare_for_create, prepare_for_update
from herodotus_sim.wire import JSON, Object, SimulatedRequest, SimulatedResponse, decode, encode

# These finalizers keep an object until the garbage collector has processed its dependents.
ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"
_FINALIZERS = {"Orphan": ORPHAN_FINALIZER, "Foreground": FOREGROUND_FINALIZER}
_BODY_TYPES = (JSON, "application/yaml", protobuf.MEDIA_TYPE)


@dataclass(frozen=True)
class RequestInfo:
    """The resource, namespace, name and subresource that a path names."""

    kind: ApiResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """The path behind a proxy subresource, with its leading slash."""


def content_type(request: SimulatedRequest) -> str:
    """Return the body's media type without parameters."""
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower() or JSON


def read_object(request: SimulatedRequest, kind: ApiResource) -> Object:
    """Return the object in a request's body; raise StatusError 400 if it is invalid or not of the given resource."""
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


def _read_body(request: SimulatedRequest) -> Any:
    media_type = content_type(request)
    try:
        if media_type == JSON:
            return decode(request.body)
        if media_type == "application/yaml":
            return yaml.safe_load(request.body)
        if media_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(request.body)
    except (ValueError, yaml.YAMLError) as error:
        raise errors.bad_request(f"error decoding the body: {error}") from None
    except protobuf.UnreadableError:
        pass
    raise errors.unsupported_media_type(_BODY_TYPES)


def is_dry_run(request: SimulatedRequest) -> bool:
    """Return whether the request has `dryRun=All`, so that nothing may be stored."""
    return request.query.get("dryRun") == "All"


def is_dry_delete(request: SimulatedRequest, options: Object) -> bool:
    """Return whether a delete is a dry run, by its query parameter or by its DeleteOptions (`options`)."""
    return is_dry_run(request) or options.get("dryRun") == ["All"]


def object_response(version: StoredObject, kind: ApiResource, status: int = 200) -> SimulatedResponse:
    """Return a response that contains one object as JSON."""
    return SimulatedResponse(status, version.encode_object(kind))


class ResourceRegistry:
    """The verbs (list, create, update, patch, delete) for all resources of one storage."""

    def __init__(self, store: ObjectStorage, run_controllers: bool = False) -> None:
        """Create a registry; `run_controllers` says whether controllers act on stored objects."""
        self.store = store
        self._run_controllers = run_controllers
        self._pages = ListPager(store)

    def list(self, target: RequestInfo, selected: SelectionPredicate, request: SimulatedRequest) -> ListPage:
        """Return one page of the objects of a resource that the predicate selects."""
        return self._pages.get_page(target.kind, selected, request)

    def create(self, target: RequestInfo, request: SimulatedRequest) -> StoredObject:
        """Store the new object in a request's body and return it; raise StatusError if it is not allowed."""
        kind = target.kind
        obj = read_object(request, kind)
        sent_namespace = (obj.get("metadata") or {}).get("namespace")
        if kind.namespaced and sent_namespace and sent_namespace != target.namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise errors.bad_request(message)
        return self._admit(kind, target.namespace, obj, request)

    def _admit(self, kind: ApiResource, namespace: str, obj: Object, request: SimulatedRequest) -> StoredObject:
        """Store an object that a client creates and return it.

        Raises StatusError 403 for a workload that no simulated controller supports.
        """
        if self._run_controllers:
            workloads.check_supported(kind, (obj.get("metadata") or {}).get("name", ""), obj)
        return self.insert(kind, namespace, obj, dry_run=is_dry_run(request))

    def insert(
        self, kind: ApiResource, namespace: str, obj: Object, keep_status: bool = False, dry_run: bool = False
    ) -> StoredObject:
        """Complete, check and store a new object, and return it; raise StatusError if it is not allowed.

        `keep_status` keeps the given status; it is for objects that do not come from a client.
        """
        prepared = prepare_for_create(self.store, kind, namespace, to_storage_form(kind, obj), keep_status)
        return self.store.insert(kind, prepared, dry_run)

    def update(self, target: RequestInfo, request: SimulatedRequest) -> tuple[StoredObject, bool]:
        """Replace an object by the one in a request's body; return it, and whether it was created.

        If it does not exist, it is created if its kind has `create_on_update`. Raises StatusError if the update is not
        allowed.
        """
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
            return self._admit(kind, target.namespace, named, request), True
        new = to_storage_form(kind, obj)
        changed = self.store.guaranteed_update(
            kind,
            target.namespace,
            target.name,
            lambda old: prepare_for_update(kind, old, new, target.subresource),
            is_dry_run(request),
        )
        return changed, False

    def patch(self, target: RequestInfo, request: SimulatedRequest) -> tuple[StoredObject, bool]:
        """Patch an object; return it, and whether it was created, which only a server-side apply does."""
        media_type = content_type(request)
        patch = read_patch(media_type, request.body)
        if media_type == APPLY_PATCH:
            return self._apply(target, patch, request)
        return self._modify(target, lambda obj: apply_patch(media_type, obj, patch), request), False

    def _modify(self, target: RequestInfo, change: Any, request: SimulatedRequest) -> StoredObject:
        kind = target.kind

        def changed(old: StoredObject) -> Object:
            before = old.to_object(kind)
            after = change(before)
            return prepare_for_update(kind, old, to_storage_form(kind, after), target.subresource)

        return self.store.guaranteed_update(kind, target.namespace, target.name, changed, is_dry_run(request))

    def _apply(self, target: RequestInfo, config: Object, request: SimulatedRequest) -> tuple[StoredObject, bool]:
        """Apply a configuration server-side; return the object, and whether it was created.

        Fields have no owners: the configuration is merged, and its manager is added to managedFields.
        """
        manager = request.query.get("fieldManager")
        if not manager:
            message = "Required value: is required for apply patch"
            raise errors.StatusError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: fieldManager: {message}')
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
            fields = obj["metadata"].get("managedFields") or []
            applied = next((e for e in fields if e["manager"] == manager and e["operation"] == "Apply"), None)
            if applied is None:
                after["metadata"] = {**after["metadata"], "managedFields": [*fields, entry]}
            return after

        if self.store.find(target.kind, target.namespace, target.name) is None and not target.subresource:
            new = merged({"metadata": {"name": target.name}})
            return self._admit(target.kind, target.namespace, new, request), True
        return self._modify(target, merged, request), False

    def delete(self, target: RequestInfo, request: SimulatedRequest) -> SimulatedResponse:
        """Delete the object that a request names, and return the response."""
        options = _delete_options(request)
        kind = target.kind
        with self.store.lock:
            stored = self.store.get(kind, target.namespace, target.name)
            _check_preconditions(kind, stored, options.get("preconditions") or {})
            if is_dry_delete(request, options):
                return object_response(stored, kind)
            deleted = self.remove_with_dependents(kind, stored, _propagation(request, options))
        if deleted is not None and kind is not POD:
            details = {"name": target.name, "group": kind.group, "kind": kind.plural}
            details["uid"] = stored.obj["metadata"]["uid"]
            return SimulatedResponse(200, encode(errors.success(details={k: v for k, v in details.items() if v})))
        return object_response(deleted or self.store.get(kind, target.namespace, target.name), kind)

    def delete_collection(
        self, target: RequestInfo, selected: SelectionPredicate, request: SimulatedRequest
    ) -> SimulatedResponse:
        """Delete every selected object, and return the response with their list."""
        options = _delete_options(request)
        with self.store.lock:
            selected_objects = [v for v in self.store.list_sorted(target.kind) if selected.matches(v.obj)]
            if not is_dry_delete(request, options):
                for version in selected_objects:
                    self.remove_with_dependents(target.kind, version, _propagation(request, options))
            return SimulatedResponse(200, encode_list(target.kind, ListPage(selected_objects, self.store.version)))

    def remove_with_dependents(self, kind: ApiResource, stored: StoredObject, policy: str) -> StoredObject | None:
        """Delete an object and return its last version, or None if finalizers prevent the deletion for now.

        If controllers run, `policy` (Background, Foreground or Orphan) determines what happens to its dependents.
        """
        finalizer = _FINALIZERS.get(policy)
        if finalizer and self._run_controllers and finalizer not in (stored.obj["metadata"].get("finalizers") or []):

            def add_finalizer(version: StoredObject) -> Object:
                meta = version.obj["metadata"]
                return {**version.obj, "metadata": {**meta, "finalizers": [*(meta.get("finalizers") or []), finalizer]}}

            stored = self.store.guaranteed_update(kind, *stored.key, add_finalizer)
        return self.remove(kind, stored)

    def remove(self, kind: ApiResource, stored: StoredObject) -> StoredObject | None:
        """Delete an object and return its last version.

        If it has finalizers, only set its deletion timestamp and return None. The deletion does not wait for a kubelet.
        All objects in a deleted namespace are deleted too.
        """
        namespace, name = stored.key
        if stored.obj["metadata"].get("finalizers"):
            if not stored.obj["metadata"].get("deletionTimestamp"):
                deletion = {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 0}
                self.store.guaranteed_update(
                    kind, namespace, name, lambda v: {**v.obj, "metadata": {**v.obj["metadata"], **deletion}}
                )
            return None
        if kind is NAMESPACE:
            self._delete_namespaced(name)
        return self.store.remove(kind, namespace, name)

    def _delete_namespaced(self, namespace: str) -> None:
        for kind in KINDS:
            if kind.namespaced and (kind is EVENT or kind.plural != EVENT.plural):
                for version in self.store.list_sorted(kind):
                    if version.key[0] == namespace:
                        self.remove(kind, version)


def encode_list(kind: ApiResource, listed: ListPage) -> bytes:
    """Return a page of objects as the JSON of a List; its items have no kind and apiVersion, as in kube-apiserver."""
    head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": listed.metadata()}
    return b'%b,"items":[%b]}' % (encode(head)[:-1], b",".join([v.encode_item(kind) for v in listed.items]))


def _delete_options(request: SimulatedRequest) -> Object:
    options = _read_body(request) if request.body else {}
    if not isinstance(options, dict):
        raise errors.bad_request("the body is no DeleteOptions")
    return options


def _propagation(request: SimulatedRequest, options: Object) -> str:
    """Return the propagation policy of a delete request: Background, Foreground or Orphan.

    Background is the default. Raises StatusError 422 for another policy.
    """
    policy = options.get("propagationPolicy") or request.query.get("propagationPolicy")
    if policy is None and options.get("orphanDependents"):
        policy = "Orphan"
    if policy not in (None, "Background", "Foreground", "Orphan"):
        supported = '"Foreground", "Background", "Orphan"'
        message = f'propagationPolicy: Unsupported value: "{policy}": supported values: {supported}'
        raise errors.StatusError(422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {message}')
    return policy or "Background"


def _check_preconditions(kind: ApiResource, stored: StoredObject, wanted: Object) -> None:
    meta = stored.obj["metadata"]
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
