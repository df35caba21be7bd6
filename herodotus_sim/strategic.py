"""Strategic merge patch: which lists merge by which key, and the `$` directives.

Does not own: the other patch types. Invariant: a list that is absent from the table is atomic: it is replaced as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herodotus_sim import errors
from herodotus_sim.wire import Object

# The merge key of each list field. It is the same in every kind served here, except for `ports` (see _merge_key).
MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
# Lists of plain values that merge as sets.
PRIMITIVE_LISTS = frozenset({"finalizers", "podCIDRs"})

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"


def strategic_merge(target: Object, patch: Object) -> Object:
    """Return the object as a strategic merge patch, with its `$` directives, changes it."""
    return _merge_maps(target, patch, "")


def _merge_maps(target: Object, patch: Object, parent: str) -> Object:
    directive = patch.get(_PATCH, "merge")
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != _PATCH}
    if directive == "delete":
        return {}
    if directive != "merge":
        raise errors.bad_request(f"Unknown patch type: {directive!r}")
    merged = dict(target)
    if _RETAIN in patch:
        merged = {k: v for k, v in merged.items() if k in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            field = key.removeprefix(_DELETE_FROM)
            merged[field] = [v for v in merged.get(field) or [] if v not in value]
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(merged, key, value, parent)
    for key, value in patch.items():
        if key.startswith(_ORDER):
            field = key.removeprefix(_ORDER)
            if isinstance(merged.get(field), list):
                merged[field] = _reorder(merged[field], value, _merge_key(parent, field))
    return merged


def _merge_field(merged: Object, key: str, value: Any, parent: str) -> None:
    current = merged.get(key)
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            merged.pop(key, None)
        else:
            merged[key] = _merge_maps(current if isinstance(current, dict) else {}, value, key)
    elif isinstance(value, list):
        merged[key] = _merge_lists(current if isinstance(current, list) else [], value, parent, key)
    else:
        merged[key] = value


def _merge_key(parent: str, field: str) -> str | None:
    """Return the field that identifies the items of this list, or None if the list is replaced as a whole.

    `parent` is the name of the field that contains the list's object.
    """
    if field == "ports":
        # A container's ports merge by containerPort, a service's by port, an endpoint slice's not at all.
        if parent == "spec":
            return "port"
        return "containerPort" if parent in ("containers", "initContainers", "ephemeralContainers") else None
    return MERGE_KEYS.get(field)


def _merge_lists(current: list[Any], patch: list[Any], parent: str, field: str) -> list[Any]:
    if field in PRIMITIVE_LISTS:
        return current + [v for v in patch if v not in current]
    merge_key = _merge_key(parent, field)
    if merge_key is None:
        return [v for v in patch if not (isinstance(v, dict) and _PATCH in v)]
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        return [item for item in patch if _PATCH not in item]
    merged = list(current)
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise errors.bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        _merge_item(merged, item, merge_key, field)
    return merged


def _merge_item(merged: list[Any], item: Object, merge_key: str, field: str) -> None:
    index = next((i for i, old in enumerate(merged) if old.get(merge_key) == item[merge_key]), None)
    if item.get(_PATCH) == "delete":
        if index is not None:
            del merged[index]
    elif index is None:
        merged.append(_merge_maps({}, item, field))
    else:
        merged[index] = _merge_maps(merged[index], item, field)


def _reorder(items: list[Any], order: list[Any], merge_key: str | None) -> list[Any]:
    """Return the items with those that `order` names rearranged into that order; every other item keeps its index."""
    identity: Callable[[Any], Any] = (lambda v: v.get(merge_key)) if merge_key else (lambda v: v)
    wanted = [identity(v) if isinstance(v, dict) else v for v in order]
    named = sorted((v for v in items if identity(v) in wanted), key=lambda v: wanted.index(identity(v)))
    return [named.pop(0) if identity(item) in wanted else item for item in items]
