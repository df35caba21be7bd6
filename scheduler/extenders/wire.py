"""What a scheduler and an HTTP extender say to each other: k8s.io/kube-scheduler/extender/v1, v1.36.

Owns: the types, and their JSON both ways. Does not own: HTTP, who may say what when (`client`). Imports nothing else of
the scheduler, so that an extender can be written with it.

Keys are written as Go writes them, in PascalCase and in the fields' order, null where nothing is set; they are read in
any case, as Go reads them. Whole Pod and Node objects are `Raw`: the API server's own JSON, passed on as it came.

kube-scheduler's messages have no place for the numbers that an answer follows from. Who wants them asks for the media
type EXPLAINED (`Accept`), and gets `Explained` from an extender that knows it; everybody else gets what kube-scheduler
gets.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import msgspec

MIN_PRIORITY: Final = 0
MAX_PRIORITY: Final = 10  # of a host; a scheduler stretches the range to its own
EXPLAINED: Final = "application/vnd.herodotus.extender+json"
JSON: Final = "application/json"

T = TypeVar("T")


class WireError(ValueError):
    """Bytes that are not the JSON of the type expected."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Base of all: PascalCase on the wire."""


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """v1.NodeList, whose own keys are in lower case."""

    metadata: dict[str, Any] = {}
    items: list[msgspec.Raw] | None = None


class ExtenderArgs(Struct, frozen=True):
    """Request to filter or to prioritize. `node_names` where the extender has the nodes in its cache, else `nodes`."""

    pod: msgspec.Raw
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(Struct, frozen=True):
    """Answer to filter: the nodes that are left, and messages for those that are not, by name.

    A node in both maps counts as unresolvable: preempting pods there would not help.
    """

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(Struct, frozen=True):
    """One node's points, `MIN_PRIORITY` to `MAX_PRIORITY`. The answer to prioritize is an array of these."""

    host: str = ""
    score: int = 0


class ExtenderBindingArgs(Struct, frozen=True):
    """Request to bind."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(name="PodUID", default="")
    node: str = ""


class ExtenderBindingResult(Struct, frozen=True):
    """Answer to bind."""

    error: str = ""


class Victims(Struct, frozen=True):
    """Whole pods that would have to go from a node."""

    pods: list[msgspec.Raw] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class MetaPod(Struct, frozen=True):
    """A pod's identity."""

    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(Struct, frozen=True):
    """Pods that would have to go from a node, by identity."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(Struct, frozen=True):
    """Request to preempt. The second map where the extender has the nodes in its cache, else the first."""

    pod: msgspec.Raw
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(Struct, frozen=True):
    """Answer to preempt: the nodes on which the extender agrees, with the pods that then have to go."""

    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


class InputNumber(Struct, frozen=True):
    """One number of each node that was asked about, in that order; null: there is none."""

    name: str = ""
    unit: str = ""
    digits: int = 2  # decimals worth keeping
    values: list[float | None] | None = None


class Inputs(Struct, frozen=True):
    """The numbers that came from one source, in words.

    `measured`: when, in seconds since 1970, null where that is not known. `stale`: whether it was too old, and ignored.
    """

    source: str = ""
    numbers: list[InputNumber] | None = None
    measured: list[float | None] | None = None
    stale: list[bool] | None = None


class Explained(Struct, frozen=True):
    """An answer to filter or to prioritize, and what it follows from."""

    answer: msgspec.Raw
    inputs: list[Inputs] | None = None


def encode(message: object) -> bytes:
    """A message as JSON."""
    return msgspec.json.encode(message)


def decode(kind: type[T], body: bytes) -> T:
    """A message of this type, its keys in any case; unknown keys are ignored. WireError when it is none."""
    try:
        decoded: T = _read(kind, msgspec.Raw(body))
        return decoded
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as e:
        raise WireError(str(e)) from e


def _read(kind: Any, raw: msgspec.Raw) -> Any:
    if kind is msgspec.Raw:
        return raw.copy()  # the body need not outlive the message
    if get_origin(kind) is list and kind not in _PLAIN:
        (item,) = get_args(kind)
        return [_read(item, one) for one in msgspec.json.decode(raw, type=list[msgspec.Raw] | None) or ()]
    if get_origin(kind) is dict:
        _, item = get_args(kind)
        entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw] | None) or {}
        return {key: _read(item, one) for key, one in entries.items()}
    if NoneType in get_args(kind):
        (present,) = (one for one in get_args(kind) if one is not NoneType)
        return None if _null(raw) else _read(present, raw)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw] | None) or {}
        known = _members(kind)
        values = {}
        for key, one in given.items():
            member = known.get(key.casefold())
            if member is not None and not _null(one):
                values[member[0]] = _read(member[1], one)
        return kind(**values)
    return msgspec.json.decode(raw, type=kind)


_PLAIN: Final = (list[str], list[bool], list[float | None])  # no keys inside: read at once


@cache
def _members(kind: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    """Each member's attribute and type, by its key in lower case."""
    types = get_type_hints(kind)
    return {
        key.casefold(): (name, types[name])
        for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    }


def _null(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:5]) == b"null"
