"""Workloads as data, with the names, shapes and sizes of kube-scheduler's scheduler_perf (v1.36), and one more.

Owns: which nodes, pods, devices and claims a family has. Does not own: the manifests' shapes (`manifests`), running
them (`algorithm`, `control_plane`). Invariant: a workload of a size has the same objects in every run.

There are two differences from scheduler_perf, in all benchmarks. Pods that it schedules before the measurement are
already bound, one node after another. The measured pods exist before the scheduler starts, so that no client is
measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bench import manifests
from bench.manifests import DEFAULT_REQUESTS, DEVICE_CLASS, HOST, PRIORITY, TEST_DRIVER, URGENT, ZONE

Json = dict[str, Any]

_DRA: Final = f"/apis/{manifests.DRA}"
MEASURED: Final = "sched-1"
BEFORE: Final = "sched-0"
BOTH: Final = {"namespaces": [MEASURED, BEFORE]}
DEVOPS: Final = {"team": "devops"}
EXTENDED_RESOURCE: Final = "example.com/device"
CLAIM_NAME: Final = "resource"  # of the pod's spec, and of the container


@dataclass(frozen=True)
class Size:
    """The numbers of nodes, of earlier pods per group, and of measured pods.

    `few`: the number of nodes is part of the family and does not scale.
    """

    nodes: int
    before: int
    pods: int
    few: bool = False

    def scaled(self, nodes: int | None, pods: int | None) -> Size:
        """Return a copy with these numbers of nodes and pods; None keeps the number.

        The number of earlier pods changes in proportion to the nodes. If `few` is set, the number of nodes stays.
        """
        node_count = self.nodes if nodes is None or self.few else nodes
        before = -(-self.before * node_count // self.nodes)
        return Size(node_count, before, self.pods if pods is None else pods, self.few)


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
        """Return the claim of the i-th pod, or None if pods request the devices by an extended resource."""
        if not self.claims:
            return None
        requests = self.claims[i % len(self.claims)]
        return manifests.resource_claim(name, namespace, requests)

    def add_to(self, pod: Json, i: int) -> None:
        """Change the manifest of the i-th pod so that it requests devices.

        It names the claim that a template creates for it, or requests the extended resource if there are no claims.
        """
        if not self.claims:
            resources = pod["spec"]["containers"][0]["resources"]
            for kind in ("requests", "limits"):
                resources[kind] = {**resources[kind], EXTENDED_RESOURCE: "1"}
            return
        template = f"test-claim-template-{i % len(self.claims)}"
        pod["spec"]["resourceClaims"] = [{"name": CLAIM_NAME, "resourceClaimTemplateName": template}]
        name = pod["metadata"]["name"]
        pod["status"] = {"resourceClaimStatuses": [{"name": CLAIM_NAME, "resourceClaimName": name}]}


@dataclass(frozen=True)
class PodShape:
    """A template of equal pods. `claim`: each pod has its own bound CSI volume; `devices`: what it requests of them."""

    name: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=lambda: DEFAULT_REQUESTS)
    claim: bool = False
    devices: Devices | None = None

    def pod(self, i: int, namespace: str) -> Json:
        """Return the i-th pod of the template."""
        name = f"{self.name}-{i}"
        volumes = manifests.claim_volume(name) if self.claim else {}
        made = manifests.pod(name, namespace, self.labels, self.requests, {**self.spec, **volumes})
        if self.devices is not None:
            self.devices.add_to(made, i)
        return made


@dataclass(frozen=True)
class InitialPods:
    """Pods that exist before the measurement, bound to the nodes in turn or pending, in `namespaces` namespaces.

    `per_node`: how many pods there are for each node; if it is 0, the size says how many pods there are in all.
    """

    template: PodShape
    bound: bool = True
    namespaces: int = 1
    per_node: int = 0

    def count(self, size: Size) -> int:
        """Return how many of these pods a workload of this size has."""
        return self.per_node * size.nodes or size.before

    def namespace(self, i: int) -> str:
        """Return the name of the i-th pod's namespace."""
        return BEFORE if self.namespaces == 1 else f"init-{i % self.namespaces}"


@dataclass(frozen=True)
class Churn:
    """The load during the measurement: a pod every `every_s` seconds; with `replaced` it replaces the last one.

    A node and a service are then replaced with it.
    """

    every_s: float
    template: PodShape
    replaced: bool = False


@dataclass(frozen=True)
class Workload:
    """A family of workloads. `zones`: the nodes' zone labels, in turn. `node_pods`: the pod limit of a node."""

    name: str
    full: Size
    short: Size
    measured: PodShape
    before: tuple[InitialPods, ...] = ()
    zones: tuple[str, ...] = ()
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    node_pods: int = 110
    churn: Churn | None = None

    def with_filling(self, per_node: int) -> Workload:
        """Return a copy with `per_node` more bound pods on each node, which request nothing."""
        return replace(self, before=(*self.before, InitialPods(FILLING, per_node=per_node))) if per_node else self

    def pods(self, size: Size) -> Iterator[Json]:
        """Yield the measured pods."""
        return (self.measured.pod(i, MEASURED) for i in range(size.pods))

    def pods_before(self, size: Size) -> Iterator[Json]:
        """Yield the pods that exist before the measurement; bound ones are on the nodes in turn."""
        for group in self.before:
            for i in range(group.count(size)):
                pod = group.template.pod(i, group.namespace(i))
                if group.bound:
                    pod["spec"]["nodeName"] = f"node-{i % size.nodes:05}"
                yield pod

    def nodes(self, size: Size) -> Iterator[Json]:
        """Yield the manifests of the nodes."""
        return (manifests.node(i, self.zones, self.node_pods) for i in range(size.nodes))

    def others(self, size: Size) -> Iterator[tuple[str, Json]]:
        """Yield every other object, which must exist before the pods, with the path to create it at."""
        names = {MEASURED, BEFORE} | {f"init-{i}" for group in self.before for i in range(group.namespaces)}
        for name in sorted(names):
            yield "/api/v1/namespaces", manifests.namespace(name, self.namespace_labels)
        yield "/apis/scheduling.k8s.io/v1/priorityclasses", manifests.priority_class()
        if self.measured.claim:
            for i in range(size.nodes):
                yield "/apis/storage.k8s.io/v1/csinodes", manifests.csi_node(i)
        claims = [(self.measured, MEASURED, i) for i in range(size.pods)]
        claims += [(group.template, group.namespace(i), i) for group in self.before for i in range(group.count(size))]
        for template, namespace, i in claims:
            if template.claim:
                yield from manifests.bound_claim(f"{template.name}-{i}", namespace)
            made = template.devices.claim(i, f"{template.name}-{i}", namespace) if template.devices else None
            if made is not None:
                yield f"{_DRA}/namespaces/{namespace}/resourceclaims", made
        if self.measured.devices is not None:
            backed = "" if self.measured.devices.claims else EXTENDED_RESOURCE
            yield f"{_DRA}/deviceclasses", manifests.device_class(backed)
            for i in range(size.nodes):
                for each in self.measured.devices.slices(i):
                    yield f"{_DRA}/resourceslices", each


def exactly(count: int = 1, *expressions: str) -> Json:
    """Return a request for `count` devices of the test class that meet these CEL expressions."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exact = {"deviceClassName": DEVICE_CLASS, "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    return {"name": "request", "exactly": exact}


def first_available(*counts: int) -> Json:
    """Return a request for one of these numbers of devices: the first one that a node has free."""
    subs = [{"name": f"count-{n}", "deviceClassName": DEVICE_CLASS, "count": n} for n in counts]
    return {"name": "request", "firstAvailable": subs}


_SELECTOR: Final = f'device.attributes["{TEST_DRIVER}"].index >= 0 && device.attributes["{TEST_DRIVER}"].model == "a"'
_BY_COUNT: Final = tuple((exactly(count, _SELECTOR),) for count in (1, 2, 4, 8))
_BLUE, _GREEN, _RED, _YELLOW = ({"color": color} for color in ("blue", "green", "red", "yellow"))
_URGENT: Final = {"priorityClassName": URGENT, "priority": PRIORITY}
_MOON: Final = ("moon-1", "moon-2", "moon-3")
_LARGE_NODE: Final = 90_000  # node-with-name: the pod limit of the one node that gets all pods

DEFAULT = PodShape("pod")
AFFINITY = PodShape("affinity", manifests.pod_affinity("podAffinity", ZONE, _BLUE, required=True, **BOTH), _BLUE)
ANTI_AFFINITY = PodShape(
    "anti-affinity", manifests.pod_affinity("podAntiAffinity", HOST, _GREEN, required=True, **BOTH), _GREEN
)
PREFERRED_AFFINITY = PodShape(
    "preferred-affinity", manifests.pod_affinity("podAffinity", HOST, _RED, required=False, **BOTH), _RED
)
PREFERRED_ANTI_AFFINITY = PodShape(
    "preferred-anti-affinity", manifests.pod_affinity("podAntiAffinity", HOST, _YELLOW, required=False, **BOTH), _YELLOW
)
BY_NAMESPACE_LABEL = PodShape(
    "anti-affinity-ns",
    manifests.pod_affinity("podAntiAffinity", HOST, _GREEN, required=True, namespaceSelector={"matchLabels": DEVOPS}),
    _GREEN,
)
NODE_AFFINITY = PodShape("node-affinity", manifests.node_affinity(key=ZONE, values=["zone1", "zone2"]))
DAEMON = PodShape("daemon", manifests.node_affinity(field="metadata.name", values=["node-00000"]), requests={})
HARD_SPREAD = PodShape("hard-spread", manifests.spread("DoNotSchedule", _BLUE), _BLUE)
SOFT_SPREAD = PodShape("soft-spread", manifests.spread("ScheduleAnyway", _BLUE), _BLUE)
SECRET = PodShape("secret", {"volumes": [{"name": "secret", "secret": {"secretName": "secret"}}]})
CLAIM = PodShape("claim", claim=True)
LOW = PodShape("low", requests={"cpu": "900m", "memory": "500Mi"})
HIGH = PodShape("high", _URGENT, requests={"cpu": "3000m", "memory": "500Mi"})
TOO_LARGE = PodShape("too-large", _URGENT, requests={"cpu": "9", "memory": "500Mi"})
FILLING = PodShape("filling", labels={"app": "filling"}, requests={})
LABELLED = PodShape("labelled", labels={"app": "scheduler-perf"}, requests={})
GATED = PodShape(
    "gated",
    {
        **manifests.pod_affinity("podAffinity", HOST, {"app": "scheduler-perf"}, required=True),
        "schedulingGates": [{"name": "scheduling-gate-1"}],
    },
    {"app": "scheduler-perf"},
    requests={},
)

_TEN: Final = {  # what scheduler_perf's families request of ten devices on each node
    "claim-template": Devices(10, ((exactly(),),)),
    "first-available": Devices(10, ((first_available(5, 1),),)),
    "partitionable": Devices(10, ((exactly(),),), partitions=True),
    "extended": Devices(10),
    "alike": Devices(8, _BY_COUNT),
    "differ": Devices(8, _BY_COUNT, differ=True),
}
_DEVICES: Final = {name: PodShape(name, devices=devices) for name, devices in _TEN.items()}

_SHORT: Final = Size(200, 200, 50)
_MANY: Final = Size(5000, 5000, 5000)


def _family(name: str, full: Size, short: Size, measured: PodShape, *before: PodShape, **more: Any) -> Workload:
    """Return a workload with an equal number of pods of each shape in `before` on its nodes."""
    return Workload(name, full, short, measured, tuple(map(InitialPods, before)), **more)


WORKLOADS: Final[tuple[Workload, ...]] = (
    _family("SchedulingBasic", Size(5000, 1000, 10_000), _SHORT, DEFAULT, DEFAULT),
    _family("SchedulingPodAntiAffinity", Size(5000, 1000, 2000), Size(200, 40, 50), ANTI_AFFINITY, ANTI_AFFINITY),
    _family("SchedulingPodAffinity", _MANY, _SHORT, AFFINITY, AFFINITY, zones=("zone1",)),
    _family("SchedulingPreferredPodAffinity", _MANY, _SHORT, PREFERRED_AFFINITY, PREFERRED_AFFINITY),
    _family("SchedulingPreferredPodAntiAffinity", _MANY, _SHORT, PREFERRED_ANTI_AFFINITY, PREFERRED_ANTI_AFFINITY),
    _family("SchedulingNodeAffinity", Size(5000, 5000, 10_000), _SHORT, NODE_AFFINITY, NODE_AFFINITY, zones=("zone1",)),
    _family("TopologySpreading", _MANY, _SHORT, HARD_SPREAD, DEFAULT, zones=_MOON),
    _family("PreferredTopologySpreading", _MANY, _SHORT, SOFT_SPREAD, DEFAULT, zones=_MOON),
    _family(
        *("MixedSchedulingBasePod", Size(5000, 2000, 5000), Size(200, 80, 50), DEFAULT),
        *(DEFAULT, AFFINITY, ANTI_AFFINITY, PREFERRED_AFFINITY, PREFERRED_ANTI_AFFINITY),
        zones=("zone1",),
    ),
    Workload(
        "SchedulingRequiredPodAntiAffinityWithNSSelector",
        Size(6000, 4000, 2000),
        Size(200, 100, 50),
        BY_NAMESPACE_LABEL,
        (InitialPods(BY_NAMESPACE_LABEL, namespaces=100),),
        namespace_labels=DEVOPS,
    ),
    _family("PreemptionBasic", Size(1000, 4000, 1000), Size(50, 200, 20), HIGH, LOW),
    _family("PreemptionAsync", Size(5000, 20_000, 5000), Size(50, 200, 20), DEFAULT, LOW, churn=Churn(0.2, HIGH)),
    _family("Unschedulable", Size(5000, 100, 10_000), Size(200, 10, 50), DEFAULT, DEFAULT, churn=Churn(0.2, TOO_LARGE)),
    _family(
        *("SchedulingWithMixedChurn", Size(5000, 0, 10_000), Size(200, 0, 50), DEFAULT),
        churn=Churn(1.0, TOO_LARGE, replaced=True),
    ),
    _family("SchedulingDaemonset", Size(15_000, 0, 30_000), Size(200, 0, 50), DAEMON, node_pods=_LARGE_NODE),
    _family("SchedulingCSIPVs", _MANY, _SHORT, CLAIM, CLAIM),
    _family("SchedulingSecrets", Size(5000, 1000, 10_000), _SHORT, SECRET, SECRET),
    Workload(
        "SchedulingGatedPodsWithPodAffinityImpactForThroughput",
        Size(1, 10_000, 20_000, few=True),
        Size(1, 50, 50, few=True),
        LABELLED,
        (InitialPods(GATED, bound=False),),
        node_pods=_LARGE_NODE,
    ),
    # Pods with claims. Those that scheduler_perf creates before the measurement are left out, as no claim of a pod that
    # is bound already is allocated here.
    *(
        _family(name, Size(500, 0, 2500), Size(20, 0, 20), _DEVICES[shape])
        for name, shape in (
            ("SchedulingWithResourceClaimTemplate", "claim-template"),
            ("SchedulingWithResourceClaimTemplateFirstAvailable", "first-available"),
            ("SchedulingWithResourceClaimTemplatePartitionable", "partitionable"),
            ("SchedulingWithExtendedResource", "extended"),
        )
    ),
    # Not in scheduler_perf: claims for 1, 2, 4 and 8 devices in turn, with a selector.
    _family("DevicesAlike", Size(1000, 0, 1000), Size(20, 0, 20), _DEVICES["alike"]),
    _family("DevicesDiffer", Size(1000, 0, 1000), Size(20, 0, 20), _DEVICES["differ"]),
    # Not in scheduler_perf: the time to the first binding in a cluster with many objects.
    _family("ColdStart", Size(5000, 50_000, 100), Size(200, 2000, 20), DEFAULT, DEFAULT),
)

BY_NAME: Final = {workload.name: workload for workload in WORKLOADS}


def add_arguments(parser: argparse.ArgumentParser, default: Sequence[str] = ()) -> None:
    """Declare the arguments that select workloads and their size; `default` names those that are measured."""
    nodes = "pods that are there before follow; default, and always of a family of one node: the workload's own"
    parser.add_argument("--nodes", type=int, help=nodes)
    parser.add_argument("--pods", type=int, help="measured in a round; default: the workload's own")
    parser.add_argument("--rounds", type=int, default=3, help="of each contender, in turn")
    parser.add_argument("--short", action="store_true", help="the workloads' short sizes")
    names = f"default: {', '.join(default) or 'all'}; known: {', '.join(BY_NAME)}"
    parser.add_argument("workloads", nargs="*", default=default, metavar="WORKLOAD", help=names)


def select(arguments: argparse.Namespace) -> list[tuple[Workload, Size]]:
    """Return the workloads of a command line, each with its size. Raises SystemExit for an unknown name."""
    unknown = set(arguments.workloads) - BY_NAME.keys()
    if unknown:
        raise SystemExit(f"error: unknown workload {', '.join(sorted(unknown))}; known: {', '.join(BY_NAME)}")
    selected = [w for w in WORKLOADS if not arguments.workloads or w.name in arguments.workloads]
    return [(w, (w.short if arguments.short else w.full).scaled(arguments.nodes, arguments.pods)) for w in selected]
