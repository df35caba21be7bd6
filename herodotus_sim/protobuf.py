r"""Reads the few protobuf bodies that kubectl sends even if the server does not offer protobuf.

    "k8s\0" + Unknown{ typeMeta, raw }  ──schema──> the object as JSON would give it

kubectl's typed commands (`create namespace`, `create deployment`, `create job`, `auth can-i`, `drain`) encode their
request in protobuf. Does not own: writing protobuf; no response uses it. Invariant: a type without a schema here gives
415, and so does a workload with a field that the schema lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from herodotus_sim.wire import Object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


class UnreadableError(Exception):
    """The body is not Kubernetes protobuf, or its type has no schema here."""


@dataclass(frozen=True)
class Field:
    """How to read one field of a protobuf message: its name in JSON, its type and, for a message, the fields in it."""

    name: str
    type: str = "string"
    """string, int, nonzero (JSON leaves out 0), bool, strings, map, message, messages (repeated) or skip."""
    fields: dict[int, Field] = field(default_factory=dict)


def _message(name: str, fields: dict[int, Field]) -> Field:
    return Field(name, "message", fields)


# Field numbers from k8s.io/api and k8s.io/apimachinery, generated.proto. Fields left out are skipped.
_UNKNOWN = {
    1: _message("typeMeta", {1: Field("apiVersion"), 2: Field("kind")}),
    2: Field("raw", "bytes"),
}
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

_TEMPLATE_METADATA = _message(
    "metadata",
    {**_METADATA.fields, 8: Field("creationTimestamp", "skip"), 13: Field("ownerReferences", "skip")},
)
_SELECTOR = _message(
    "selector",
    {1: Field("matchLabels", "map"),
     2: Field("matchExpressions", "messages", {1: Field("key"), 2: Field("operator"), 3: Field("values", "strings")})},
)  # fmt: skip
_PORT = {1: Field("name"), 2: Field("hostPort", "nonzero"), 3: Field("containerPort", "int"), 4: Field("protocol"),
         5: Field("hostIP")}  # fmt: skip
_CONTAINER = {
    1: Field("name"), 2: Field("image"), 3: Field("command", "strings"), 4: Field("args", "strings"),
    5: Field("workingDir"), 6: Field("ports", "messages", _PORT),
    7: Field("env", "messages", {1: Field("name"), 2: Field("value")}), 8: _message("resources", {}),
    14: Field("imagePullPolicy"), 13: Field("terminationMessagePath"), 20: Field("terminationMessagePolicy"),
    16: Field("stdin", "bool"), 17: Field("stdinOnce", "bool"), 18: Field("tty", "bool"),
}  # fmt: skip
_POD_SPEC = _message(
    "spec",
    {2: Field("containers", "messages", _CONTAINER), 3: Field("restartPolicy"),
     4: Field("terminationGracePeriodSeconds", "int"), 5: Field("activeDeadlineSeconds", "int"), 6: Field("dnsPolicy"),
     7: Field("nodeSelector", "map"), 8: Field("serviceAccountName"), 9: Field("serviceAccount"),
     11: Field("hostNetwork", "bool"), 12: Field("hostPID", "bool"), 13: Field("hostIPC", "bool"),
     14: _message("securityContext", {}), 16: Field("hostname"), 17: Field("subdomain"), 19: Field("schedulerName"),
     24: Field("priorityClassName")},
)  # fmt: skip
_POD_TEMPLATE = _message("template", {1: _TEMPLATE_METADATA, 2: _POD_SPEC})
_DEPLOYMENT = _message(
    "spec",
    {1: Field("replicas", "int"), 2: _SELECTOR, 3: _POD_TEMPLATE, 4: _message("strategy", {1: Field("type")}),
     5: Field("minReadySeconds", "int"), 6: Field("revisionHistoryLimit", "int"), 7: Field("paused", "bool"),
     9: Field("progressDeadlineSeconds", "int")},
)  # fmt: skip
_JOB = _message(
    "spec",
    {1: Field("parallelism", "int"), 2: Field("completions", "int"), 3: Field("activeDeadlineSeconds", "int"),
     4: _SELECTOR, 5: Field("manualSelector", "bool"), 6: _POD_TEMPLATE, 7: Field("backoffLimit", "int"),
     8: Field("ttlSecondsAfterFinished", "int"), 9: Field("completionMode"), 10: Field("suspend", "bool")},
)  # fmt: skip

_SCHEMAS: dict[str, dict[int, Field]] = {
    "ConfigMap": {1: _METADATA, 2: Field("data", "map"), 4: Field("immutable", "bool")},
    "DeleteOptions": _DELETE_OPTIONS,
    "Deployment": {1: _TEMPLATE_METADATA, 2: _DEPLOYMENT, 3: Field("status", "skip")},
    "Eviction": {1: _METADATA, 2: _message("deleteOptions", _DELETE_OPTIONS)},
    "Job": {1: _TEMPLATE_METADATA, 2: _JOB, 3: Field("status", "skip")},
    "Namespace": {1: _METADATA},
    "PriorityClass": {1: _METADATA, 2: Field("value", "int"), 3: Field("globalDefault", "bool"),
                      4: Field("description"), 5: Field("preemptionPolicy")},
    "SelfSubjectAccessReview": {1: _METADATA, 2: _ACCESS},
    "SelfSubjectReview": {1: _METADATA},
    "ServiceAccount": {1: _METADATA},
}  # fmt: skip
_WHOLE = frozenset({"Deployment", "Job"})
"""Kinds whose unknown fields are rejected, so that no field is lost."""


def decode(body: bytes) -> Object:
    """Return the object in a Kubernetes protobuf body, with `kind` and `apiVersion`; raise UnreadableError."""
    if not body.startswith(_MAGIC):
        raise UnreadableError("no Kubernetes protobuf")
    try:
        envelope = _read(body[len(_MAGIC) :], _UNKNOWN)
        type_meta = envelope.get("typeMeta", {})
        schema = _SCHEMAS.get(type_meta.get("kind", ""))
        if schema is None:
            raise UnreadableError(f"protobuf of {type_meta.get('kind')} is not read")
        return {**type_meta, **_read(envelope.get("raw", b""), schema, type_meta["kind"] in _WHOLE)}
    except (IndexError, ValueError) as error:
        raise UnreadableError(f"broken protobuf: {error}") from None


def _read(data: bytes, fields: dict[int, Field], strict: bool = False) -> Object:
    """Return a protobuf message as JSON; `fields` is its schema, by field number.

    Empty strings are omitted, as by Go's omitempty. With `strict`, a field that the schema lacks raises ValueError.
    """
    out: Object = {}
    for number, value in _split_fields(data):
        schema = fields.get(number)
        if schema is None and strict and value:
            raise ValueError(f"field {number} is not in the schema")
        if schema is None or schema.type == "skip":
            continue
        if schema.type in ("int", "nonzero", "bool"):
            if not isinstance(value, int):
                raise ValueError(f"{schema.name} is no number")
            if value or schema.type == "int" or not strict:  # Go writes zero values that JSON leaves out
                out[schema.name] = bool(value) if schema.type == "bool" else _signed(value)
            continue
        if not isinstance(value, bytes):
            raise ValueError(f"{schema.name} has no length")
        if schema.type == "message":
            out[schema.name] = _read(value, schema.fields, strict)
        elif schema.type == "messages":
            out.setdefault(schema.name, []).append(_read(value, schema.fields, strict))
        elif schema.type == "map":
            entry = _read(value, {1: Field("key"), 2: Field("value")})
            out.setdefault(schema.name, {})[entry.get("key", "")] = entry.get("value", "")
        elif schema.type == "strings":
            out.setdefault(schema.name, []).append(value.decode())
        elif value:
            out[schema.name] = value if schema.type == "bytes" else value.decode()
    return out


def _split_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the field number and value of each field of a protobuf message: an int, or undecoded bytes."""
    offset = 0
    while offset < len(data):
        tag, offset = _varint(data, offset)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, offset = _varint(data, offset)
            yield number, value
            continue
        if wire_type == 2:
            size, offset = _varint(data, offset)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if offset + size > len(data):
            raise ValueError("the message ends early")
        yield number, data[offset : offset + size]
        offset += size


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return value, offset
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
