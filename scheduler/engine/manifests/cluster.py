"""A cluster read from manifests: the nodes with the pods bound to them, and every other kind that plugins read.

Invariant: every loaded pod has a namespace and a UID; the defaults are `default` and NAMESPACE/NAME.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from herodotus_record.typed_decoding import convert
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.nominated import Nominator
from scheduler.engine.objects import quantity
from scheduler.engine.objects.autoscaling import AUTOSCALING_KINDS, EVENT_KIND, STATUS_CONFIG_MAP, STATUS_KIND
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import FINISHED_PHASES, PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.problems import format_decode_error
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Node, Object, Pod
from scheduler.engine.objects.watched_kinds import ALL_KINDS, POD_GROUPS

AnyObject = TypeVar("AnyObject", bound=Object)

# fields whose values are quantities by resource, or one quantity
_QUANTITY_FIELDS: Final = frozenset(
    {"requests", "limits", "allocatable", "allocatedResources", "overhead", "capacity", "maximumVolumeSize"}
)
DEFAULT_NAMESPACE: Final = "default"
_CLUSTER_SCOPED: Final = frozenset(
    {
        *("Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"),
        *("DeviceClass", "DeviceTaintRule", "ResourceSlice"),
        *(kind.decode_as.__name__ for kind in AUTOSCALING_KINDS if not kind.namespaced),
    }
)
_STORAGE: Final = frozenset(
    {"PersistentVolume", "PersistentVolumeClaim", "CSIStorageCapacity"}
)  # read in the cycle only
_MAPS: Final = _QUANTITY_FIELDS | {
    "labels",
    "matchLabels",
    "nodeSelector",
    "selector",
}  # maps whose keys users choose
# kind -> (API versions, what it decodes to)
_READ: Final[Mapping[str, tuple[tuple[str, ...], type[Object]]]] = {
    "Node": (("v1",), Node),
    "Pod": (("v1",), Pod),
    **{k.decode_as.__name__: (("/".join(k.path.split("/")[2:-1]),), k.decode_as) for k in ALL_KINDS},
    **{k.decode_as.__name__: (k.versions, k.decode_as) for k in (*AUTOSCALING_KINDS, EVENT_KIND, STATUS_KIND)},
}


class ManifestError(ValueError):
    """The error of a manifest that cannot be read. The message names its location, its kind and the invalid field."""


class SourceManifest(NamedTuple):
    """A manifest as written, not decoded yet, and its location, such as `nodes.yaml: document 2: items[3]`."""

    where: str
    content: object


@dataclass
class LoadedCluster:
    """The cluster that was read from manifests.

    `skipped` holds the kinds that were ignored because scheduling does not read them, as API VERSION/KIND.
    """

    nodes: NodeColumns = field(default_factory=NodeColumns)
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    nominator: Nominator = field(default_factory=Nominator)  # pending pods with a nominated node
    skipped: set[str] = field(default_factory=set)


def load_cluster(manifests: Iterable[SourceManifest], incoming: PodInfo | None = None) -> LoadedCluster:
    """Return the cluster that the manifests describe, without `incoming`, the pod that is to be scheduled there.

    Of two objects with the same kind and name, the later replaces the earlier. Raises ManifestError for the first
    invalid manifest.
    """
    cluster, pods = LoadedCluster(), dict[str, PodInfo]()
    with _without_collecting():
        for where, content in manifests:
            obj = decode_object(where, content, cluster.skipped)
            try:
                if obj is not None:
                    _add(obj, cluster, pods)
            except ValueError as e:  # an invalid quantity; searching for it earlier would cost time for every pod
                raise ManifestError(f"{where} ({_name_of(content)}): {_find_invalid_quantity(content) or e}") from e
        for pod in pods.values():
            if incoming is None or (pod.uid != incoming.uid and pod.full_name != incoming.full_name):
                _place(pod, cluster)
    return cluster


def assemble_cluster(objects: Iterable[Object]) -> LoadedCluster:
    """Return a cluster of these decoded objects. Raises ManifestError for the first invalid quantity."""
    cluster, pods = LoadedCluster(), dict[str, PodInfo]()
    with _without_collecting():
        for obj in objects:
            try:
                _add(obj, cluster, pods)
            except ValueError as e:
                raise ManifestError(f"{type(obj).__name__} {obj.metadata.namespace}/{obj.metadata.name}: {e}") from e
        for pod in pods.values():
            _place(pod, cluster)
    return cluster


def _add(obj: Object, cluster: LoadedCluster, pods: dict[str, PodInfo]) -> None:
    """Add an object to the cluster, and a pod to `pods` by UID. Raises ValueError for an invalid quantity."""
    if isinstance(obj, Pod):
        pods[obj.metadata.uid] = _counted(obj)
    elif isinstance(obj, Node):
        cluster.nodes.set_node(obj)
    else:
        cluster.objects.set(obj)


def decode_pod(where: str, content: object) -> Pod:
    """Return the pod of a manifest, whose location is `where`. Raises ManifestError if it is not a valid pod."""
    skipped: set[str] = set()
    pod = decode_object(where, {"kind": "Pod", **content} if isinstance(content, Mapping) else content, skipped)
    if not isinstance(pod, Pod):
        raise ManifestError(f"{where}: expected a Pod (v1), found {skipped.pop()}")
    wrong = _find_invalid_quantity(content) or _wrong_time(pod)
    if wrong is not None:
        raise ManifestError(f"{where}: {wrong}")
    return pod


def decode_pod_group(content: Mapping[str, object], namespace: str) -> PodGroup:
    """Return the PodGroup of a manifest, in `namespace` if it names none. Raises ManifestError if it is not valid."""
    metadata = content.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    named = {**content, "metadata": {**fields, "namespace": fields.get("namespace") or namespace or DEFAULT_NAMESPACE}}
    skipped: set[str] = set()
    group = decode_object("the PodGroup", named, skipped)
    if not isinstance(group, PodGroup):
        raise ManifestError(f"expected a PodGroup of {POD_GROUPS.path.split('/')[2]}, found {skipped.pop()}")
    return group


def _counted(pod: Pod) -> PodInfo:
    """Return a pod whose requests are computed already. Raises ValueError for an invalid quantity."""
    info = PodInfo(pod, running=True)
    _ = info.requests, info.scoring_requests
    return info


def _place(pod: PodInfo, cluster: LoadedCluster) -> None:
    if pod.pod.status.phase in FINISHED_PHASES:
        return
    if pod.pod.spec.node_name:
        cluster.nodes.add_pod(pod, pod.pod.spec.node_name)
    else:
        cluster.nominator.update_from_status(pod)


def decode_object(where: str, content: object, skipped: set[str]) -> Object | None:
    """Return the object of a manifest; if its kind is not read, return None and add the kind to `skipped`.

    Raises ManifestError if the manifest is invalid.
    """
    if not isinstance(content, Mapping):
        raise ManifestError(f"{where}: expected an object")
    kind, version = content.get("kind"), content.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        raise ManifestError(f"{where}: kind: required")
    known_versions, decode_as = _READ.get(kind, ((), Object))
    if decode_as is Object or version not in (None, "", *known_versions) or _is_foreign_config_map(content):
        skipped.add(_kind_of(content))
        return None
    try:
        obj = _named(_converted(content, decode_as), namespaced=kind not in _CLUSTER_SCOPED)
        wrong = _find_invalid_quantity(content) if kind in _STORAGE else None
    except (ValueError, RecursionError) as e:
        wrong = format_decode_error(str(e))
    if wrong is not None:
        raise ManifestError(f"{where} ({_name_of(content)}): {wrong}")
    return obj


def _is_foreign_config_map(content: Mapping[str, object]) -> bool:
    """Return whether the object is a ConfigMap other than the status of cluster-autoscaler."""
    metadata = content.get("metadata")
    named = metadata.get("name") if isinstance(metadata, Mapping) else None
    return content.get("kind") == STATUS_KIND.decode_as.__name__ and named != STATUS_CONFIG_MAP


def _converted(content: object, decode_as: type[AnyObject]) -> AnyObject:
    """Decode an object; null means absent, as in Go. Raises msgspec.ValidationError.

    Nulls are removed only after a first try failed, to save time.
    """
    try:
        return convert(content, decode_as)
    except msgspec.ValidationError:
        return convert(_without_null(content), decode_as)


def _without_null(content: object) -> object:
    if isinstance(content, Mapping):
        return {k: v if k in _MAPS else _without_null(v) for k, v in content.items() if v is not None}
    return [_without_null(item) for item in content] if isinstance(content, list) else content


def _wrong_time(pod: Pod) -> str | None:
    try:
        parse_microseconds(pod.metadata.creation_timestamp)
    except (ValueError, TypeError):  # TypeError: a time without a zone
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
    """Return the object's kind and name for error messages, such as `Pod default/web`; missing parts are omitted."""
    metadata = content.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    parts = [named.get("namespace"), named.get("name")]
    return " ".join(filter(None, [content["kind"], "/".join(p for p in parts if isinstance(p, str) and p)]))


def _kind_of(content: Any) -> str:
    return "/".join(str(content[key]) for key in ("apiVersion", "kind") if content.get(key))


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Disable garbage collection in the context. While many objects are read, it would find nothing to free."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _find_invalid_quantity(content: object) -> str | None:
    """Return `FIELD: error` for the first invalid quantity in a manifest, or None if all are valid."""
    return next(_find_invalid_quantities(content, "", False), None)


def _find_invalid_quantities(content: object, path: str, amounts: bool) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _find_invalid_quantities(value, f"{path}.{key}".lstrip("."), amounts or key in _QUANTITY_FIELDS)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for i, value in enumerate(content):
            yield from _find_invalid_quantities(value, f"{path}[{i}]", amounts)
    elif amounts and isinstance(content, str | int | float) and not isinstance(content, bool):
        try:
            quantity.parse(content)
        except ValueError as e:
            yield f"{path}: {e}"
