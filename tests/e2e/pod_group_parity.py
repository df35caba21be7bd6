"""Random pod groups, decided by Herodotus and by kube-scheduler on the same cluster, one after the other.

Owns: the cluster of a seed, its groups, and how the two results of a group are read. Does not own: the processes.
A preferred node affinity ranks the nodes and outweighs all other scores, so that no tie is left to chance. Each member
has another priority, since members of equal priority are tried in an order that kube-scheduler does not define.

With `whole`, groups may have a topology constraint, preempt as a whole and be evicted as a whole, and pods may need
devices. Running pods then have different priorities, so that the choice of victims has no ties either.

Invariant: both schedulers see the same pods on the nodes; what Herodotus placed is deleted before the group is created
again for kube-scheduler.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Any, Final, NamedTuple

from tests.e2e.cluster import SCHEDULER, Cluster
from tests.processes import eventually

Json = dict[str, Any]

OURS, THEIRS = SCHEDULER, "kube-scheduler-groups"
# Nothing changes for so long after the evictions and further attempts of a group that may preempt: a member that waits
# is tried again after a backoff of at most 10 s, which kube-scheduler skips for groups.
SETTLE_S: Final = 4.0
WAITING_SETTLE_S: Final = 11.0
SEEN_S: Final = 1.0  # until a scheduler has seen changes of pods, which come by another watch than groups
GATES: Final = {"GenericWorkload": True, "GangScheduling": True}
WHOLE_GATES: Final = {**GATES, "TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": True}
PRIORITIES: Final = 12  # classes, one for each member of a group
RUNNING: Final = 24  # classes, one for each pod that runs already, with `whole`
GROUP_PRIORITY: Final = "groups-high-12"
DRA: Final = "/apis/resource.k8s.io/v1"
SERVED: Final = "--runtime-config=scheduling.k8s.io/v1alpha2=true"  # a flag of kube-apiserver
GROUPS: Final = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"


class GroupResult(NamedTuple):
    """What became of a group: its condition, and for each member its node and the message of its first failure.

    Of a group that may preempt only whether a member is bound: which of two equal nodes is preempted is left to chance.
    `evicted` names the pods that are gone, with `whole`, where chance does not choose them. `domain` is that of the
    members on nodes if the group has a constraint, and `domains` the number of domains.
    """

    condition: tuple[str, str, str]
    members: dict[str, tuple[str, str]]
    evicted: frozenset[str] = frozenset()
    domain: str = ""
    domains: int = 0

    def agrees(self, theirs: GroupResult) -> bool:
        """Return whether kube-scheduler has this result.

        It may set the condition of a group whose other pods do not fit back to False, if it has not seen its own True.
        """
        in_part = len({bool(node) for node, _ in self.members.values()}) > 1
        scheduled = ("True", "Scheduled", "")
        same_condition = self.condition == (scheduled if in_part else theirs.condition)
        if not same_condition or self.evicted != theirs.evicted:
            return False
        if self.domain != theirs.domain:  # chance chooses between domains in which as many members fit
            return bool(self.domain and theirs.domain) and len(self._bound()) == len(theirs._bound())
        if self.domains > 1 and not self.domain:  # chance chooses the domain that messages are about
            return self._bound() == theirs._bound()
        return self.members == theirs.members

    def _bound(self) -> dict[str, str]:
        return {name: node for name, (node, _) in self.members.items() if node}


def configuration(name: str) -> Json:
    """Return a configuration with one profile in which the rank of a node decides."""
    plugins = {"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 1000}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name, "plugins": plugins}],
    }


class GroupParity:
    """The cluster of one seed, and its groups."""

    def __init__(self, api: Cluster, seed: int, *, whole: bool = False) -> None:
        """Create namespace, priority classes, nodes and pods that run already."""
        self._api = api
        self._whole = whole
        self._running_pods = 0
        self._zones: dict[str, str] = {}  # by node
        self._rng = random.Random(seed)
        self.namespace = f"groups-{seed}-{uuid.uuid4().hex[:6]}"  # also if the test is repeated
        self._pods = f"/api/v1/namespaces/{self.namespace}/pods"
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self._nodes = [f"{self.namespace}-n{i}" for i in range(self._rng.randrange(5, 11))]
        for i, name in enumerate(self._nodes):
            api.create("/api/v1/nodes", self._node(name, i))
        for i, name in enumerate(self._nodes):
            for j in range(self._rng.randrange(3)):
                api.create(self._pods, self._running(f"low-{i}-{j}", name))
        if whole:
            self._create_devices()

    def compare(self, number: int) -> tuple[GroupResult, GroupResult]:
        """Decide one random group with both schedulers and return the results, ours first. What theirs placed stays."""
        size = self._rng.randrange(2, 8)
        min_count = self._rng.randrange(1, size + 1) if self._rng.random() < 0.4 else size
        high = self._rng.random() < 0.4
        apart = self._rng.random() < 0.25
        members = [self._member(i, high=high, apart=apart) for i in range(size)]
        spec: Json = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
        if self._whole:
            spec |= self._whole_group(members, high=high)
        before = [pod for pod in self._api.items(self._pods) if pod["spec"].get("nodeName")]
        ours = self._decide(f"g{number}-ours", OURS, spec, members, preempts=high)
        self._restore(f"g{number}-ours", before)
        theirs = self._decide(f"g{number}-theirs", THEIRS, spec, members, preempts=high)
        self._delete_waiting(f"g{number}-theirs")
        return ours, theirs

    def close(self) -> None:
        """Delete everything of the seed."""
        for path in (self._pods, GROUPS.format(self.namespace)):
            self._api.delete_all(path)
        for name in self._nodes:
            self._api.delete(f"/api/v1/nodes/{name}")
        if self._whole:
            self._delete_claims("")
            for name in self._nodes:
                self._api.delete(f"{DRA}/resourceslices/{name}")
            self._api.delete(f"{DRA}/deviceclasses/{self.namespace}")

    # --- one group --------------------------------------------------------------------------------------------------

    def _decide(
        self, group: str, scheduler: str, group_spec: Json, members: list[Json], *, preempts: bool
    ) -> GroupResult:
        """Create the members and then the group, so that all enter the queue at once; wait for the result."""
        before = {pod["metadata"]["name"] for pod in self._api.items(self._pods)}
        for i, spec in enumerate(members):
            if "resourceClaims" in spec:
                spec = {**spec, "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{group}-m{i}"}]}
                self._api.create(f"{DRA}/namespaces/{self.namespace}/resourceclaims", self._claim(f"{group}-m{i}"))
            body = {
                "metadata": {"name": f"{group}-m{i}", "labels": {"group": group.split("-")[0]}},
                "spec": {**spec, "schedulerName": scheduler, "schedulingGroup": {"podGroupName": group}},
            }
            self._api.create(self._pods, body)
        time.sleep(SEEN_S)
        self._api.create(GROUPS.format(self.namespace), {"metadata": {"name": group}, "spec": group_spec})
        condition = eventually(lambda: find_condition(self._api, self.namespace, group), f"{group} to be decided", 60)
        if preempts:
            self._settle(group)
            condition = find_condition(self._api, self.namespace, group) or condition
        results = eventually(lambda: self._results(group), f"the members of {group}", 60)
        result = self._locate(GroupResult(condition, results), group_spec)
        if preempts and not result.domains:
            results = {name: ("bound" if node else "", "") for name, (node, _) in results.items()}
            left = {pod["metadata"]["name"] for pod in self._api.items(self._pods)}
            evicted = frozenset(before - left) if self._whole else frozenset()
            result = result._replace(members=results, evicted=evicted)
        return result

    def _settle(self, group: str) -> None:
        """Wait until further attempts and evictions change nothing any more."""
        seen, changed_s = dict[str, str](), time.monotonic()
        while True:
            nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self._api.items(self._pods)}
            if nodes != seen:
                seen, changed_s = nodes, time.monotonic()
            waits = any(name.startswith(f"{group}-") and not node for name, node in nodes.items())
            if time.monotonic() - changed_s > (WAITING_SETTLE_S if waits else SETTLE_S):
                return
            time.sleep(0.2)

    def _locate(self, result: GroupResult, group_spec: Json) -> GroupResult:
        """Return the result with the domain of its members on nodes. They must be in one, if the group demands it."""
        if "schedulingConstraints" not in group_spec:
            return result
        found = {self._zones[node] for node, _ in result.members.values() if node}
        assert len(found) <= 1, result
        return result._replace(domain="".join(found), domains=len(set(self._zones.values())))

    def _results(self, group: str) -> dict[str, tuple[str, str]] | None:
        """Return each member's node, and the note of its first FailedScheduling event; None while one has neither."""
        notes, found = find_first_failures(self._api, self.namespace), dict[str, tuple[str, str]]()
        for pod in self._api.items(self._pods):
            name = pod["metadata"]["name"]
            if name.startswith(f"{group}-"):
                result = pod["spec"].get("nodeName", ""), notes.get(name, "")
                if result == ("", ""):
                    return None
                found[name.removeprefix(f"{group}-")] = result
        return found

    def _restore(self, group: str, before: list[Json]) -> None:
        """Delete a group with its pods, and create the pods again that it preempted."""
        self._api.delete(f"{GROUPS.format(self.namespace)}/{group}")
        names = [p["metadata"]["name"] for p in self._api.items(self._pods)]
        for name in names:
            if name.startswith(f"{group}-"):
                self._api.delete(f"{self._pods}/{name}")
        self._delete_claims(f"{group}-")
        for pod in before:
            if pod["metadata"]["name"] not in names:
                metadata = {key: pod["metadata"].get(key) for key in ("name", "labels")}
                self._api.create(self._pods, {"metadata": metadata, "spec": pod["spec"]})

    def _delete_waiting(self, group: str) -> None:
        """Delete the members that wait, which would take room or preempt while the next group is decided."""
        for pod in self._api.items(self._pods):
            if pod["metadata"]["name"].startswith(f"{group}-") and not pod["spec"].get("nodeName"):
                self._api.delete(f"{self._pods}/{pod['metadata']['name']}")

    # --- manifests --------------------------------------------------------------------------------------------------

    def _node(self, name: str, rank: int) -> Json:
        rng = self._rng
        amounts = {"cpu": str(rng.randrange(2, 7)), "memory": "32Gi", "pods": "20"}
        taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
        self._zones[name] = rng.choice("abc")
        labels = {"kubernetes.io/hostname": name, "rank": str(rank), "zone": self._zones[name], "seed": self.namespace}
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": amounts, "capacity": amounts},
        }

    def _running(self, name: str, node: str) -> Json:
        spec = {**_containers("1"), "nodeName": node, "priorityClassName": "groups-lowest"}
        if self._whole:
            self._running_pods += 1
            spec["priorityClassName"] = f"groups-running-{self._running_pods}"
        return {"metadata": {"name": name}, "spec": {**spec, "terminationGracePeriodSeconds": 0}}

    def _member(self, i: int, *, high: bool, apart: bool) -> Json:
        """Return the spec of a member. `apart` keeps the members of a group on different nodes: all of them or none."""
        rng = self._rng
        spec: Json = _containers(rng.choice(("500m", "1", "1500m", "2", "3")))
        spec["priorityClassName"] = f"groups-{'high' if high else 'low'}-{PRIORITIES - i}"
        spec["terminationGracePeriodSeconds"] = 0
        spec["nodeSelector"] = {"seed": self.namespace}
        ranked = [
            {"weight": 10 * (j + 1), "preference": {"matchExpressions": [_expression("rank", str(j))]}}
            for j in range(len(self._nodes))
        ]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ranked}}
        kind = rng.random()
        selector = {"matchExpressions": [{"key": "group", "operator": "Exists"}]}
        if kind < 0.15:
            spec["nodeSelector"]["zone"] = rng.choice("abc")
        elif kind < 0.3:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
            ]
        if apart:
            term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"]["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if rng.random() < 0.3:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        return spec

    # --- with `whole` -----------------------------------------------------------------------------------------------

    def _whole_group(self, members: list[Json], *, high: bool) -> Json:
        """Return random fields of a group's spec; some of its members then need a device."""
        rng, spec = self._rng, dict[str, Any]()
        if rng.random() < 0.45:
            spec["schedulingConstraints"] = {"topology": [{"key": "zone"}]}
        spec["priorityClassName"] = GROUP_PRIORITY if high else "groups-lowest"
        if rng.random() < 0.5:
            spec["disruptionMode"] = "PodGroup"
        for member in members:
            if rng.random() < 0.25:
                member["resourceClaims"] = []
                member["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return spec

    def _create_devices(self) -> None:
        driver = f"{self.namespace}.example.com"
        selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
        body: Json = {"metadata": {"name": self.namespace}, "spec": {"selectors": [selector]}}
        self._api.create(f"{DRA}/deviceclasses", body)
        for name in self._nodes:
            devices = [{"name": f"gpu-{i}"} for i in range(self._rng.randrange(3))]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": driver, "pool": pool, "nodeName": name, "devices": devices}
            self._api.create(f"{DRA}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    def _claim(self, name: str) -> Json:
        request = {"name": "gpu", "exactly": {"deviceClassName": self.namespace}}
        return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}

    def _delete_claims(self, prefix: str) -> None:
        """Free and delete the claims whose names begin with `prefix`, as kube-controller-manager would."""
        path = f"{DRA}/namespaces/{self.namespace}/resourceclaims"
        for claim in self._api.items(path):
            name = claim["metadata"]["name"]
            if name.startswith(prefix):
                self._api.patch(f"{path}/{name}/status", {"status": {"allocation": None, "reservedFor": None}})
                self._api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})
                self._api.delete(f"{path}/{name}")


def create_priority_classes(api: Cluster) -> None:
    """Create the priority classes of all seeds: those of members, above and at the level of the running pods."""
    values = {f"groups-high-{i}": 1000 + i for i in range(PRIORITIES + 1)}
    values |= {f"groups-low-{i}": i - PRIORITIES - 1 for i in range(PRIORITIES + 1)}
    values |= {f"groups-running-{i}": 100 + i for i in range(RUNNING)}
    for name, value in {**values, "groups-lowest": 0}.items():
        policy = "PreemptLowerPriority" if name.startswith("groups-high") else "Never"
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
        api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)

    def is_known() -> bool:
        try:
            spec = {**_containers("1"), "priorityClassName": "groups-lowest"}
            api.create("/api/v1/namespaces/default/pods?dryRun=All", {"metadata": {"name": "p"}, "spec": spec})
        except AssertionError:
            return False
        return True

    eventually(is_known, "admission to know the priority classes")


def _containers(cpu: str) -> Json:
    requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    return {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": requests}]}


def _expression(key: str, value: str) -> Json:
    return {"key": key, "operator": "In", "values": [value]}


def find_condition(api: Cluster, namespace: str, group: str) -> tuple[str, str, str] | None:
    """Return status, reason and message of a PodGroup's condition PodGroupScheduled, or None before it is set."""
    status = api.get(f"{GROUPS.format(namespace)}/{group}").get("status") or {}
    found = [c for c in status.get("conditions") or () if c["type"] == "PodGroupScheduled"]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def find_first_failures(api: Cluster, namespace: str) -> dict[str, str]:
    """Return the note of the first FailedScheduling event of each pod that has one, by name."""
    notes: dict[str, str] = {}
    events = api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    for event in sorted(events, key=lambda e: e["eventTime"]):
        if event["reason"] == "FailedScheduling":
            notes.setdefault(event["regarding"]["name"], event["note"])
    return notes
