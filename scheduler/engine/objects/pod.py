"""A pod with the values that scheduling derives from it: requests in base units, host ports, affinity terms.

Invariant: a `PodInfo` derives from its Pod alone and is immutable; a changed pod gets a new `PodInfo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from scheduler.engine.objects import requests
from scheduler.engine.objects.disks import Disk, find_disks
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.pod_affinity import PodTerms
from scheduler.engine.objects.requests import CountedRequests, SpecRequests
from scheduler.engine.objects.types import Container, Pod, Volume


class HostPort(NamedTuple):
    """A port on the node. An empty address in the API is 0.0.0.0, which means all addresses."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Return whether one node cannot offer both ports. Addresses compare as text, as in kube-scheduler."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return "0.0.0.0" in (self.ip, other.ip) or self.ip == other.ip

    def __str__(self) -> str:
        where = "" if self.ip == "0.0.0.0" else f"{self.ip}:"
        return f"{where}{self.port}/{self.protocol}"


FINISHED_PHASES: Final = ("Succeeded", "Failed")  # such a pod no longer counts on its node


@dataclass(frozen=True, eq=False)
class PodInfo:
    """A Pod and the values derived from it.

    `running`: the pod is on a node, so that a resize in progress counts (see `requests`).
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
        """The value of status.startTime, which sorts as text; a pod that has not started sorts last."""
        return self.pod.status.start_time or "9999"

    @lazy
    def requests(self) -> Mapping[str, int]:
        """The effective requests in base units."""
        return (
            self._spec_requests.requests
            if self._spec_requests
            else requests.compute_pod_requests(self.pod, running=self.running)
        )

    @lazy
    def scoring_requests(self) -> tuple[int, int]:
        """The (cpu, memory) that the pod adds to a node's non-zero requests, with defaults for absent requests."""
        return (
            self._spec_requests.scoring
            if self._spec_requests
            else requests.compute_scoring_requests(self.pod, running=self.running)
        )

    @lazy
    def counted(self) -> CountedRequests:
        """Both kinds of requests that a node counts for the pod, for comparison."""
        return tuple(self.requests.items()), self.scoring_requests

    @lazy
    def incoming_scoring_requests(self) -> tuple[int, int]:
        """The non-zero requests without pod-level resources, with which NodeResourcesFit scores the incoming pod."""
        return (
            self._spec_requests.incoming_scoring
            if self._spec_requests
            else requests.compute_scoring_requests(self.pod, pod_level=False)
        )

    @lazy
    def _spec_requests(self) -> SpecRequests | None:
        return (
            None
            if self.running and requests.has_resource_status(self.pod)
            else requests.compute_spec_requests(self.pod)
        )

    @lazy
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports of containers and sidecars."""
        spec = self.pod.spec
        sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
        return tuple(
            HostPort(p.host_ip or "0.0.0.0", p.protocol or "TCP", p.host_port)
            for c in [*sidecars, *(spec.containers or ())]
            for p in c.ports or ()
            if p.host_port > 0
        )

    @lazy
    def terms(self) -> PodTerms | None:
        """The affinity and anti-affinity to pods, or None if the pod has neither."""
        return PodTerms.from_affinity(self.namespace, self.pod.spec.affinity)

    @lazy
    def claims(self) -> tuple[str, ...]:
        """NAMESPACE/NAME of each claim that a volume names; claims of generic ephemeral volumes are not included."""
        named = (v.persistent_volume_claim for v in self.pod.spec.volumes or ())
        return tuple(f"{self.namespace}/{claim.claim_name}" for claim in named if claim is not None)

    @lazy
    def disks(self) -> tuple[Disk, ...]:
        """The inline disks of the kinds that exclude each other."""
        return tuple(find_disks(self.pod))

    @lazy
    def has_storage(self) -> bool:
        """Whether the pod has volumes that scheduling reads, other than images."""
        return any(v != Volume(name=v.name, image=v.image) for v in self.pod.spec.volumes or ())

    @lazy
    def spec_digest(self) -> bytes:
        """A digest that is equal for specs that scheduling treats alike.

        Image volumes count in full. Of other volumes only their presence counts, since their names differ within one
        template.
        """
        spec = self.pod.spec
        if spec.volumes:
            images = [v for v in spec.volumes if v.image is not None]
            spec = msgspec.structs.replace(spec, volumes=[*images, Volume()] if self.has_storage else images)
        return blake2b(msgspec.msgpack.encode(spec), digest_size=16).digest()

    @property
    def containers(self) -> list[Container]:
        """The init containers, followed by the containers."""
        return [*(self.pod.spec.init_containers or ()), *(self.pod.spec.containers or ())]
