"""Lists a cluster's objects for a snapshot, and redacts them.

Invariant: a redacted object leads to the same decisions as the complete one. It has the fields that decoding keeps
(`scheduler.engine.objects`), without node annotations that no plugin of the configuration reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record.typed_decoding import convert
from scheduler.engine.nodegroups.reading import read_autoscaling_objects
from scheduler.engine.objects.autoscaling import AUTOSCALING_KINDS, STATUS_KIND
from scheduler.engine.objects.types import Node, Object, Pod
from scheduler.engine.objects.watched_kinds import DEVICE_TAINT_RULES, KINDS
from scheduler.engine.whatif.pods import PriorityClass

Json = dict[str, Any]

_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
# path -> (what it decodes to, whether a server may lack it)
PATHS: Final[dict[str, tuple[type[Object], bool]]] = {
    "/api/v1/nodes": (Node, False),
    "/api/v1/pods": (Pod, False),
    _CLASSES: (PriorityClass, True),
    **{kind.path: (kind.decode_as, True) for kind in (*KINDS, DEVICE_TAINT_RULES)},
}


def items(
    api: ApiServer, *, full: bool, annotations: Collection[str], report: Callable[[str, int], None]
) -> Iterator[Json]:
    """Yield every object of the cluster that scheduling reads, as JSON with apiVersion and kind.

    Unless `full`, fields that scheduling does not read are omitted, and nodes keep only the annotations whose keys are
    in `annotations`. `report` gets each resource name with its number of objects. Objects of autoscalers that are
    served and may be read follow, with only the fields that Herodotus reads. Raise ApiError if a kind that scheduling
    reads cannot be listed.
    """
    for path, (kind, may_be_absent) in PATHS.items():
        version = "/".join(path.split("/")[2:-1])
        count = 0
        try:
            for item in api.list_objects(path, dict):
                count += 1
                shown = item if full else _redacted(item, kind, annotations)
                yield {"apiVersion": version, "kind": kind.__name__, **shown}
        except ApiError as e:
            if e.code != 404 or not may_be_absent:
                raise
        report(path.rpartition("/")[2], count)
    read = read_autoscaling_objects(lambda path: _get(api, path), ())
    for obj in read.objects:
        read_as = next(kind for kind in (*AUTOSCALING_KINDS, STATUS_KIND) if isinstance(obj, kind.decode_as))
        yield {"apiVersion": read_as.versions[0], "kind": read_as.decode_as.__name__, **plain(obj)}


def _get(api: ApiServer, path: str) -> bytes | int:
    """Return the body of a response of the API server, or the HTTP status code of its refusal."""
    try:
        return api.get(path)
    except ApiError as e:
        if not e.code:
            raise
        return e.code


def _redacted(item: Json, kind: type[Object], annotations: Collection[str]) -> Json:
    """Return an object's JSON with only the fields that the engine decodes, without empty ones.

    Nodes keep only the annotations whose keys are in `annotations`.
    """
    obj = convert(item, kind)
    if isinstance(obj, Node):
        has = obj.metadata.annotations or {}
        annotations_read = {key: has[key] for key in annotations if key in has} or None
        obj = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=annotations_read))
    redacted: Json = plain(obj)
    return redacted


def plain(value: Any) -> Any:
    """Return a decoded object as JSON values, without fields that have their default value.

    Empty values that differ from the default stay.
    """
    if isinstance(value, msgspec.Struct):
        fields = ((encoded, getattr(value, name), default) for name, encoded, default in _fields(type(value)))
        return {encoded: plain(each) for encoded, each, default in fields if each != default}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return {key: plain(each) for key, each in value.items()} if isinstance(value, dict) else value


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    return tuple((f.name, f.encode_name, f.default) for f in msgspec.structs.fields(kind))
