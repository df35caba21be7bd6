"""Owns: how core/v1 and events.k8s.io/v1 show one stored Event.

Does not own: the storage. Invariant: events are stored in core/v1 form; `stored(shown(e)) == e` for what both know.
"""

from __future__ import annotations

from herodotus_sim.kinds import EVENT_V1, Kind
from herodotus_sim.wire import Object

# core/v1 name -> events.k8s.io/v1 name; what is not named here is called the same in both.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _RENAMED.items()}


def shown(kind: Kind, obj: Object) -> Object:
    """A stored object as `kind` shows it."""
    if kind is not EVENT_V1:
        return obj
    return {_RENAMED.get(name, name): value for name, value in obj.items()}


def stored(kind: Kind, obj: Object) -> Object:
    """An object of `kind` in storage form: core names, no type."""
    names = _BACK if kind is EVENT_V1 else {}
    return {names.get(name, name): value for name, value in obj.items() if name not in ("kind", "apiVersion")}
