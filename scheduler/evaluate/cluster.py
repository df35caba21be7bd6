"""A cluster from its objects' manifests: the nodes with the pods bound to them, and every other kind that plugins read.

Owns: which kinds are read and which are passed over, the names that objects must have. Does not own: where manifests
come from (`files`, `cases`).

Invariant: every pod that was read has a namespace and a UID; where none was written, `default` and NAMESPACE/NAME.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from scheduler.columns import NodeColumns
from scheduler.config.document import field_first
from scheduler.evaluate.amounts import AMOUNTS, wrong_amount
from scheduler.eventhandlers import FINISHED
from scheduler.kube.kinds import KINDS
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Object, Pod
from scheduler.recorder.build import microseconds

AnyObject = TypeVar("AnyObject", bound=Object)

DEFAULT_NAMESPACE: Final = "default"
_CLUSTER_SCOPED: Final = frozenset(
    {"Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"}
)
_STORAGE: Final = frozenset(
    {"PersistentVolume", "PersistentVolumeClaim", "CSIStorageCapacity"}
)  # read in the cycle only
_MAPS: Final = AMOUNTS | {
    "labels",
    "matchLabels",
    "nodeSelector",
    "selector",
}  # whose values are the user's, not fields
# kind -> (API version, what it decodes to)
_READ: Final[Mapping[str, tuple[str, type[Object]]]] = {
    "Node": ("v1", Node),
    "Pod": ("v1", Pod),
    **{k.decode_as.__name__: ("/".join(k.path.split("/")[2:-1]), k.decode_as) for k in KINDS},
}


class ManifestError(ValueError):
    """A manifest that cannot be read: where it stands, its kind, the field that is wrong."""


class Manifest(NamedTuple):
    """An object as it was written, and where: `nodes.yaml: document 2: items[3]`."""

    where: str
    content: object


@dataclass
class Cluster:
    """What was read. `skipped`: kinds that scheduling does not read, as API VERSION/KIND."""

    nodes: NodeColumns = field(default_factory=NodeColumns)
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    skipped: set[str] = field(default_factory=set)


def load(manifests: Iterable[Manifest], incoming: PodInfo | None = None) -> Cluster:
    """The cluster as these objects describe it, without the incoming pod. ManifestError names the first that is wrong.

    Of two objects of one name the later counts, as if it had been read later.
    """
    cluster, pods = Cluster(), dict[str, PodInfo]()
    with _without_collecting():
        for where, content in manifests:
            obj = _decoded(where, content, cluster.skipped)
            try:
                if isinstance(obj, Pod):
                    pods[obj.metadata.uid] = _counted(obj)
                elif isinstance(obj, Node):
                    cluster.nodes.set_node(obj)
                elif obj is not None:
                    cluster.objects.set(obj)
            except ValueError as e:  # an amount; which one is looked for only now, for there are many pods
                raise ManifestError(f"{where} ({_name_of(content)}): {wrong_amount(content) or e}") from e
        for pod in pods.values():
            if incoming is None or (pod.uid != incoming.uid and pod.full_name != incoming.full_name):
                _place(pod, cluster.nodes)
    return cluster


def decoded_pod(where: str, content: object) -> Pod:
    """The one pod that a manifest is of. ManifestError where it is none."""
    skipped: set[str] = set()
    pod = _decoded(where, {"kind": "Pod", **content} if isinstance(content, Mapping) else content, skipped)
    if not isinstance(pod, Pod):
        raise ManifestError(f"{where}: expected a Pod (v1), found {skipped.pop()}")
    wrong = wrong_amount(content) or _wrong_time(pod)
    if wrong is not None:
        raise ManifestError(f"{where}: {wrong}")
    return pod


def _counted(pod: Pod) -> PodInfo:
    """A pod on a node, what it asks for worked out. ValueError where an amount is none."""
    info = PodInfo(pod, running=True)
    _ = info.requests, info.scoring_requests
    return info


def _place(pod: PodInfo, nodes: NodeColumns) -> None:
    if pod.pod.spec.node_name and pod.pod.status.phase not in FINISHED:
        nodes.add_pod(pod, pod.pod.spec.node_name)


def _decoded(where: str, content: object, skipped: set[str]) -> Object | None:
    """The object of a manifest; None where it is of a kind that is not read."""
    if not isinstance(content, Mapping):
        raise ManifestError(f"{where}: expected an object")
    kind, version = content.get("kind"), content.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        raise ManifestError(f"{where}: kind: required")
    known_version, decode_as = _READ.get(kind, ("", Object))
    if decode_as is Object or version not in (None, "", known_version):
        skipped.add(_kind_of(content))
        return None
    try:
        obj = _named(_converted(content, decode_as), namespaced=kind not in _CLUSTER_SCOPED)
        wrong = wrong_amount(content) if kind in _STORAGE else None
    except (ValueError, RecursionError) as e:
        wrong = field_first(str(e))
    if wrong is not None:
        raise ManifestError(f"{where} ({_name_of(content)}): {wrong}")
    return obj


def _converted(content: object, decode_as: type[AnyObject]) -> AnyObject:
    """A field that is null is absent, as Go has it. Looked for only where decoding fails, for objects are many."""
    try:
        return msgspec.convert(content, decode_as)
    except msgspec.ValidationError:
        return msgspec.convert(_without_null(content), decode_as)


def _without_null(content: object) -> object:
    if isinstance(content, Mapping):
        return {k: v if k in _MAPS else _without_null(v) for k, v in content.items() if v is not None}
    return [_without_null(item) for item in content] if isinstance(content, list) else content


def _wrong_time(pod: Pod) -> str | None:
    try:
        microseconds(pod.metadata.creation_timestamp)
    except (ValueError, TypeError):  # the latter of a time without a zone
        return f"metadata.creationTimestamp: {pod.metadata.creation_timestamp!r} is not an RFC 3339 time"
    return None


def _named(obj: AnyObject, *, namespaced: bool) -> AnyObject:
    metadata = obj.metadata
    if not metadata.name:
        raise ValueError("metadata.name: required")
    if not namespaced:
        return obj
    changes: dict[str, str] = {}
    if not metadata.namespace:
        changes["namespace"] = DEFAULT_NAMESPACE
    if isinstance(obj, Pod) and not metadata.uid:
        changes["uid"] = f"{metadata.namespace or DEFAULT_NAMESPACE}/{metadata.name}"
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(metadata, **changes)) if changes else obj


def _name_of(content: Any) -> str:
    """What a message calls an object: `Pod default/web`, as far as that can be told."""
    metadata = content.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    parts = [named.get("namespace"), named.get("name")]
    return " ".join(filter(None, [content["kind"], "/".join(p for p in parts if isinstance(p, str) and p)]))


def _kind_of(content: Any) -> str:
    return "/".join(str(content[key]) for key in ("apiVersion", "kind") if content.get(key))


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Objects that are being read are no garbage, however many there are."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
