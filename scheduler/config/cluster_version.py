"""Find the version of Kubernetes whose rules a cluster's scheduler decides by.

The sources, in this order: the flag `--kubernetes-version`; kube-scheduler's own pod, whose image states the version
and whose command line the version that it emulates; its LeaseCandidate; the API server's /version. Each is read through
a function of the caller, and what the caller may not read is passed over.

Invariant: the result has a version whose rules are known. `stated` has the version that was found, where it is another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from herodotus_record.kubernetes_version import (
    DEFAULT_VERSION,
    NEWEST_MINOR,
    OLDEST_MINOR,
    KubernetesVersion,
    clamp_version,
)

Json = Mapping[str, Any]
Read = Callable[[str], Any]  # returns the JSON document at a path of the API server, or None if it cannot be read

PODS: Final = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-scheduler&limit=10"
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
CANDIDATES: Final = tuple(
    f"/apis/coordination.k8s.io/{version}/namespaces/kube-system/leasecandidates"
    for version in ("v1beta1", "v1alpha2", "v1alpha1")
)
VERSION: Final = "/version"
COMPONENT: Final = "kube-scheduler"  # the name of its container and of its Lease
_EMULATED_VERSION: Final = "--emulated-version"
_KUBE: Final = "kube"  # the component whose version the flag sets for kube-scheduler


class VersionSource(Enum):
    """Where the version whose rules apply comes from; the value is the code in records and documents."""

    FLAG = "flag"
    CONFIGURATION = "configuration"
    SCHEDULER_IMAGE = "scheduler-image"
    LEASE_CANDIDATE = "lease-candidate"
    API_SERVER = "api-server"
    DEFAULT = "default"


SOURCE_TEXTS: Final[Mapping[VersionSource, str]] = {
    VersionSource.FLAG: "--kubernetes-version",
    VersionSource.CONFIGURATION: "its configuration",
    VersionSource.SCHEDULER_IMAGE: "its image",
    VersionSource.LEASE_CANDIDATE: "its LeaseCandidate",
    VersionSource.API_SERVER: "the API server's version",
    VersionSource.DEFAULT: "the default, no version is known",
}
# The sources that speak of kube-scheduler itself, and not of the API server beside it.
_OWN: Final = (VersionSource.SCHEDULER_IMAGE, VersionSource.LEASE_CANDIDATE)


@dataclass(frozen=True)
class FoundVersion:
    """A version whose rules are known, the version that it emulates or None, and where they come from.

    `stated` is the version as its source has it, if its rules are not known, or "".
    """

    version: KubernetesVersion
    source: VersionSource
    emulated: KubernetesVersion | None = None
    stated: str = ""

    def describe(self) -> str:
        """Return the versions and their source for a screen, such as `v1.34.2 rules (its image)`."""
        emulates = f" emulating {self.emulated.minor_version}" if self.emulated else ""
        return f"{self.version}{emulates} rules ({SOURCE_TEXTS[self.source]})"

    def note(self) -> str:
        """Return a note on which rules apply if those of the cluster's version are not known, and otherwise ""."""
        if not self.stated:
            return ""
        return (
            f"note: the rules of {self.stated} are not known (known: v1.{OLDEST_MINOR} to v1.{NEWEST_MINOR}); those of"
            f" {self.version} apply, so answers may differ from the cluster's"
        )

    def is_replaced_by(self, later: FoundVersion) -> bool:
        """Return whether `later`, found later on the same cluster, means that other rules apply from now on.

        If this version is kube-scheduler's own and `later` is the API server's, return False: during an upgrade, the
        pod of kube-scheduler is absent for a moment.
        """
        if self.source in _OWN and later.source not in _OWN:
            return False
        return (later.version, later.emulated) != (self.version, self.emulated)


def find_version(read: Read, requested: KubernetesVersion | None = None) -> FoundVersion:
    """Return the version whose rules apply: `requested`, or else that of the cluster's kube-scheduler.

    It is read from kube-scheduler's pod, its LeaseCandidates or the API server's version, whichever is found first. If
    `read` finds none, return DEFAULT_VERSION.
    """
    if requested is not None:
        return FoundVersion(requested, VersionSource.FLAG)
    version = _read_pod(read) or _read_lease_candidate(read) or _read_server(read)
    return version or FoundVersion(DEFAULT_VERSION, VersionSource.DEFAULT)


def choose_pod(read: Read) -> Json | None:
    """Return the pod of the leading kube-scheduler, or None if no pod of kube-scheduler can be read.

    If the leader is not known, return a running pod, or else the first one.
    """
    pods = _list_items(read(PODS))
    if len(pods) > 1:
        holder = str(_get(read(LEASE), "spec", "holderIdentity") or "").partition("_")[0]
        # a static pod's name ends with its node's, which the holder's identity begins with
        leading = [pod for pod in pods if holder and str(_get(pod, "spec", "nodeName")) == holder]
        running = [pod for pod in pods if _get(pod, "status", "phase") == "Running"]
        pods = [*leading, *running, *pods]
    return pods[0] if pods else None


def list_flag_values(pod: Json, flag: str) -> list[str]:
    """Return the values of a flag on kube-scheduler's command line, in order."""
    container = _find_container(_get(pod, "spec", "containers"))
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    values = []
    for i, word in enumerate(words):
        if word.startswith(f"{flag}="):
            values.append(word.partition("=")[2])
        elif word == flag and i + 1 < len(words):
            values.append(words[i + 1])
    return values


def _read_pod(read: Read) -> FoundVersion | None:
    pod = choose_pod(read)
    if pod is None:
        return None
    emulated = _parse_emulated(list_flag_values(pod, _EMULATED_VERSION))
    for image in _list_images(pod):
        version = _parse_image(image)
        if version is not None:
            return _settle(version, emulated, VersionSource.SCHEDULER_IMAGE)
    return None


def _list_images(pod: Json) -> Iterator[str]:
    """Yield the image of kube-scheduler's container by the pod's spec, then by its status; "" where one is missing."""
    yield str(_find_container(_get(pod, "spec", "containers")).get("image") or "")
    yield str(_find_container(_get(pod, "status", "containerStatuses")).get("image") or "")


def _find_container(containers: object) -> Json:
    """Return the container named kube-scheduler, or else the first one; {} if `containers` is no list of objects."""
    mappings = [each for each in containers if isinstance(each, Mapping)] if isinstance(containers, list) else []
    return next((each for each in mappings if each.get("name") == COMPONENT), mappings[0] if mappings else {})


def _parse_image(image: str) -> KubernetesVersion | None:
    """Return the version in an image's tag, such as `registry.k8s.io/kube-scheduler:v1.34.2@sha256:...`, or None."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2].replace("_", "+")  # no tag may have a plus
    return _parse(tag) if re.match(r"v?1\.\d+\.\d+", tag) else None


def _parse_emulated(values: list[str]) -> KubernetesVersion | None:
    """Return the version in values of --emulated-version, such as `1.34` or `kube=1.34`, or None."""
    for part in (part.strip() for value in reversed(values) for part in value.split(",")):
        component, equals, version = part.rpartition("=")
        if not equals or component == _KUBE:
            return _parse(version)
    return None


def _read_lease_candidate(read: Read) -> FoundVersion | None:
    """Return the version of kube-scheduler's oldest LeaseCandidate, which is elected, or None if none can be read."""
    for path in CANDIDATES:
        versions = []
        for candidate in _list_items(read(path)):
            version = _parse(_get(candidate, "spec", "binaryVersion"))
            if version is not None and _get(candidate, "spec", "leaseName") == COMPONENT:
                versions.append((_parse(_get(candidate, "spec", "emulationVersion")) or version, version))
        if versions:
            emulated, version = min(versions)
            return _settle(version, emulated, VersionSource.LEASE_CANDIDATE)
    return None


def _read_server(read: Read) -> FoundVersion | None:
    version = _parse(_get(read(VERSION), "gitVersion"))
    return None if version is None else _settle(version, None, VersionSource.API_SERVER)


def _settle(version: KubernetesVersion, emulated: KubernetesVersion | None, source: VersionSource) -> FoundVersion:
    """Return a FoundVersion with this version or, if its rules are not known, the nearest version with known rules.

    An emulated version is dropped if its minor version is not below that of the rules.
    """
    nearest = clamp_version(version)
    stated = "" if nearest == version else str(version)
    if emulated is not None and emulated.minor >= version.minor:
        return FoundVersion(nearest, source, None, stated)
    if emulated is not None and emulated.minor < OLDEST_MINOR:
        return FoundVersion(nearest, source, clamp_version(emulated), f"{version} emulating {emulated.minor_version}")
    if emulated is not None and emulated.minor >= nearest.minor:
        emulated = None
    return FoundVersion(nearest, source, emulated, stated)


def _parse(text: object) -> KubernetesVersion | None:
    try:
        return KubernetesVersion.parse(str(text))
    except ValueError:
        return None


def _get(document: object, *names: str) -> Any:
    for name in names:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def _list_items(document: object) -> list[Json]:
    items = _get(document, "items")
    return [each for each in items if isinstance(each, Mapping)] if isinstance(items, list) else []
