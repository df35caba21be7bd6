"""Seeded random clusters with devices: nodes, device classes, resource slices, and pods with resource claims.

Every feature of Dynamic Resource Allocation that kube-scheduler v1.36 has by default occurs: selectors, mode All,
several requests, constraints, prioritized lists, admin access, device taints, partitions with shared counters,
consumable capacity, binding conditions, shared and allocated claims, claims of templates, and extended resources.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

NAMESPACE: Final = "parity-devices"
API: Final = "resource.k8s.io/v1"
GPU, NIC, PART, SHARED = "gpu.example.com", "nic.example.com", "part.example.com", "shared.example.com"
CLASSES: Final = {"gpu": GPU, "nic": NIC, "part": PART, "shared": SHARED}
RESOURCES: Final = {"gpu": "example.com/gpu", "nic": "example.com/nic"}
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
SCHEDULER: Final = "parity-devices"
READY: Final = "example.com/attached"
FAILED: Final = "example.com/broken"
TAINTS: Final = (
    {"key": "example.com/unhealthy", "value": "yes", "effect": "NoSchedule"},
    {"key": "example.com/reserved", "value": "a", "effect": "NoExecute"},
    {"key": "example.com/note", "effect": "None"},
)
SELECTORS: Final = (
    f'device.attributes["{GPU}"].model == "A100"',
    f'device.attributes["{GPU}"].model.startsWith("H")',
    f'device.attributes["{GPU}"].index >= 1',
    f'"numa" in device.attributes["{GPU}"] && device.attributes["{GPU}"].numa == 0',
    f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'device.attributes["{GPU}"].driverVersion.isGreaterThan(semver("1.9.0"))',
    f'cel.bind(a, device.attributes["{GPU}"], a.index in [0, 2])',
    f'device.attributes["{GPU}"].?ecc.orValue(true)',
)
CAN_FAIL: Final = (f'device.attributes["{GPU}"].numa == 1', f'device.attributes["{GPU}"].ecc')


@dataclass
class IncomingPod:
    """A pod with the claims that must exist before it is created.

    `generated` maps a name in the pod's spec to the claim that is made for it after its creation.
    """

    pod: Json
    claims: list[Json] = field(default_factory=list)
    generated: dict[str, Json] = field(default_factory=dict)


class RandomDevices:
    """The initial objects of a seed, and the pods that are created later."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"devices {seed}")
        self.nodes_named = [f"d-{i:02}" for i in range(self._rng.randrange(3, 13))]
        self._extended = self._rng.random() < 0.6
        self._shared: list[str] = []

    # --- the cluster ------------------------------------------------------------------------------------------------

    def nodes(self) -> list[Json]:
        found = []
        for name in self.nodes_named:
            amounts = {"cpu": self._rng.choice(("4", "8", "16")), "memory": "32Gi", "pods": "110"}
            if self._extended and self._rng.random() < 0.2:
                amounts[RESOURCES["gpu"]] = self._rng.choice(("0", "1", "2"))  # a device plugin
            labels = {"kubernetes.io/hostname": name, "zone": self._rng.choice("ab")}
            taints = [{"key": "t", "effect": "PreferNoSchedule"}] if self._rng.random() < 0.2 else []
            status = {"allocatable": amounts, "capacity": amounts}
            found.append({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": status})
        return found

    def classes(self) -> list[Json]:
        found = []
        for name, driver in CLASSES.items():
            spec: Json = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
            if self._extended and name in RESOURCES:
                spec["extendedResourceName"] = RESOURCES[name]
            if self._rng.random() < 0.3:
                opaque = {"driver": driver, "parameters": {"class": name}}
                spec["config"] = [{"opaque": opaque}]
            found.append({"metadata": {"name": name}, "spec": spec})
        return [*found, {"metadata": {"name": "any"}, "spec": {}}]

    def slices(self) -> list[Json]:
        """Return the slices: those of each node, and pools that several nodes reach."""
        rng, found = self._rng, []
        for name in self.nodes_named:
            if rng.random() < 0.9:
                found += self._gpus(name)
            if rng.random() < 0.5:
                found.append(_slice(f"{name}-nic", NIC, name, self._nics(rng.randrange(1, 4)), nodeName=name))
            if rng.random() < 0.4:
                found += self._partitions(name)
            if rng.random() < 0.4:
                found.append(_slice(f"{name}-shared", SHARED, name, self._shareable(), nodeName=name))
        if rng.random() < 0.4:
            found.append(_slice("everywhere", NIC, "everywhere", self._nics(2), allNodes=True))
        if rng.random() < 0.4:
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            selector = {"nodeSelectorTerms": [term]}
            found.append(_slice("zone-a", NIC, "zone-a", self._nics(2), nodeSelector=selector))
        if rng.random() < 0.3:
            devices = [{**each, "nodeName": rng.choice(self.nodes_named)} for each in self._nics(3)]
            found.append(_slice("per-device", NIC, "per-device", devices, perDeviceNodeSelection=True))
        return found

    def _gpus(self, node: str) -> list[Json]:
        rng = self._rng
        devices = [self._gpu(i) for i in range(rng.randrange(1, 7))]
        rng.shuffle(devices)
        if rng.random() < 0.25 and len(devices) > 1:
            halves = [devices[:1], devices[1:]]
            count = 3 if rng.random() < 0.2 else 2  # three: one is missing, so the pool is incomplete
            return [
                _slice(f"{node}-gpu-{'zab'[i]}", GPU, node, half, nodeName=node, count=count)
                for i, half in enumerate(halves)
            ]
        return [_slice(f"{node}-gpu", GPU, node, devices, nodeName=node)]

    def _gpu(self, index: int) -> Json:
        rng = self._rng
        attributes: Json = {
            "model": {"string": rng.choice(("A100", "H100", "L4"))},
            "index": {"int": index},
            "driverVersion": {"version": rng.choice(("1.2.3", "1.10.0", "2.0.0-beta.1", "2.0.0"))},
        }
        if rng.random() < 0.8:
            attributes["numa"] = {"int": rng.randrange(2)}
        if rng.random() < 0.7:
            attributes["ecc"] = {"bool": rng.random() < 0.5}
        if rng.random() < 0.6:
            attributes["resource.kubernetes.io/pcieRoot"] = {"string": rng.choice(("pci0000:00", "pci0000:80"))}
        device: Json = {"name": f"gpu-{index}", "attributes": attributes}
        device["capacity"] = {"memory": {"value": rng.choice(("24Gi", "40Gi", "80Gi"))}}
        if rng.random() < 0.2:
            device["taints"] = [rng.choice(TAINTS)]
        return device

    def _nics(self, count: int) -> list[Json]:
        found = []
        for i in range(count):
            device: Json = {"name": f"nic-{i}"}
            if self._rng.random() < 0.6:
                root = self._rng.choice(("pci0000:00", "pci0000:80"))
                device["attributes"] = {"resource.kubernetes.io/pcieRoot": {"string": root}}
            found.append(device)
        if self._rng.random() < 0.25:
            conditions = {"bindsToNode": self._rng.random() < 0.5, "bindingConditions": [READY]}
            found[-1] |= {**conditions, "bindingFailureConditions": [FAILED]}
        return found

    def _partitions(self, node: str) -> list[Json]:
        counters = {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}
        counter_slice = _slice(f"{node}-part-counters", PART, node, [], nodeName=node, count=2)
        counter_slice["spec"]["sharedCounters"] = [{"name": "card", "counters": counters}]
        devices = []
        for name, memory, share, copies in (
            ("full", "80Gi", "7", 1),
            ("half", "40Gi", "3", 2),
            ("small", "10Gi", "1", 4),
        ):
            for i in range(copies):
                used = {"memory": {"value": memory}, "slices": {"value": share}}
                device: Json = {"name": f"{name}-{i}", "attributes": {"shape": {"string": name}}}
                device["consumesCounters"] = [{"counterSet": "card", "counters": used}]
                if self._rng.random() < 0.1:
                    device["taints"] = [TAINTS[0]]
                devices.append(device)
        self._rng.shuffle(devices)
        return [counter_slice, _slice(f"{node}-part", PART, node, devices, nodeName=node, count=2)]

    def _shareable(self) -> list[Json]:
        found = []
        for i in range(self._rng.randrange(1, 3)):
            policies: list[Json] = [
                {},
                {"requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "8Gi"}}},
                {"requestPolicy": {"default": "2Gi", "validValues": ["2Gi", "4Gi", "8Gi"]}},
            ]
            capacity = {"memory": {"value": "10Gi", **self._rng.choice(policies)}}
            found.append({"name": f"shared-{i}", "allowMultipleAllocations": True, "capacity": capacity})
        return found

    # --- pods -------------------------------------------------------------------------------------------------------

    def incoming(self, number: int) -> IncomingPod:
        """Return the next pod to be decided."""
        rng, name = self._rng, f"p-{number:03}"
        pod: Json = {
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": rng.choice("xyz")}},
            "spec": {"schedulerName": SCHEDULER, "containers": [self._container("main")]},
        }
        if rng.random() < 0.15:
            pod["spec"]["nodeSelector"] = {"zone": rng.choice("ab")}
        if self._extended and rng.random() < 0.25:
            self._request_extended(pod)
            if rng.random() < 0.7:
                return IncomingPod(pod)
        found = IncomingPod(pod)
        entries = pod["spec"]["resourceClaims"] = []
        for i in range(rng.choice((1, 1, 1, 2))):
            entry, claim = {"name": f"c{i}"}, f"{name}-c{i}"
            others = [each for each in self._shared if not each.startswith(name)]  # no pod names one claim twice
            if others and rng.random() < 0.12:
                entry["resourceClaimName"] = rng.choice(others)
            elif rng.random() < 0.2:
                entry["resourceClaimTemplateName"] = "made-by-hand"
                found.generated[entry["name"]] = self._claim(claim)
            else:
                entry["resourceClaimName"] = claim
                found.claims.append(self._claim(claim))
                if rng.random() < 0.3:
                    self._shared.append(claim)
            entries.append(entry)
        return found

    def _container(self, name: str) -> Json:
        return {"name": name, "image": "x", "resources": {"requests": {"cpu": self._rng.choice(("100m", "1"))}}}

    def _request_extended(self, pod: Json) -> None:
        rng, spec = self._rng, pod["spec"]
        resource = rng.choice([*RESOURCES.values(), IMPLICIT + "gpu", IMPLICIT + "shared"])
        if rng.random() < 0.3:
            spec["containers"].append(self._container("side"))
        if rng.random() < 0.3:
            spec["initContainers"] = [self._container("init")]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            if container["name"] == "main" or rng.random() < 0.7:
                amount = {resource: str(rng.randrange(1, 3))}
                container["resources"]["requests"] |= amount
                container["resources"]["limits"] = amount

    def _claim(self, name: str) -> Json:
        rng = self._rng
        kind = rng.choice(("plain", "plain", "several", "constraint", "prioritized", "part", "shared", "all", "admin"))
        devices: Json = {"requests": self._requests(kind)}
        if kind == "constraint":
            attribute = rng.choice((f"{GPU}/model", f"{GPU}/numa", "resource.kubernetes.io/pcieRoot", f"{GPU}/index"))
            devices["constraints"] = [
                {rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): attribute}
            ]
        if rng.random() < 0.2:
            devices["config"] = [{"opaque": {"driver": GPU, "parameters": {"claim": name}}}]
        return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"devices": devices}}

    def _requests(self, kind: str) -> list[Json]:
        rng = self._rng
        if kind == "several":
            return [{"name": "a", "exactly": self._exact("gpu")}, {"name": "b", "exactly": self._exact("nic")}]
        if kind == "constraint":
            return [
                {"name": "a", "exactly": {"deviceClassName": "gpu", "count": rng.randrange(1, 4)}},
                {"name": "b", "exactly": {"deviceClassName": rng.choice(("gpu", "nic"))}},
            ]
        if kind == "prioritized":
            subs = [{"name": f"s{i}", **self._exact(rng.choice(("gpu", "part")))} for i in range(rng.randrange(2, 5))]
            return [{"name": "a", "firstAvailable": subs}]
        if kind == "part":
            shape = rng.choice(("full", "half", "small"))
            wanted = {"deviceClassName": "part", "count": rng.randrange(1, 3)}
            expression = f'device.attributes["{PART}"].shape == "{shape}"'
            return [{"name": "a", "exactly": {**wanted, "selectors": [{"cel": {"expression": expression}}]}}]
        if kind == "shared":
            wanted = {"deviceClassName": "shared", "count": 1}
            if rng.random() < 0.8:
                wanted["capacity"] = {"requests": {"memory": rng.choice(("1Gi", "1500Mi", "3Gi", "5Gi", "9Gi"))}}
            return [{"name": r, "exactly": wanted} for r in rng.choice(("a", "ab"))]
        if kind == "all":
            wanted = {**self._exact("gpu"), "allocationMode": "All"}
            wanted.pop("count", None)
            return [{"name": "a", "exactly": wanted}]
        if kind == "admin":
            return [{"name": "a", "exactly": {**self._exact("gpu"), "adminAccess": True}}]
        return [{"name": "a", "exactly": self._exact(rng.choice(("gpu", "gpu", "gpu", "nic", "any", "missing")))}]

    def _exact(self, device_class: str) -> Json:
        rng = self._rng
        found: Json = {"deviceClassName": device_class, "count": rng.choice((1, 1, 1, 2, 3))}
        if device_class == "gpu" and rng.random() < 0.6:
            expressions = rng.sample(SELECTORS, rng.choice((1, 1, 2)))
            if rng.random() < 0.04:
                expressions = [rng.choice(CAN_FAIL)]
            found["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
        if rng.random() < 0.25:
            taint = rng.choice(TAINTS)
            operator = rng.choice(("Exists", "Equal"))
            toleration = {"key": taint["key"], "operator": operator, "effect": taint["effect"]}
            if operator == "Equal":
                toleration["value"] = taint.get("value", "")
            if taint["effect"] != "None":
                found["tolerations"] = [toleration]
        return found

    def chance(self, share: float) -> bool:
        """Return True with a probability."""
        return self._rng.random() < share

    def draw(self, below: int) -> int:
        """Return a number from 0 up to `below`, without it."""
        return self._rng.randrange(below)

    def configuration(self) -> Json:
        """Return the default profile; in some clusters extended resources are scored."""
        arguments: list[Json] = [{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}]
        if self._extended and self._rng.random() < 0.5:
            resources = [{"name": "cpu", "weight": 1}, {"name": RESOURCES["gpu"], "weight": 3}]
            strategy = {"type": self._rng.choice(("LeastAllocated", "MostAllocated")), "resources": resources}
            arguments.append({"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}})
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": SCHEDULER, "pluginConfig": arguments}],
        }


def _slice(name: str, driver: str, pool: str, devices: list[Json], *, count: int = 1, **spec: Any) -> Json:
    of = {"name": pool, "generation": 1, "resourceSliceCount": count}
    made = {"driver": driver, "pool": of, **spec}
    return {"metadata": {"name": name}, "spec": {**made, "devices": devices} if devices else made}
