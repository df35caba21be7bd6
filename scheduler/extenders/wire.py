"""The messages between a scheduler and an HTTP extender: k8s.io/kube-scheduler/extender/v1, v1.36.

Owns: the types, and their JSON encoding and decoding. Does not own: HTTP, the sequence of messages (`client`). It
imports nothing else of the scheduler, so that an extender can use it.

Keys are written as Go writes them, in PascalCase and in the fields' order, null where nothing is set; they are read in
any case, as Go reads them. Whole Pod and Node objects are `Raw`: the API server's own JSON, passed on unchanged.

kube-scheduler's messages have no place for the inputs of an answer. A client that wants them accepts the media type
EXPLAINED, and an extender that supports it answers with `ExplainedAnswer`; other clients get kube-scheduler's messages.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from herodotus_record.typed_decoding import decode_json

MIN_PRIORITY: Final = 0
MAX_PRIORITY: Final = 10  # of a host; a scheduler stretches the range to its own
EXPLAINED: Final = "application/vnd.herodotus.extender+json"
JSON: Final = "application/json"

T = TypeVar("T")


class WireError(ValueError):
    """The bytes of a message are not JSON of the expected type."""


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Base class of the extender messages, whose JSON keys are in PascalCase."""


class NodeList(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes v1 NodeList in an extender message.

    Its JSON keys are in lower case, unlike those of other messages.
    """

    metadata: dict[str, Any] = {}
    items: list[msgspec.Raw] | None = None


class ExtenderArgs(WireStruct, frozen=True):
    """The request body of filter and prioritize: a pod and nodes.

    `node_names` is set if the extender caches nodes (nodeCacheCapable), and otherwise `nodes`.
    """

    pod: msgspec.Raw
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(WireStruct, frozen=True):
    """The response to filter: the remaining nodes, and a message for each rejected node by node name.

    A node in both `failed_nodes` and `failed_and_unresolvable_nodes` counts as unresolvable: preemption cannot help
    there.
    """

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(WireStruct, frozen=True):
    """The score of one node, from `MIN_PRIORITY` to `MAX_PRIORITY`. The response to prioritize is an array of these."""

    host: str = ""
    score: int = 0


class ExtenderBindingArgs(WireStruct, frozen=True):
    """The request body of bind: the pod to bind and the node's name."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(name="PodUID", default="")
    node: str = ""


class ExtenderBindingResult(WireStruct, frozen=True):
    """The response to bind: an error message, or an empty one if the pod was bound."""

    error: str = ""


class Victims(WireStruct, frozen=True):
    """The pods that preemption would remove from a node, as whole objects."""

    pods: list[msgspec.Raw] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class MetaPod(WireStruct, frozen=True):
    """A pod identified by its UID only."""

    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(WireStruct, frozen=True):
    """The pods that preemption would remove from a node, identified by UID."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(WireStruct, frozen=True):
    """The request body of preempt: a pod and the victims on each candidate node, by node name.

    `node_name_to_meta_victims` is set if the extender caches nodes (nodeCacheCapable), and otherwise
    `node_name_to_victims`.
    """

    pod: msgspec.Raw
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(WireStruct, frozen=True):
    """The response to preempt: the victims on each node that the extender accepts, by node name."""

    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None


class InputNumber(WireStruct, frozen=True):
    """A named measurement with one value per node of the request, in the same order, or null where it is unknown."""

    name: str = ""
    unit: str = ""
    digits: int = 2  # decimals worth keeping
    values: list[float | None] | None = None


class ExplainedInputs(WireStruct, frozen=True):
    """The measurements from one source, which scores or verdicts of an extender depend on.

    Per node of the request, `measured` holds the Unix time in seconds, or null if it is unknown, and `stale` whether
    the value was too old and therefore ignored.
    """

    source: str = ""
    numbers: list[InputNumber] | None = None
    measured: list[float | None] | None = None
    stale: list[bool] | None = None


class ExplainedAnswer(WireStruct, frozen=True):
    """A response to filter or prioritize together with the measurements that it was computed from."""

    answer: msgspec.Raw
    inputs: list[ExplainedInputs] | None = None


def encode(message: object) -> bytes:
    """Return a message as JSON bytes."""
    return msgspec.json.encode(message)


def decode(kind: type[T], body: bytes) -> T:
    """Return the message of type `kind` that the JSON bytes hold. Raise WireError if they do not match the type.

    Keys may be in any case, and unknown keys are ignored.
    """
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
        return [_read(item, one) for one in decode_json(raw, list[msgspec.Raw] | None) or ()]
    if get_origin(kind) is dict:
        _, item = get_args(kind)
        entries = decode_json(raw, dict[str, msgspec.Raw] | None) or {}
        return {key: _read(item, one) for key, one in entries.items()}
    if NoneType in get_args(kind):
        (present,) = (one for one in get_args(kind) if one is not NoneType)
        return None if _null(raw) else _read(present, raw)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = decode_json(raw, dict[str, msgspec.Raw] | None) or {}
        members = _members(kind)
        values = {}
        for key, one in fields.items():
            member = members.get(key.casefold())
            if member is not None and not _null(one):
                values[member[0]] = _read(member[1], one)
        return kind(**values)
    return decode_json(raw, kind)


_PLAIN: Final = (list[str], list[bool], list[float | None])  # no keys inside: read at once


@cache
def _members(kind: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    """Return each field's attribute name and type, by the field's JSON key in lower case."""
    types = get_type_hints(kind)
    return {
        key.casefold(): (name, types[name])
        for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    }


def _null(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:5]) == b"null"
