"""Owns: reading the few Kubernetes protobuf bodies that kubectl sends whatever the server offers.

    "k8s\\0" + Unknown{ typeMeta, raw }  ──schema──> the object as JSON would give it

kubectl's typed commands (`create namespace`, `auth can-i`, `drain`) encode their request in protobuf.
Does not own: writing protobuf; no answer is ever in it. Invariant: a type without a schema here is a 415.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from herodotus_sim.wire import Object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


class UnreadableError(Exception):
    """No Kubernetes protobuf, or a type that is not read here."""


@dataclass(frozen=True)
class Field:
    """How one field is read: a scalar by name of its type, or a message by its own fields."""

    name: str
    type: str = "string"
    """string, int, bool, strings, map or message."""
    fields: dict[int, Field] = field(default_factory=dict)


def _message(name: str, fields: dict[int, Field]) -> Field:
    return Field(name, "message", fields)


# Field numbers from k8s.io/api and k8s.io/apimachinery, generated.proto. Fields left out are skipped.
_UNKNOWN = {1: _message("typeMeta", {1: Field("apiVersion"), 2: Field("kind")}), 2: Field("raw", "bytes")}
_METADATA = _message(
    "metadata",
    {1: Field("name"), 2: Field("generateName"), 3: Field("namespace"), 5: Field("uid"), 6: Field("resourceVersion"),
     11: Field("labels", "map"), 12: Field("annotations", "map"), 14: Field("finalizers", "strings")},
)  # fmt: skip
_DELETE_OPTIONS = {
    1: Field("gracePeriodSeconds", "int"),
    2: _message("preconditions", {1: Field("uid"), 2: Field("resourceVersion")}),
    4: Field("propagationPolicy"),
    5: Field("dryRun", "strings"),
}
_RESOURCE = {n: Field(name) for n, name in enumerate(
    ("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1)}  # fmt: skip
_NON_RESOURCE = {1: Field("path"), 2: Field("verb")}
_ACCESS = _message(
    "spec", {1: _message("resourceAttributes", _RESOURCE), 2: _message("nonResourceAttributes", _NON_RESOURCE)}
)

_SCHEMAS: dict[str, dict[int, Field]] = {
    "ConfigMap": {1: _METADATA, 2: Field("data", "map"), 4: Field("immutable", "bool")},
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": {1: _METADATA, 2: _message("deleteOptions", _DELETE_OPTIONS)},
    "Namespace": {1: _METADATA},
    "PriorityClass": {1: _METADATA, 2: Field("value", "int"), 3: Field("globalDefault", "bool"),
                      4: Field("description"), 5: Field("preemptionPolicy")},
    "SelfSubjectAccessReview": {1: _METADATA, 2: _ACCESS},
    "SelfSubjectReview": {1: _METADATA},
    "ServiceAccount": {1: _METADATA},
}  # fmt: skip


def decode(body: bytes) -> Object:
    """The object in a Kubernetes protobuf body, with its type. Raises UnreadableError."""
    if not body.startswith(_MAGIC):
        raise UnreadableError("no Kubernetes protobuf")
    try:
        envelope = _read(body[len(_MAGIC) :], _UNKNOWN)
        type_meta = envelope.get("typeMeta", {})
        schema = _SCHEMAS.get(type_meta.get("kind", ""))
        if schema is None:
            raise UnreadableError(f"protobuf of {type_meta.get('kind')} is not read")
        return {**type_meta, **_read(envelope.get("raw", b""), schema)}
    except (IndexError, ValueError) as error:
        raise UnreadableError(f"broken protobuf: {error}") from None


def _read(data: bytes, fields: dict[int, Field]) -> Object:
    """A message. Empty strings are left out, as JSON's omitempty does."""
    out: Object = {}
    for number, value in _parts(data):
        known = fields.get(number)
        if known is None:
            continue
        if known.type in ("int", "bool"):
            if not isinstance(value, int):
                raise ValueError(f"{known.name} is no number")
            out[known.name] = bool(value) if known.type == "bool" else _signed(value)
            continue
        if not isinstance(value, bytes):
            raise ValueError(f"{known.name} has no length")
        if known.type == "message":
            out[known.name] = _read(value, known.fields)
        elif known.type == "map":
            entry = _read(value, {1: Field("key"), 2: Field("value")})
            out.setdefault(known.name, {})[entry.get("key", "")] = entry.get("value", "")
        elif known.type == "strings":
            out.setdefault(known.name, []).append(value.decode())
        elif value:
            out[known.name] = value if known.type == "bytes" else value.decode()
    return out


def _parts(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field: an int, or the bytes of what has a length."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire_type == 2:
            size, at = _varint(data, at)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if at + size > len(data):
            raise ValueError("the message ends early")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
