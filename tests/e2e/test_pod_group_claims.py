"""Pod groups with devices on a real API server, decided as kube-scheduler decides them.

Members have claims of their own and share claims, which are reserved for each pod or, with DRAWorkloadResourceClaims,
for the group. GROUP_CLAIM_SEEDS (`1-25`) makes the run longer.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.e2e.pod_group_parity import (
    GROUPS,
    OURS,
    PRIORITIES,
    SERVED,
    THEIRS,
    configuration,
    create_priority_classes,
    find_condition,
    find_first_failures,
)
from tests.e2e.real_cluster import run_api_server
from tests.e2e.real_scheduler import GateSettings, KubeScheduler, format_gates
from tests.processes import Process, eventually, free_port, python

Json = dict[str, Any]

GATES: Final = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}
DRA: Final = "/apis/resource.k8s.io/v1"
GROUPS_PER_SEED: Final = 4
SEEN_S: Final = 1.0  # until a scheduler has seen changes of pods and claims, which come by other watches than groups
# kube-scheduler's pods that share a new claim overwrite each other's reservation, and all but one are tried again
OVERWRITTEN: Final = 'running PreBind plugin "DynamicResources"'
RETRIES_S: Final = 30.0
OVERTAKEN: Final = "tried again after a member that had not fitted"


class Result(NamedTuple):
    """What was first decided about a group: its members with a node, or a message; and its claims.

    A claim is known by its devices and consumers.
    """

    condition: tuple[str, str, str]
    members: dict[str, str]
    claims: dict[str, tuple[list[str], list[str]]]


def seeds() -> list[int]:
    first, _, last = os.environ.get("GROUP_CLAIM_SEEDS", "1-2").partition("-")
    return list(range(int(first), int(last or first) + 1))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a control plane that serves pod groups with claims, and both schedulers, for this module."""
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip("NOT COMPARED WITH A REAL kube-scheduler: no kube-scheduler beside etcd and kube-apiserver")
    directory = tmp_path_factory.mktemp("claims")
    gates = f"--feature-gates={format_gates(GATES)}"
    with run_api_server(binaries, directory, gates, SERVED) as cluster:
        create_priority_classes(cluster)
        for name in ("local", "network"):
            cluster.create(f"{DRA}/deviceclasses", {"metadata": {"name": name}, "spec": _selects(name)})
        kubeconfig = cluster.kubeconfig
        theirs = KubeScheduler(
            binaries / "kube-scheduler", kubeconfig, configuration(THEIRS), directory, GateSettings(GATES)
        )
        config = directory / "herodotus.yaml"
        config.write_text(yaml.safe_dump({**configuration(OURS), "leaderElection": {"leaderElect": False}}))
        flags = {
            "--kubeconfig": kubeconfig,
            "--config": config,
            "--feature-gates": format_gates(GATES),
            "--spool": directory / "spool",
            "--secure-port": free_port(),
            "--bind-address": "127.0.0.1",
        }
        words = [str(word) for flag in flags.items() for word in flag]
        ours = Process("scheduler", [*python("scheduler", "run"), *words], directory / "herodotus.log")
        yield cluster
        ours.stop()
        theirs.stop()


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds())
def test_groups_with_devices_are_placed_as_by_kube_scheduler(real: Cluster, seed: int) -> None:
    devices = GroupsWithDevices(real, seed)
    try:
        results = [devices.compare(number) for number in range(GROUPS_PER_SEED)]
    finally:
        devices.close()
    placed = sum(node.startswith("node ") for ours, _ in results for node in ours.members.values())
    print(f"seed {seed}: {placed} of {sum(len(ours.members) for ours, _ in results)} members placed")
    assert [ours for ours, _ in results] == [theirs for _, theirs in results]


class GroupsWithDevices:
    """The cluster of one seed, and its groups. What kube-scheduler placed stays."""

    def __init__(self, api: Cluster, seed: int) -> None:
        """Create a namespace, nodes, and slices of devices of one node and of all nodes."""
        self._api, self._rng = api, random.Random(seed)
        self.namespace = f"claims-{seed}-{uuid.uuid4().hex[:6]}"
        self._pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self._claims = f"{DRA}/namespaces/{self.namespace}/resourceclaims"
        api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self._nodes = [f"{self.namespace}-n{i}" for i in range(self._rng.randrange(3, 7))]
        for rank, name in enumerate(self._nodes):
            amounts = {"cpu": str(self._rng.randrange(2, 7)), "memory": "32Gi", "pods": "20"}
            labels = {"kubernetes.io/hostname": name, "rank": str(rank), "seed": self.namespace}
            status = {"allocatable": amounts, "capacity": amounts}
            api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
            count = self._rng.randrange(4)
            if count:
                self._create_slice(name, "local", count, nodeName=name)
        self._create_slice(f"{self.namespace}-net", "network", self._rng.randrange(1, 4), allNodes=True)

    def _create_slice(self, pool: str, driver: str, count: int, **reach: Any) -> None:
        spec = {
            "driver": f"{driver}.example.com",
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{i}"} for i in range(count)],
            **reach,
        }
        self._api.create(f"{DRA}/resourceslices", {"metadata": {"name": f"{pool}-{driver}"}, "spec": spec})

    def compare(self, number: int) -> tuple[Result, Result]:
        """Decide one random group with both schedulers and return the results, ours first."""
        rng = self._rng
        size = rng.randrange(2, 6)
        min_count = rng.randrange(1, size + 1) if rng.random() < 0.4 else size
        shares, of_group = rng.random() < 0.6, rng.random() < 0.5
        members = [self._member(i, shares=shares) for i in range(size)]
        ours = self._decide(f"g{number}-ours", OURS, min_count, members, of_group=of_group)
        self._delete(f"g{number}-ours", bound=True)
        placed = {name for name, result in ours.members.items() if result.startswith("node ")}
        theirs = self._decide(f"g{number}-theirs", THEIRS, min_count, members, of_group=of_group, placed=placed)
        for name in self._find_overtaken(f"g{number}-theirs"):
            ours.members[name] = theirs.members[name] = OVERTAKEN
        self._delete(f"g{number}-theirs", bound=False)
        return ours, theirs

    def close(self) -> None:
        """Delete everything of the seed."""
        self._delete("", bound=True)
        self._api.delete_all(GROUPS.format(self.namespace))
        for each in self._api.items(f"{DRA}/resourceslices"):
            if each["metadata"]["name"].startswith(self.namespace):
                self._api.delete(f"{DRA}/resourceslices/{each['metadata']['name']}")
        for name in self._nodes:
            self._api.delete(f"/api/v1/nodes/{name}")

    # --- one group --------------------------------------------------------------------------------------------------

    def _decide(
        self,
        group: str,
        scheduler: str,
        min_count: int,
        members: list[Json],
        *,
        of_group: bool,
        placed: set[str] | None = None,
    ) -> Result:
        """Create claims and members, then the group; wait for the result, for kube-scheduler until `placed` are."""
        spec: Json = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
        shared = any("net" in member["claims"] for member in members)
        if shared:
            self._create_claim(f"{group}-net", "network")
            if of_group:
                spec["resourceClaims"] = [{"name": "net", "resourceClaimName": f"{group}-net"}]
        for i, member in enumerate(members):
            if "own" in member["claims"]:
                self._create_claim(f"{group}-m{i}-own", "local")
            names = {"own": f"{group}-m{i}-own", "net": f"{group}-net"}
            claims = [{"name": name, "resourceClaimName": names[name]} for name in member["claims"]]
            group_ref = {"schedulerName": scheduler, "schedulingGroup": {"podGroupName": group}}
            pod = {"metadata": {"name": f"{group}-m{i}"}, "spec": {**member["spec"], **group_ref}}
            pod["spec"] |= {"resourceClaims": claims} if claims else {}
            self._api.create(self._pods, pod)
        time.sleep(SEEN_S)
        self._api.create(GROUPS.format(self.namespace), {"metadata": {"name": group}, "spec": spec})
        condition = eventually(lambda: find_condition(self._api, self.namespace, group), f"{group} to be decided", 60)
        results = eventually(lambda: self._members(group), f"the members of {group}", 60)
        deadline = time.monotonic() + RETRIES_S
        while placed is not None and shared and time.monotonic() < deadline:
            results = self._members(group) or results
            if placed <= {name for name, result in results.items() if result.startswith("node ")}:
                break
            time.sleep(0.2)
        return Result(condition, results, self._used(group))

    def _members(self, group: str) -> dict[str, str] | None:
        """Return what was first decided about each member: its node or a message; None while one has neither.

        A member whose reservation was overwritten has the node of its later attempt, as soon as there is one.
        """
        found = dict[str, str]()
        for name, (note, node) in self._read_members(group).items():
            if not note and not node:
                return None
            result = f"node {node}" if node and (not note or note.startswith(OVERWRITTEN)) else note
            found[name] = result.replace(group, "GROUP")
        return found

    def _find_overtaken(self, group: str) -> list[str]:
        """Return the members whose second attempt may have found less room than the first.

        Their reservation was overwritten, and a member that had not fitted has been placed since.
        """
        members = self._read_members(group)
        is_late = any(node and note and not note.startswith(OVERWRITTEN) for note, node in members.values())
        return [name for name, (note, _) in members.items() if is_late and note.startswith(OVERWRITTEN)]

    def _read_members(self, group: str) -> dict[str, tuple[str, str]]:
        """Return the note of each member's first FailedScheduling event, and its node; each may be empty."""
        notes = find_first_failures(self._api, self.namespace)
        names = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self._api.items(self._pods)}
        prefix = f"{group}-"
        return {
            name.removeprefix(prefix): (notes.get(name, ""), node)
            for name, node in names.items()
            if name.startswith(prefix)
        }

    def _used(self, group: str) -> dict[str, tuple[list[str], list[str]]]:
        found = {}
        for claim in self._api.items(self._claims):
            name, status = claim["metadata"]["name"], claim.get("status", {})
            if name.startswith(f"{group}-"):
                results = status.get("allocation", {}).get("devices", {}).get("results", ())
                users = [
                    f"{user['resource']} {user['name'].removeprefix(group)}" for user in status.get("reservedFor", ())
                ]
                devices = sorted(f"{each['pool']}/{each['device']}" for each in results)
                found[name.removeprefix(f"{group}-")] = (devices, sorted(users))
        return found

    def _delete(self, group: str, *, bound: bool) -> None:
        """Delete a group's pods, only those without a node unless `bound`, and the claims that no pod is left for."""
        prefix = f"{group}-" if group else ""
        left = set()
        for pod in self._api.items(self._pods):
            name = pod["metadata"]["name"]
            if name.startswith(prefix) and (bound or not pod["spec"].get("nodeName")):
                self._api.delete(f"{self._pods}/{name}")
            else:
                left |= {each["resourceClaimName"] for each in pod["spec"].get("resourceClaims") or ()}
        for claim in self._api.items(self._claims):
            name = claim["metadata"]["name"]
            if name.startswith(prefix) and name not in left:
                path = f"{self._claims}/{name}"
                self._api.patch(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
                self._api.patch(path, {"metadata": {"finalizers": None}})
                self._api.delete(path)
        time.sleep(SEEN_S)

    def _create_claim(self, name: str, device_class: str) -> None:
        request = {"name": "r", "exactly": {"deviceClassName": device_class}}
        self._api.create(self._claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})

    def _member(self, i: int, *, shares: bool) -> Json:
        """Return the spec of a member, for which the rank of a node decides, and the names of its claims."""
        rng = self._rng
        ranked = [
            {"weight": 10 * (j + 1), "preference": {"matchExpressions": [_in("rank", str(j))]}}
            for j in range(len(self._nodes))
        ]
        requests = {"cpu": rng.choice(("500m", "1", "2", "3")), "memory": "64Mi"}
        claims = [*(["own"] if rng.random() < 0.5 else []), *(["net"] if shares else [])]
        wanted: Json = {"requests": requests}
        if claims:
            wanted["claims"] = [{"name": name} for name in claims]
        spec = {
            "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": wanted}],
            "priorityClassName": f"groups-low-{PRIORITIES - i}",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"seed": self.namespace},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ranked}},
        }
        return {"spec": spec, "claims": claims}


def _selects(driver: str) -> Json:
    return {"selectors": [{"cel": {"expression": f'device.driver == "{driver}.example.com"'}}]}


def _in(key: str, value: str) -> Json:
    return {"key": key, "operator": "In", "values": [value]}
