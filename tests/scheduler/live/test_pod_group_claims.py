"""Pods of a group that share a resource claim: one allocation for all of them, and claims of the group itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from herodotus_kube.watch import ListResult
from scheduler.engine.objects.pod_groups import PodGroup
from tests.scheduler.builders import PodBuilder, make_node
from tests.scheduler.engine.dra.builders import claim, exactly
from tests.support.claim_loop import ClaimWorld
from tests.support.pod_group_loop import GATES, a_group
from tests.support.scheduling_loop import waiting

GROUP_CLAIMS = {**GATES, "DRAWorkloadResourceClaims": True}


def claiming(name: str, cpu: str = "1", **claims: str) -> PodBuilder:
    """Return a member of the group "g" with these claims, by their names in the pod."""
    wanted = [{"name": key, "resourceClaimName": value} for key, value in claims.items()]
    return waiting(name, cpu).with_spec(schedulingGroup={"podGroupName": "g"}, resourceClaims=wanted)


def group_with_claim(min_count: int, name: str = "shared") -> PodGroup:
    group = msgspec.to_builtins(a_group("g", min_count))
    group["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return msgspec.convert(group, PodGroup)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ClaimWorld]:
    made = ClaimWorld(tmp_path / "spool", GATES)
    yield made
    made.loop.binder.close()


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[ClaimWorld]:
    made = ClaimWorld(tmp_path / "spool", GROUP_CLAIMS)
    yield made
    made.loop.binder.close()


def test_pods_of_a_group_share_the_allocation_that_the_first_one_gets(world: ClaimWorld) -> None:
    world.claims.add(claim("shared", exactly("r")))
    world.begin(a_group("g", 3), *(claiming(name, gpu="shared") for name in "abc"))
    assert world.bound() == [("a", "n"), ("b", "n"), ("c", "n")]
    assert world.users("shared") == ["a", "b", "c"]
    assert len(world.claims.stored["shared"]["status"]["allocation"]["devices"]["results"]) == 1
    assert sorted(world.claims.patches) == ["allocation+reservedFor", "finalizers", "reservedFor", "reservedFor"]


def test_a_shared_claim_and_own_claims_are_allocated_together(world: ClaimWorld) -> None:
    for name in ("shared", "own-a", "own-b"):
        world.claims.add(claim(name, exactly("r")))
    world.begin(
        a_group("g", 2), claiming("a", gpu="shared", x="own-a"), claiming("b", gpu="shared", x="own-b"), devices=3
    )
    assert world.bound() == [("a", "n"), ("b", "n")]
    taken = [
        result["device"]
        for each in world.claims.stored.values()
        for result in each["status"]["allocation"]["devices"]["results"]
    ]
    assert sorted(taken) == ["gpu-0", "gpu-1", "gpu-2"]


def test_nothing_is_written_or_kept_for_a_group_without_a_quorum(world: ClaimWorld) -> None:
    world.claims.add(claim("shared", exactly("r")))
    world.begin(
        a_group("g", 3), claiming("a", gpu="shared"), claiming("b", gpu="shared"), claiming("c", "9", gpu="shared")
    )
    assert world.bound() == []
    assert world.claims.patches == []
    alone = waiting("alone").with_spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "other"}])
    world.claims.add(claim("other", exactly("r")))
    world.pod("ADDED", alone)
    world.until(lambda: world.bound() == [("alone", "n")])


def test_a_claim_of_the_group_is_reserved_for_the_group_once(grouped: ClaimWorld) -> None:
    grouped.claims.add(claim("shared", exactly("r")))
    grouped.begin(group_with_claim(2), claiming("a", gpu="shared"), claiming("b", gpu="shared"))
    assert grouped.bound() == [("a", "n"), ("b", "n")]
    (user,) = grouped.claims.stored["shared"]["status"]["reservedFor"]
    assert user == {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}


def test_without_the_gate_a_claim_of_the_group_is_reserved_for_its_pods(world: ClaimWorld) -> None:
    world.claims.add(claim("shared", exactly("r")))
    world.begin(group_with_claim(2), claiming("a", gpu="shared"), claiming("b", gpu="shared"))
    assert world.users("shared") == ["a", "b"]


def test_the_reservation_for_a_group_that_no_pod_of_it_uses_is_taken_back(grouped: ClaimWorld) -> None:
    """The claim is left on a node without room by an attempt that failed to bind."""
    left = claim("shared", exactly("r"))
    node = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
    left["status"] = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": node},
        "reservedFor": [user],
    }
    grouped.claims.add(left)
    grouped.begin(group_with_claim(1), claiming("a", "9", gpu="shared"))
    assert grouped.claims.stored["shared"]["status"]["reservedFor"] is None
    (message,) = {said[2] for said in grouped.writes.sent if said[0] == "Unschedulable"}
    assert "ResourceClaim unreserved for PodGroup" in message


def test_a_claim_that_was_created_for_the_group_may_be_used_by_its_pods(grouped: ClaimWorld, tmp_path: Path) -> None:
    owner = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "name": "g",
        "uid": "u",
        "controller": True,
    }
    grouped.claims.add(claim("made", exactly("r"), ownerReferences=[owner]))
    templated = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    pod = waiting("a").with_spec(schedulingGroup={"podGroupName": "g"}, resourceClaims=templated)
    pod.json["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "made"}]
    grouped.begin(a_group("g", 1), pod)
    assert grouped.bound() == [("a", "n")]
    refusing = ClaimWorld(tmp_path / "other", GATES)
    refusing.claims.add(claim("made", exactly("r"), ownerReferences=[owner]))
    refusing.loop.inbox.put(ListResult("podgroups", [a_group("g", 1)]))
    refusing.start(make_node("n"), pods=[pod])
    refusing.settle()
    kept = refusing.loop.queue.get("uid-a")
    assert kept is not None
    assert kept.gate is not None
    refusing.loop.binder.close()
