"""The observer reconstructs decisions of pods with resource claims: it takes back what their scheduler wrote."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from herodotus_kube.watch import WatchEvent
from herodotus_record.model import Agreement, Decision, Reconstruction
from herodotus_record.notes import NOT_BUILT
from scheduler.engine.objects.resource_api import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.engine.objects.types import Object
from tests.scheduler import spools
from tests.scheduler.builders import PodBuilder, make_node, make_pod
from tests.scheduler.engine.dra.builders import DRIVER, Json, claim, device, device_class, exactly, slice_on
from tests.support.observer_world import AGREE, DEFAULT, ObserverWorld

KINDS: dict[str, type[Object]] = {
    "resourceclaims": ResourceClaim,
    "deviceclasses": DeviceClass,
    "resourceslices": ResourceSlice,
}


@pytest.fixture
def world(tmp_path: Path) -> ObserverWorld:
    """Return a cluster of the node a with one device and b with two."""
    return build_world(tmp_path / "spool")


def build_world(spool: Path, version: str = "") -> ObserverWorld:
    world = ObserverWorld(spool, msgspec.structs.replace(DEFAULT, kubernetes_version=version), KINDS)
    world.start(make_node("a"), make_node("b"))
    for obj, kind in (
        (device_class("gpu"), DeviceClass),
        (slice_on("a", device("gpu-0")), ResourceSlice),
        (slice_on("b", device("gpu-0"), device("gpu-1")), ResourceSlice),
    ):
        world.set(msgspec.convert(obj, kind))
    world.pause()
    return world


@pytest.mark.parametrize(("version", "told"), [("v1.36", False), ("v1.37", True)])
def test_a_record_says_that_the_allocation_of_v1_37_is_not_built(version: str, told: bool, tmp_path: Path) -> None:
    world = build_world(tmp_path / "spool", version)
    wait(world, "p")
    world.set(taken("p", "a", "gpu-0"))
    world.pod("MODIFIED", claiming("p").node("a"))
    world.pause()
    (record,) = spools.of(Decision, world.spool)
    assert [note.params["change"] for note in record.notes if note.code == NOT_BUILT] == (
        ["allocation of devices"] if told else []
    )


def free(name: str, count: int = 1, version: int = 1) -> ResourceClaim:
    return build(claim(name, exactly("r", count)), version)


def taken(name: str, node: str, *devices: str, users: tuple[str, ...] = (), version: int = 2) -> ResourceClaim:
    """Return an allocated claim, reserved for the pod of its name or for `users`."""
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": each} for each in devices]
    reserved = [
        {"resource": "pods", "name": each, "uid": claiming(each).obj().metadata.uid} for each in users or (name,)
    ]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return build(claim(name, exactly("r", len(devices)), status=status), version)


def build(content: Json, version: int) -> ResourceClaim:
    content["metadata"] |= {"uid": f"uid-{content['metadata']['name']}", "resourceVersion": str(version)}
    return msgspec.convert(content, ResourceClaim)


def claiming(name: str, of: str = "") -> PodBuilder:
    return make_pod(name).with_spec(resourceClaims=[{"name": "gpu", "resourceClaimName": of or name}])


def wait(world: ObserverWorld, *names: str) -> None:
    for name in names:
        world.set(free(name))
        world.pod("ADDED", claiming(name))


def test_a_pod_agrees_although_its_claim_holds_the_devices_when_its_binding_is_seen(world: ObserverWorld) -> None:
    world.set(free("p", 2))
    world.pod("ADDED", claiming("p"))
    world.set(taken("p", "b", "gpu-0", "gpu-1"))
    world.pod("MODIFIED", claiming("p").node("b"))
    world.pause()
    assert world.found == [("p", "b", AGREE)]
    claims = world.shared.objects.all(ResourceClaim)
    assert [bool(c.status.allocation) for c in claims] == [True], "restored after the comparison"


def test_a_device_that_was_taken_after_the_decision_counts_as_free(world: ObserverWorld) -> None:
    """Pod q took the only device of a later, but its binding is seen first."""
    wait(world, "p", "q")
    world.set(taken("p", "a", "gpu-0"))
    world.set(taken("q", "b", "gpu-0"))
    world.pod("MODIFIED", claiming("q").node("b"))
    world.pod("MODIFIED", claiming("p").node("a"))
    world.pause()
    assert world.found == [("q", "b", AGREE), ("p", "a", Reconstruction(Agreement.AGREE, None, -1))]


def test_a_node_without_free_devices_disagrees(world: ObserverWorld) -> None:
    wait(world, "p", "q")
    world.set(taken("p", "a", "gpu-0"))
    world.pod("MODIFIED", claiming("p").node("a"))
    world.pause()
    world.set(taken("q", "a", "gpu-0"))
    world.pod("MODIFIED", claiming("q").node("a"))
    world.pause()
    name, node, found = world.found[-1]
    assert (name, node, found and found.agreement) == ("q", "a", Agreement.DISAGREE)


def test_a_claim_that_another_pod_uses_stays_allocated(world: ObserverWorld) -> None:
    world.set(free("shared"))
    for name in ("p", "q"):
        world.pod("ADDED", claiming(name, "shared"))
    world.set(taken("shared", "a", "gpu-0", users=("p",)))
    world.pod("MODIFIED", claiming("p", "shared").node("a"))
    world.pause()
    world.set(taken("shared", "a", "gpu-0", users=("p", "q"), version=3))
    world.pod("MODIFIED", claiming("q", "shared").node("a"))
    world.pause()
    assert world.found == [("p", "a", AGREE), ("q", "a", AGREE)]


def test_a_claim_that_is_deleted_meanwhile_is_restored_and_deleted_again(world: ObserverWorld) -> None:
    wait(world, "p")
    world.set(taken("p", "a", "gpu-0"))
    world.observer.inbox.put(WatchEvent("resourceclaims", "DELETED", taken("p", "a", "gpu-0", version=3)))
    world.pod("MODIFIED", claiming("p").node("a"))
    world.pause()
    assert world.found == [("p", "a", Reconstruction(Agreement.AGREE))]
    assert world.shared.objects.all(ResourceClaim) == []
