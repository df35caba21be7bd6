"""The names that fields of a decision had in frames of versions 1 and 2, and their translation.

Owns: the only place where these names occur. Does not own: frames and their versions (`codec`).

Frames, and payloads that stores keep without a header, are recognized by a name that every such decision has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

Json = dict[str, Any]

SINCE: Final = 3  # the first version with the present names
# present name -> former name, of a decision, of its `preemption` and of the preemption's candidates
_DECISION: Final[Mapping[str, str]] = {
    "requeued_by": "woken_by",
    "restricted_by": "narrowed_by",
    "text_notes": "marks",
}
_PREEMPTION: Final[Mapping[str, str]] = {"nominated_node": "nominated"}
_CANDIDATE: Final[Mapping[str, str]] = {"rejected_by": "refused_by"}
_PATHS: Final[Mapping[str, str]] = {"requeuedBy": "wokenBy", "restrictedBy": "narrowedBy"}  # in `unknown`
_EVALUATIONS: Final[Mapping[str, str]] = {"restricted": "narrowed"}  # labels that a summary counts
_SIGN: Final = msgspec.msgpack.encode(_DECISION["restricted_by"])  # a key that no decision of these versions lacks


def has_former_names(payload: bytes | memoryview) -> bool:
    """Return whether the payload of a whole decision has, or may have, the names of versions 1 and 2."""
    return _SIGN in bytes(payload)


def to_present_names(payload: bytes | memoryview) -> bytes:
    """Return the payload of a decision of version 1 or 2 with the present names; other fields keep their bytes."""
    return msgspec.msgpack.encode(rename_to_present(msgspec.msgpack.decode(payload)))


def to_former_names(payload: bytes | memoryview) -> bytes:
    """Return the payload of a decision with the names of versions 1 and 2."""
    return msgspec.msgpack.encode(_rename(msgspec.msgpack.decode(payload), former=True))


def rename_to_former(fields: Json) -> Json:
    """Return the fields of a decision with the names of versions 1 and 2.

    Values that are encoded already (msgspec.Raw) are renamed too.
    """
    nested = ("preemption", "summary", "unknown")
    decoded = {
        name: msgspec.msgpack.decode(fields[name]) for name in nested if isinstance(fields.get(name), msgspec.Raw)
    }
    renamed = _rename(fields | decoded, former=True)
    return renamed | {name: msgspec.Raw(msgspec.msgpack.encode(renamed[name])) for name in decoded}


def rename_to_present(fields: Json) -> Json:
    """Return fields of a decision, all or those of a delta, with present instead of former names."""
    return _rename(fields, former=False)


def _rename(fields: Json, *, former: bool) -> Json:
    renamed = _with_names(fields, _DECISION, former=former)
    preemption = renamed.get("preemption")
    if isinstance(preemption, dict):
        preemption = _with_names(preemption, _PREEMPTION, former=former)
        candidates = preemption.get("candidates")
        if isinstance(candidates, (list, tuple)):
            preemption["candidates"] = [
                _with_names(c, _CANDIDATE, former=former) if isinstance(c, dict) else c for c in candidates
            ]
        renamed["preemption"] = preemption
    summary = renamed.get("summary")
    if isinstance(summary, dict) and isinstance(counts := summary.get("evaluation"), dict):
        renamed["summary"] = summary | {"evaluation": _with_names(counts, _EVALUATIONS, former=former)}
    unknown = renamed.get("unknown")
    if isinstance(unknown, (list, tuple)):
        paths = _PATHS if former else {old: new for new, old in _PATHS.items()}
        renamed["unknown"] = [paths.get(path, path) if isinstance(path, str) else path for path in unknown]
    return renamed


def _with_names(fields: Json, names: Mapping[str, str], *, former: bool) -> Json:
    renamed = dict(fields)
    for present, old in names.items():
        source, target = (present, old) if former else (old, present)
        if source in renamed:
            renamed[target] = renamed.pop(source)
    return renamed
