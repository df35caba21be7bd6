"""Converts Events between core/v1, in which they are stored, and events.k8s.io/v1.

Does not own: the storage. Invariant: `to_storage_form(from_storage_form(e)) == e` for fields that both have.
"""

from __future__ import annotations

from herodotus_sim.kinds import EVENT_V1, ApiResource
from herodotus_sim.wire import Object

# The events.k8s.io/v1 name of each core/v1 field. Other fields have the same name in both.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _RENAMED.items()}


def from_storage_form(kind: ApiResource, obj: Object) -> Object:
    """Return a stored object with the field names of the given resource, which differ only for events.k8s.io/v1."""
    if kind is not EVENT_V1:
        return obj
    return {_RENAMED.get(name, name): value for name, value in obj.items()}


def to_storage_form(kind: ApiResource, obj: Object) -> Object:
    """Return an object as it is stored: without kind and apiVersion, and Events with the field names of core/v1."""
    names = _CORE_NAMES if kind is EVENT_V1 else {}
    return {names.get(name, name): value for name, value in obj.items() if name not in ("kind", "apiVersion")}
