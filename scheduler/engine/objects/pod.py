"""A pod with the values that scheduling derives from it: requests in base units, host ports, affinity terms.

Invariant: a `PodInfo` derives from its Pod alone and is immutable; a changed pod gets a new `PodInfo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from scheduler.engine.objects import requests
from scheduler.engine.objects.disks import Disk, find_disks
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.pod_affinity import PodTerms
from scheduler.engine.objects.requests import CountedRequests, Resize, SpecRequests
from scheduler.engine.objects.types import Container, Pod, Volume


class HostPort(NamedTuple):
    """A host port that a container requests. An empty address in the API is 0.0.0.0, which means all addresses."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Return whether two pods that request these host ports cannot run on one node.

        Addresses compare as text, as in kube-scheduler.
        """
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return "0.0.0.0" in (self.ip, other.ip) or self.ip == other.ip

    def __str__(self) -> str:
        host = "" if self.ip == "0.0.0.0" else f"{self.ip}:"
        return f"{host}{self.port}/{self.protocol}"


class PodGroupKey(NamedTuple):
    """The namespace and name of a PodGroup."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


MAX_CACHED_BYTES: Final = 64 << 10  # of a spec; ten times a large template's, and a hundredth of what etcd accepts
_BYTES_PER_ITEM: Final = 32  # of a volume or a label, at least
# Terms of one pod times nodes. A term takes 10 to 100 µs at 5,000 nodes with 20,000 pods: 20 ms for 200 terms at worst.
MAX_TERMS_TIMES_NODES: Final = 1_000_000

FINISHED_PHASES: Final = ("Succeeded", "Failed")  # such a pod no longer counts on its node


@dataclass(frozen=True, eq=False)
class PodInfo:
    """A Pod with the values that scheduling derives from it, each computed on its first read.

    `running` means that the pod is on a node. The requests then include an in-place resize in progress.
    """

    pod: Pod
    running: bool = False

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def full_name(self) -> str:
        """NAMESPACE/NAME, as logs and events write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def pod_group(self) -> PodGroupKey | None:
        """The namespace and name of the PodGroup that the pod belongs to, or None if it belongs to none."""
        group = self.pod.spec.scheduling_group
        return None if group is None else PodGroupKey(self.namespace, group.pod_group_name or "")

    @property
    def labels(self) -> Mapping[str, str]:
        return self.pod.metadata.labels or {}

    @lazy
    def priority(self) -> int:
        """The value of spec.priority, 0 if unset."""
        return self.pod.spec.priority or 0

    @property
    def terminating(self) -> bool:
        """Whether the pod has a deletion timestamp."""
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def started(self) -> str:
        """The text of status.startTime, for sorting; "9999" if the pod has not started, so that it sorts last."""
        return self.pod.status.start_time or "9999"

    @lazy
    def requests(self) -> Mapping[str, int]:
        """The pod's effective requests by resource name, in base units (cpu in milli, memory in bytes)."""
        return (
            self._spec_requests.requests
            if self._spec_requests
            else requests.compute_pod_requests(self.pod, Resize.LARGEST_OF_CONTAINER)
        )

    @lazy
    def scoring_requests(self) -> tuple[int, int]:
        """The pod's non-zero requests (cpu in milli, memory in bytes), with defaults for absent requests.

        A node's sums of these amounts serve scoring, not filtering.
        """
        return (
            self._spec_requests.scoring
            if self._spec_requests
            else requests.compute_scoring_requests(self.pod, Resize.LARGEST_OF_CONTAINER)
        )

    @lazy
    def requests_as_whole(self) -> Mapping[str, int]:
        """The effective requests by the rule of v1.37 for an in-place resize in progress (`Resize.LARGEST_OF_POD`).

        Without a resize they equal `requests`.
        """
        return (
            self._spec_requests.requests
            if self._spec_requests
            else requests.compute_pod_requests(self.pod, Resize.LARGEST_OF_POD)
        )

    @lazy
    def scoring_requests_as_whole(self) -> tuple[int, int]:
        """The non-zero requests by the rule of v1.37 for an in-place resize in progress (`Resize.LARGEST_OF_POD`).

        Without a resize they equal `scoring_requests`.
        """
        return (
            self._spec_requests.scoring
            if self._spec_requests
            else requests.compute_scoring_requests(self.pod, Resize.LARGEST_OF_POD)
        )

    @lazy
    def counted(self) -> CountedRequests:
        """The effective requests and the non-zero requests as one tuple, which can be compared and hashed."""
        return tuple(self.requests.items()), self.scoring_requests

    @lazy
    def incoming_scoring_requests(self) -> Mapping[str, int]:
        """The requests by which NodeResourcesFit scores the pod while it is being scheduled, by resource.

        They have defaults for absent cpu and memory, and do not include pod-level requests (spec.resources).
        """
        return (
            self._spec_requests.incoming_scoring
            if self._spec_requests
            else requests.compute_incoming_scoring_requests(self.pod)
        )

    @lazy
    def _spec_requests(self) -> SpecRequests | None:
        return None if self.running and requests.may_be_resizing(self.pod) else requests.compute_spec_requests(self.pod)

    @lazy
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports that the pod's containers and sidecars request."""
        sidecars = (c for c in self.pod.spec.init_containers or () if c.restart_policy == "Always")
        return (*_list_host_ports(sidecars), *self.host_ports_without_sidecars)

    @lazy
    def host_ports_without_sidecars(self) -> tuple[HostPort, ...]:
        """The host ports that the pod's containers request."""
        return tuple(_list_host_ports(self.pod.spec.containers or ()))

    @lazy
    def terms(self) -> PodTerms | None:
        """The pod affinity and pod anti-affinity terms, or None if the pod has neither."""
        return PodTerms.from_affinity(self.namespace, self.pod.spec.affinity)

    @lazy
    def term_count(self) -> int:
        """The number of the pod's affinity terms and topology spread constraints."""
        return (0 if self.terms is None else self.terms.size) + len(self.pod.spec.topology_spread_constraints or ())

    def has_many_terms(self, nodes: int) -> bool:
        """Return whether the number of the pod's terms times `nodes` exceeds what one step of the loop may handle."""
        return self.term_count * nodes > MAX_TERMS_TIMES_NODES

    @lazy
    def claims(self) -> tuple[str, ...]:
        """NAMESPACE/NAME of each persistent volume claim that a volume of the pod refers to.

        Claims of generic ephemeral volumes are not included.
        """
        named = (v.persistent_volume_claim for v in self.pod.spec.volumes or ())
        return tuple(f"{self.namespace}/{claim.claim_name}" for claim in named if claim is not None)

    @lazy
    def disks(self) -> tuple[Disk, ...]:
        """The pod's inline disks of the kinds that two pods on one node may be unable to share."""
        return tuple(find_disks(self.pod))

    @lazy
    def has_storage(self) -> bool:
        """Whether the pod has a volume with `Volume.is_storage`, such as a claim."""
        return any(v.is_storage for v in self.pod.spec.volumes or ())

    @property
    def spec_digest(self) -> bytes:
        """A 16-byte digest of the spec; pods with equal digests have equal scheduling results.

        Image volumes count in full. Of other volumes only their presence counts, since their names differ within one
        template.
        """
        return self._encoded_spec[0]

    @lazy
    def is_large(self) -> bool:
        """Whether the spec and labels are so large that no cache may keep results for the pod beyond its attempt."""
        lists = len(self.pod.spec.volumes or ()) + len(self.labels)
        return self._encoded_spec[1] + lists * _BYTES_PER_ITEM > MAX_CACHED_BYTES

    @lazy
    def _encoded_spec(self) -> tuple[bytes, int]:
        """The digest of the encoded spec (`spec_digest`), and the length of the encoded spec in bytes."""
        spec = self.pod.spec
        if spec.volumes:
            images = [v for v in spec.volumes if v.image is not None]
            spec = msgspec.structs.replace(spec, volumes=[*images, Volume()] if self.has_storage else images)
        encoded = msgspec.msgpack.encode(spec)
        return blake2b(encoded, digest_size=16).digest(), len(encoded)

    @property
    def containers(self) -> list[Container]:
        """The pod's init containers, followed by its containers."""
        return [*(self.pod.spec.init_containers or ()), *(self.pod.spec.containers or ())]


class PodCounting(NamedTuple):
    """Which parts of the pods on a node count there, as far as versions of kube-scheduler differ."""

    sidecar_ports: bool = True  # host ports of sidecars
    sidecar_scoring: bool = True  # sidecars in the non-zero requests, which serve scoring
    resize_as_whole: bool = False  # of a resize in progress the largest sums of the pod, not of each container

    def host_ports(self, pod: PodInfo) -> tuple[HostPort, ...]:
        """Return the host ports that the pod occupies on its node."""
        return pod.host_ports if self.sidecar_ports else pod.host_ports_without_sidecars

    def requests(self, pod: PodInfo) -> Mapping[str, int]:
        """Return the effective requests, by resource in base units, with which the pod counts on its node."""
        return pod.requests_as_whole if self.resize_as_whole else pod.requests

    def scoring_requests(self, pod: PodInfo) -> tuple[int, int]:
        """Return the non-zero requests (cpu in milli, memory in bytes) with which the pod counts on its node."""
        if not self.sidecar_scoring:
            return requests.compute_largest_step_requests(pod.pod)
        return pod.scoring_requests_as_whole if self.resize_as_whole else pod.scoring_requests

    def amounts(self, pod: PodInfo) -> CountedRequests:
        """Return what `requests` (as items) and `scoring_requests` return for the pod, as a hashable tuple."""
        if self.sidecar_scoring and not self.resize_as_whole:
            return pod.counted
        return tuple(self.requests(pod).items()), self.scoring_requests(pod)


def _list_host_ports(containers: Iterable[Container]) -> Iterator[HostPort]:
    for container in containers:
        for port in container.ports or ():
            if port.host_port > 0:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
