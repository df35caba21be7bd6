"""JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch and apply, chosen by content type.

Invariant: no patch changes the object that it is applied to. A list that is absent from MERGE_KEYS is atomic: a
strategic merge patch replaces it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from herodotus_sim import errors
from herodotus_sim.wire import Object, decode

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

# The limit of kube-apiserver, because copy operations can grow an object exponentially.
_MAX_OPERATIONS = 10_000

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


def read_patch(content_type: str, body: bytes) -> Any:
    """Return the decoded body of a PATCH request.

    Raises StatusError 415 for another media type and 400 for invalid JSON or YAML.
    """
    if content_type not in PATCH_TYPES:
        raise errors.unsupported_media_type(PATCH_TYPES)
    try:
        patch = yaml.safe_load(body) if content_type == APPLY_PATCH else decode(body)
    except (ValueError, yaml.YAMLError) as error:
        raise errors.bad_request(f"error decoding patch: {error}") from None
    if not isinstance(patch, list if content_type == JSON_PATCH else dict):
        raise errors.bad_request(f"error decoding patch: unexpected {type(patch).__name__}")
    return patch


def apply_patch(content_type: str, obj: Object, patch: Any) -> Object:
    """Return the object as the patch changes it; `content_type` is the patch's media type.

    A server-side apply is treated as a strategic merge patch. Raises StatusError if the patch does not fit.
    """
    if content_type == JSON_PATCH:
        patched = json_patch(obj, patch)
    elif content_type == MERGE_PATCH:
        patched = merge_patch(obj, patch)
    else:
        patched = strategic_merge(obj, patch)
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise errors.unprocessable("the patch leaves no object")
    return patched


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the JSON value `target` as an RFC 7386 patch changes it.

    Null removes a field, objects are merged, and other values replace the present ones.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Any, operations: list[Any]) -> Any:
    """Return the JSON value `target` as the operations of an RFC 6902 patch change it.

    Raises StatusError 422 if an operation fails, 413 if there are too many.
    """
    if len(operations) > _MAX_OPERATIONS:
        raise errors.StatusError(
            413, "RequestEntityTooLarge", f"more than {_MAX_OPERATIONS} operations in a JSON patch"
        )
    document = _clone(target)
    for operation in operations:
        try:
            document = _apply_operation(document, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise errors.unprocessable(f"{operation}: {error}") from None
    return document


def _apply_operation(document: Any, operation: Any) -> Any:
    op, path = operation["op"], _parse_pointer(operation["path"])
    if op == "add":
        return _add(document, path, _clone(operation["value"]))
    if op == "remove":
        return _remove(document, path)
    if op == "replace":
        _resolve(document, path)
        return _add(_remove(document, path), path, _clone(operation["value"])) if path else operation["value"]
    if op == "test":
        if _resolve(document, path) != operation.get("value"):
            raise ValueError(f"testing value {operation['path']} failed")
        return document
    source = _parse_pointer(operation["from"])
    value = _clone(_resolve(document, source))
    if op == "copy":
        return _add(document, path, value)
    if op == "move":
        return _add(_remove(document, source), path, value)
    raise ValueError(f"unexpected operation {op}")


def _parse_pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"{text} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _resolve(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[_index(part, len(document) - 1)] if isinstance(document, list) else document[part]
    return document


def _index(part: str, last: int) -> int:
    if not part.isdigit() or int(part) > last:
        raise IndexError(f"no index {part}")
    return int(part)


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _resolve(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _index(path[-1], len(parent)), value)
    else:
        parent[path[-1]] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    parent = _resolve(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1)]
    else:
        del parent[path[-1]]
    return document


def _clone(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _clone(v) for k, v in value.items()}
    return [_clone(v) for v in value] if isinstance(value, list) else value


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
    """Return the items so that those in `order` have that order, in the places that they had together.

    Every other item keeps its index. Items are identified by the field `merge_key`, or by their value if it is None.
    """
    identity: Callable[[Any], Any] = (lambda v: v.get(merge_key)) if merge_key else (lambda v: v)
    wanted = [identity(v) if isinstance(v, dict) else v for v in order]
    named = sorted((v for v in items if identity(v) in wanted), key=lambda v: wanted.index(identity(v)))
    return [named.pop(0) if identity(item) in wanted else item for item in items]
