"""Devices and claims of workloads: what each node publishes, and what each pod requests.

Owns: the shapes, which are those of scheduler_perf (test/integration/scheduler_perf/dra, v1.36) where it has them. Does
not own: the workloads (`workloads`), the manifests (`manifests`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench import manifests
from bench.manifests import DEVICE_CLASS, TEST_DRIVER

Json = dict[str, Any]

EXTENDED_RESOURCE: Final = "example.com/device"
CLAIM: Final = "resource"  # of the pod's spec, and of the container


@dataclass(frozen=True)
class Devices:
    """The devices of each node, and the claims of pods: the i-th pod has the i-th of `claims`, in turn.

    `differ`: each device of the cluster has its own value of the attribute `index`. `partitions`: devices share
    counters. Pods request the devices by an extended resource if there are no claims.
    """

    per_node: int
    claims: Sequence[Sequence[Json]] = ()
    differ: bool = False
    partitions: bool = False

    def slices(self, i: int) -> Iterator[Json]:
        """Yield the resource slices of node i."""
        devices = []
        for number in range(self.per_node):
            value = i * self.per_node + number if self.differ else number % 2
            attributes = {"model": {"string": "a"}, "index": {"int": value}}
            device: Json = {"name": f"device-{number}", "attributes": attributes}
            if self.partitions:
                used = {"memory": {"value": "4Gi"}}
                device["consumesCounters"] = [{"counterSet": "memory", "counters": used}]
            devices.append(device)
        total = {"memory": {"value": f"{4 * self.per_node}Gi"}}
        counters = {"name": "memory", "counters": total} if self.partitions else None
        return manifests.resource_slices(i, devices, counters)

    def claim(self, i: int, name: str, namespace: str) -> Json | None:
        """Return the claim of the i-th pod, None if an extended resource stands for it."""
        if not self.claims:
            return None
        requests = self.claims[i % len(self.claims)]
        return manifests.resource_claim(name, namespace, requests)

    def add_to(self, pod: Json, i: int) -> None:
        """Let the i-th pod request the devices: by the claim of its name, made from a template, or as a resource."""
        if not self.claims:
            resources = pod["spec"]["containers"][0]["resources"]
            for kind in ("requests", "limits"):
                resources[kind] = {**resources[kind], EXTENDED_RESOURCE: "1"}
            return
        template = f"test-claim-template-{i % len(self.claims)}"
        pod["spec"]["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": template}]
        name = pod["metadata"]["name"]
        pod["status"] = {"resourceClaimStatuses": [{"name": CLAIM, "resourceClaimName": name}]}


def exactly(count: int = 1, *expressions: str) -> Json:
    """Return a request for devices of the test class."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exact = {"deviceClassName": DEVICE_CLASS, "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    return {"name": "request", "exactly": exact}


def first_available(*counts: int) -> Json:
    """Return a request of which the first count that a node has is chosen."""
    subs = [{"name": f"count-{n}", "deviceClassName": DEVICE_CLASS, "count": n} for n in counts]
    return {"name": "request", "firstAvailable": subs}


_SELECTOR: Final = f'device.attributes["{TEST_DRIVER}"].index >= 0 && device.attributes["{TEST_DRIVER}"].model == "a"'
BY_COUNT: Final = tuple((exactly(count, _SELECTOR),) for count in (1, 2, 4, 8))
