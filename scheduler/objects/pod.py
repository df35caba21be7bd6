"""A pod prepared once for everything that reads it: amounts in base units, host ports, affinity at hand.

Invariant: derived from the Pod alone and immutable; a changed pod is a new `PodInfo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from scheduler.objects import requests
from scheduler.objects.disks import Disk, disks_of
from scheduler.objects.lazy import lazy
from scheduler.objects.pod_affinity import PodTerms
from scheduler.objects.requests import Asked, Counted
from scheduler.objects.types import Container, Pod, Volume


class HostPort(NamedTuple):
    """A port on the node. An empty address on the wire is 0.0.0.0: all of them."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether both cannot be had on one node. Addresses compare as text, as kube-scheduler does."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return "0.0.0.0" in (self.ip, other.ip) or self.ip == other.ip

    def __str__(self) -> str:
        where = "" if self.ip == "0.0.0.0" else f"{self.ip}:"
        return f"{where}{self.port}/{self.protocol}"


@dataclass(frozen=True, eq=False)
class PodInfo:
    """A Pod and what follows from it. `running`: it is on a node, so a resize in progress counts (see `requests`)."""

    pod: Pod
    running: bool = False

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.pod.metadata.uid

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.pod.metadata.namespace

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.pod.metadata.name

    @property
    def full_name(self) -> str:
        """NAMESPACE/NAME, as logs and events write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        """metadata.labels."""
        return self.pod.metadata.labels or {}

    @lazy
    def priority(self) -> int:
        """spec.priority; 0 where unset."""
        return self.pod.spec.priority or 0

    @property
    def terminating(self) -> bool:
        """Whether deletion was asked for."""
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def started(self) -> str:
        """status.startTime, which sorts as text; a pod that has not started sorts as starting now."""
        return self.pod.status.start_time or "9999"

    @lazy
    def requests(self) -> Mapping[str, int]:
        """Effective requests in base units."""
        return self._asked.requests if self._asked else requests.pod_requests(self.pod, running=self.running)

    @lazy
    def scoring_requests(self) -> tuple[int, int]:
        """(cpu, memory) with defaults for containers that name none, as a node counts the pod."""
        return self._asked.scoring if self._asked else requests.scoring_requests(self.pod, running=self.running)

    @lazy
    def counted(self) -> Counted:
        """Both of them: what a node counts of the pod, to compare."""
        return tuple(self.requests.items()), self.scoring_requests

    @lazy
    def incoming_scoring_requests(self) -> tuple[int, int]:
        """The same without pod-level resources: how NodeResourcesFit scores the incoming pod."""
        return self._asked.incoming_scoring if self._asked else requests.scoring_requests(self.pod, pod_level=False)

    @lazy
    def _asked(self) -> Asked | None:
        return None if self.running and requests.status_counts(self.pod) else requests.asked(self.pod)

    @lazy
    def host_ports(self) -> tuple[HostPort, ...]:
        """Host ports of the containers and sidecars."""
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
        """Affinity and anti-affinity to pods; None where it has neither."""
        return PodTerms.of(self)

    @lazy
    def claims(self) -> tuple[str, ...]:
        """NAMESPACE/NAME of the claims that volumes name; those of generic ephemeral volumes are not among them."""
        named = (v.persistent_volume_claim for v in self.pod.spec.volumes or ())
        return tuple(f"{self.namespace}/{claim.claim_name}" for claim in named if claim is not None)

    @lazy
    def disks(self) -> tuple[Disk, ...]:
        """Inline disks of the kinds that exclude each other."""
        return tuple(disks_of(self.pod))

    @lazy
    def has_storage(self) -> bool:
        """Whether there are volumes that scheduling asks about, images left out."""
        return any(v != Volume(name=v.name, image=v.image) for v in self.pod.spec.volumes or ())

    @lazy
    def spec_digest(self) -> bytes:
        """Equal where specs are. Volumes count as images, and as whether scheduling asks about others.

        Their names differ within one template.
        """
        spec = self.pod.spec
        if spec.volumes:
            images = [v for v in spec.volumes if v.image is not None]
            spec = msgspec.structs.replace(spec, volumes=[*images, Volume()] if self.has_storage else images)
        return blake2b(msgspec.msgpack.encode(spec), digest_size=16).digest()

    @property
    def containers(self) -> list[Container]:
        """Init containers, then containers."""
        return [*(self.pod.spec.init_containers or ()), *(self.pod.spec.containers or ())]
