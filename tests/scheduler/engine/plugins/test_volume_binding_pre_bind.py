"""VolumeBinding after the choice: what is assumed, written, waited for and taken back."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_record.model import SUCCESS, Code
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Pending
from scheduler.engine.framework.writes import NoWrites
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.volume_binding import VolumeBinding, VolumeBindingArgs
from tests.scheduler.builders import columns_of, make_node
from tests.scheduler.storage import BOUND, HOST, ClusterWithObjects, claim, claiming, on_host, storage_class, volume

NODES = columns_of([make_node(name).label(HOST, name) for name in ("n1", "n2")])
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}


class VolumeWrites(NoWrites):
    """Keeps what is written; every write makes version 10."""

    def __init__(self) -> None:
        self.wrote: list[tuple[str, ...]] = []

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        self.wrote.append(("volume", volume.metadata.name, claim.metadata.name, "free" if by_controller else "kept"))
        return 10

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        self.wrote.append(("claim", claim.metadata.name, node))
        return 10


class Handle(ClusterWithObjects):
    """Knows the nodes, and keeps what is written."""

    def __init__(self, *objects: Any) -> None:
        super().__init__(*objects)
        self.writes: VolumeWrites = VolumeWrites()
        self.nodes: dict[str, Node] = {n.metadata.name: n for n in NODES.nodes if n is not None}

    def node(self, name: str) -> Node | None:
        return self.nodes.get(name)


class Attempt:
    """A pod on its way to n1."""

    def __init__(self, *objects: Any, claims: tuple[str, ...] = ("c",)) -> None:
        self.handle = Handle(*objects, storage_class())
        self.plugin = VolumeBinding(VolumeBindingArgs(), self.handle)
        self.state, self.pod = CycleState(), claiming(*claims).info()
        self.filtered = self.filter(self.state, self.pod)
        self.plugin.reserve(self.state, self.pod, "n1")

    def filter(self, state: CycleState, pod: PodInfo) -> list[Code]:
        self.plugin.pre_filter(state, pod, NODES)
        verdicts = self.plugin.filter(state, pod, NODES)
        return [verdicts.verdict_at(NODES.index[name]).code for name in ("n1", "n2")]

    def another(self, *claims: str) -> list[Code]:
        """Return the filter's codes for the next pod."""
        return self.filter(CycleState(), claiming(*claims).info())

    def pre_bind(self) -> Pending:
        said = self.plugin.pre_bind(self.state, self.pod, "n1")
        assert isinstance(said, Pending)
        return said

    def shows(self, *objects: Any) -> None:
        for obj in objects:
            self.handle.objects.set(obj)


OK, NO = Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE
HERE = volume("v", within=on_host("n1"))
MANUAL = storage_class(provisioner="kubernetes.io/no-provisioner")


def test_a_volume_that_is_reserved_is_taken_for_the_next_pod_and_free_again_after() -> None:
    attempt = Attempt(claim("c"), claim("d"), HERE, MANUAL)
    attempt.shows(MANUAL)
    assert attempt.filtered == [OK, OK]  # the class of the first look could provision
    assert attempt.another("d") == [NO, NO]
    attempt.plugin.unreserve(attempt.state, attempt.pod, "n1")
    assert attempt.another("d") == [OK, NO]


def test_a_claim_to_be_provisioned_gets_the_node_of_its_first_pod() -> None:
    attempt = Attempt(claim("c"))
    assert attempt.another("c") == [OK, NO]


def test_an_existing_volume_is_bound_and_waited_for() -> None:
    attempt = Attempt(claim("c"), HERE)
    pending = attempt.pre_bind()
    assert attempt.handle.writes.wrote == [("volume", "v", "c", "free")]
    assert (pending.what, pending.timeout_s, pending.check()) == ("volumes of default/c", 600, None)
    bound = volume("v", within=on_host("n1"), claim="default/c", claim_uid="uid-c", version="10")
    attempt.shows(bound)
    assert pending.check() is None
    attempt.shows(claim("c", volume="v", version="11"))
    assert pending.check() == SUCCESS


def test_a_volume_that_a_user_reserved_is_not_marked_as_bound_by_controller() -> None:
    attempt = Attempt(claim("c"), volume("v", claim="default/c"))
    attempt.pre_bind()
    assert attempt.handle.writes.wrote == [("volume", "v", "c", "kept")]


def test_new_volume_is_requested_and_awaited() -> None:
    attempt = Attempt(claim("c"))
    pending = attempt.pre_bind()
    assert attempt.handle.writes.wrote == [("claim", "c", "n1")]
    attempt.shows(claim("c", annotations=SELECTED, version="10"))
    assert pending.check() is None
    attempt.shows(claim("c", volume="made", annotations=SELECTED | BOUND, version="11"))
    assert pending.check() is None  # its volume was not seen yet
    attempt.shows(volume("made", within=on_host("n1")))
    assert pending.check() == SUCCESS


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        pytest.param(
            claim("c", version="10"), 'binding volumes: provisioning failed for PVC "c"', id="the provisioner gave up"
        ),
        pytest.param(
            claim("c", volume="made", annotations=SELECTED | BOUND, version="11"),
            'binding volumes: pv "made" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            id="made where the node does not reach it",
        ),
    ],
)
def test_provisioner_failure_requeues_the_pod(shown: PersistentVolumeClaim, words: str) -> None:
    attempt = Attempt(claim("c"))
    pending = attempt.pre_bind()
    attempt.shows(volume("made", within=on_host("n2")), shown)
    verdict = pending.check()
    assert verdict is not None
    assert (verdict.code, verdict.reasons[0].params["text"]) == (Code.ERROR, words)


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("node", 'binding volumes: failed to get node "n1": node "n1" not found'),
        ("volume", 'binding volumes: failed to check binding: could not find v1.PersistentVolume "v"'),
        ("claim", 'binding volumes: failed to check binding: could not find v1.PersistentVolumeClaim "default/c"'),
        ("reference", 'binding volumes: ClaimRef got reset for pv "v"'),
    ],
)
def test_deleted_claim_or_volume_requeues_the_pod(gone: str, words: str) -> None:
    attempt = Attempt(claim("c"), HERE)
    pending = attempt.pre_bind()
    if gone == "node":
        del attempt.handle.nodes["n1"]
    elif gone == "volume":
        attempt.handle.objects.remove(HERE)
    elif gone == "claim":
        attempt.handle.objects.remove(claim("c"))
    else:
        attempt.shows(volume("v", within=on_host("n1"), version="12"))
    verdict = pending.check()
    assert verdict is not None
    assert verdict.reasons[0].params["text"] == words


def test_where_every_claim_is_bound_there_is_nothing_to_do() -> None:
    attempt = Attempt(claim("c", volume="v"), volume("v"))
    assert attempt.plugin.pre_bind_pre_flight(attempt.state, attempt.pod, "n1").code is Code.SKIP
    assert attempt.plugin.pre_bind(attempt.state, attempt.pod, "n1") == SUCCESS
    attempt.plugin.unreserve(attempt.state, attempt.pod, "n1")
    assert attempt.handle.writes.wrote == []


def test_several_claims_each_get_their_own_volume() -> None:
    small, big = volume("small", size="10Gi"), volume("big", size="20Gi")
    attempt = Attempt(claim("c", size="15Gi"), claim("d", size="5Gi"), small, big, claims=("c", "d"))
    attempt.pre_bind()
    assert sorted(attempt.handle.writes.wrote) == [("volume", "big", "c", "free"), ("volume", "small", "d", "free")]
