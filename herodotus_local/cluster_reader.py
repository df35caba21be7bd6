"""Read from the API server the objects that scheduling decisions depend on, with the user's own rights.

Does not own: requests (the caller's `Fetch`), decisions (`evaluation`).

Invariant: what cannot be read is named with its effect on the answer, and is never taken for absent.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from herodotus_kube.api_conventions import read_pages
from herodotus_local.errors import NodesForbiddenError, ReadError
from herodotus_record.typed_decoding import json_decoder
from scheduler.engine.nodegroups.reading import AutoscalingObjects, read_autoscaling_objects
from scheduler.engine.objects.types import Node, Object, Pod
from scheduler.engine.objects.watched_kinds import ALL_KINDS, DEVICE_TAINT_RULES, KINDS, WatchedKind
from scheduler.engine.whatif.pods import PriorityClass

_CONNECTIONS: Final = 4  # requests at a time
_FORBIDDEN, _NOT_FOUND = 403, 404
_PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_RUNNING: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_STORAGE: Final = frozenset(
    {
        "persistentvolumes",
        "persistentvolumeclaims",
        "storageclasses",
        "csinodes",
        "csidrivers",
        "csistoragecapacities",
        "volumeattachments",
    }
)
# The plugins that cannot decide about a pod with volumes unless all kinds of storage are read. VolumeRestrictions needs
# only the pods and their claims.
_STORAGE_PLUGINS: Final = ("VolumeBinding", "VolumeZone", "NodeVolumeLimits")
_CLAIMS: Final = "persistentvolumeclaims"
# Kinds of which the objects of one namespace suffice for pods of it, where the other namespaces' pods are unknown too.
_OF_ONE_NAMESPACE: Final = frozenset(
    {
        "services",
        "replicationcontrollers",
        "replicasets",
        "statefulsets",
        "poddisruptionbudgets",
        "podgroups",
        "persistentvolumeclaims",
        "resourceclaimtemplates",
    }
)
# DynamicResources cannot decide unless all of these are read.
DEVICES: Final = frozenset({"resourceclaims", "deviceclasses", "resourceslices"})
ALLOCATES: Final = "DynamicResources"
_SPREADING: Final = "default spreading does not count the pods that they select"
# What a decision lacks if these kinds cannot be read; kinds of storage have a text of their own.
_EFFECTS: Final = {
    "pods": "pods of other namespaces do not count, so nodes may have less free",
    "namespaces": "affinity terms with a namespaceSelector match no namespace by its labels",
    "poddisruptionbudgets": "preemption and drains are evaluated as if there were none",
    "services": _SPREADING,
    "replicationcontrollers": _SPREADING,
    "replicasets": _SPREADING,
    "statefulsets": _SPREADING,
    "podgroups": "pods of pod groups are explained as if their groups did not exist",
    DEVICE_TAINT_RULES.name: "devices that rules taint seem to be usable",
    "priorityclasses": "priorities of pods that do not exist yet are unknown",
    "resourceclaimtemplates": "pods that do not exist yet lack the resource claims of their templates",
    **dict.fromkeys(DEVICES, f"whether devices can be allocated is not evaluated ({ALLOCATES})"),
}

Fetch = Callable[[str], bytes]  # GETs a path of the API server; raises ReadError
Report = Callable[[str, int], None]  # receives a kind's plural and the number of its objects that were read so far


class UnreadKind(NamedTuple):
    """A kind of object that the user may not read, and what the answer lacks without it."""

    plural: str
    effect: str


@dataclass
class ClusterListing:
    """The objects that were read. `disabled` names the plugins that cannot decide without the unread kinds."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    priority_classes: list[PriorityClass] | None = None
    unread: list[UnreadKind] = field(default_factory=list)
    disabled: frozenset[str] = frozenset()

    @property
    def is_partial(self) -> bool:
        """Whether pods of other namespaces were not read, so that any evaluation may be wrong."""
        return any(kind.plural == "pods" for kind in self.unread)

    def format_unread(self, plurals: Container[str]) -> list[str]:
        """Return a sentence for each effect on the answer of those unread kinds that are in `plurals`."""
        by_effect: dict[str, list[str]] = {}
        for kind in self.unread:
            if kind.plural in plurals:
                by_effect.setdefault(kind.effect, []).append(kind.plural)
        return [f"{', '.join(names)} cannot be read: {effect}" for effect, names in by_effect.items()]


class ClusterReader(AbstractContextManager["ClusterReader"]):
    """Reads the objects of one cluster, with a few requests at a time that begin at once."""

    def __init__(self, fetch: Fetch, report: Report) -> None:
        """Start to read the nodes, the pods that have not ended, and the objects that plugins look up.

        The kinds of storage are not read yet. `fetch` returns the body at a path of the API server, or raises
        ReadError. `report` receives how many objects of a kind were read.
        """
        self._fetch = fetch
        self._report = report
        self._unread: list[UnreadKind] = []
        self._is_partial = False  # whether only the pods of one namespace are read
        self._pool = ThreadPoolExecutor(_CONNECTIONS)
        self._nodes = self._pool.submit(self._list, "/api/v1/nodes", Node)
        self._pods = self._pool.submit(self._list, "/api/v1/pods", Pod, _RUNNING)
        self._classes = self._pool.submit(self._list_if_allowed, _PRIORITY_CLASSES, PriorityClass)
        self._others = [(kind, self._submit(kind)) for kind in ALL_KINDS if kind.name not in _STORAGE]

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Cancel the requests that have not begun, without waiting for the others."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def read(self, namespace: str, needs_storage: Callable[[Sequence[Pod]], bool]) -> ClusterListing:
        """Return the objects of the cluster.

        Where the user may not list the pods of all namespaces, only those of `namespace` are read, and the
        objects that matter to them. Kinds of storage are read if `needs_storage`, which is called with all pods,
        returns True. Raises ReadError if the nodes or no pods at all can be read.
        """
        listing = ClusterListing(nodes=self._read_nodes(), pods=self.read_pods(namespace))
        if needs_storage(listing.pods):
            self._others += [(kind, self._submit(kind)) for kind in KINDS if kind.name in _STORAGE]
        listing.priority_classes = self._classes.result()
        refused = [kind for kind, listed in self._others if listed.result() is None]
        narrow = {kind for kind in refused if kind.name in _OF_ONE_NAMESPACE and namespace and self._is_partial}
        self._unread = [each for each in self._unread if each.plural not in {kind.name for kind in narrow}]
        again = [self._submit(kind, namespace) for kind in narrow]
        for listed in (*(listed for _, listed in self._others), *again):
            listing.others += listed.result() or ()
        listing.unread = sorted(set(self._unread))
        unread = {kind.plural for kind in listing.unread}
        if unread & _STORAGE:
            listing.disabled = frozenset(_STORAGE_PLUGINS)
        if _CLAIMS in unread:
            listing.disabled |= {"VolumeRestrictions"}
        if unread & DEVICES:
            listing.disabled |= {ALLOCATES}
        return listing

    def read_pods(self, namespace: str) -> list[Pod]:
        """Return the pods that have not ended, or only those of `namespace` if the user may not list all.

        Raises ReadError if the user may list neither, or if a request fails.
        """
        try:
            return self._pods.result()
        except ReadError as e:
            if e.code != _FORBIDDEN or not namespace:
                raise
        self._is_partial = True
        self._unread.append(UnreadKind("pods", _EFFECTS["pods"]))
        return self._list(f"/api/v1/namespaces/{namespace}/pods", Pod, _RUNNING)

    def read_node_groups(self, pods: Iterable[str]) -> AutoscalingObjects:
        """Return the objects that describe node groups, and the autoscalers' events about the pods NAMESPACE/NAME.

        The result's note names the kinds that the API server does not serve or the user may not read.
        """
        return read_autoscaling_objects(self._get, pods)

    def _get(self, path: str) -> bytes | int:
        """Return the body of a response, or the HTTP status code of a refusal."""
        try:
            return self._fetch(path)
        except ReadError as e:
            return e.code

    def _submit(self, kind: WatchedKind, namespace: str = "") -> Future[list[Any] | None]:
        path = kind.path
        if namespace:
            group, _, plural = path.rpartition("/")
            path = f"{group}/namespaces/{namespace}/{plural}"
        return self._pool.submit(self._list_if_allowed, path, kind.decode_as)

    def _read_nodes(self) -> list[Node]:
        try:
            return self._nodes.result()
        except ReadError as e:
            if e.code != _FORBIDDEN:
                raise ReadError(e.code, f"nodes cannot be listed: {e.message}") from None
            # the API server says it in one sentence: nodes is forbidden: User "x" cannot list resource "nodes" …
            said = "" if e.message.startswith("nodes is forbidden") else "you may not list nodes: "
            raise NodesForbiddenError(e.code, said + e.message) from None

    def _list_if_allowed(self, path: str, decode_as: type[Any]) -> list[Any] | None:
        """Return the objects of a kind. If the user may not list them, add it to the unread kinds and return None.

        A kind that the server does not serve has no objects. Raises ReadError for any other refusal.
        """
        try:
            return self._list(path, decode_as)
        except ReadError as e:
            if e.code == _NOT_FOUND:
                return []
            if e.code != _FORBIDDEN:
                raise
            plural = path.rpartition("/")[2]
            effect = _EFFECTS.get(plural) or f"whether volumes fit is not evaluated ({', '.join(_STORAGE_PLUGINS)})"
            self._unread.append(UnreadKind(plural, effect))
            return None

    def _list(self, path: str, decode_as: type[Any], selector: dict[str, str] | None = None) -> list[Any]:
        plural = path.rpartition("/")[2]
        objects: list[Any] = []
        decoder = json_decoder(decode_as)
        for page in read_pages(lambda params: self._fetch(f"{path}?{urlencode(params)}"), selector or {}):
            objects += map(decoder.decode, page.items or ())
            self._report(plural, len(objects))
        return objects
