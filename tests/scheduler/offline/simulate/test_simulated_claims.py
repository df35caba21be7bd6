"""Claims and devices of a trace: simulated pods get devices, hold them, and free them when they end."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.offline.simulate.virtual_cluster import SimulationError
from scheduler.offline.traces.document import Event, ObjectRemoved, ObjectSet, PodArrived
from scheduler.offline.traces.redaction import OBJECT_KINDS
from tests.scheduler.builders import PodBuilder, make_pod
from tests.scheduler.engine.dra.builders import (
    API,
    DRIVER,
    Json,
    allocated,
    claim,
    device,
    device_class,
    exactly,
    slice_on,
)
from tests.scheduler.offline.simulate.courses import CONFIG, Course, arrives, joins, simulate
from tests.support.pod_group_loop import GATES, a_group

GPU = "example.com/gpu"
TEMPLATE: Json = {
    "apiVersion": API,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [exactly("r")]}}},
}


def has(manifest: Json, at_s: float = 0.0) -> ObjectSet:
    return ObjectSet(at_s, msgspec.convert(manifest, OBJECT_KINDS[manifest["kind"]]))


def devices(*nodes: str, count: int = 1) -> list[Event]:
    """Return nodes with so many devices each, and the class of the devices."""
    slices = [slice_on(name, *(device(f"gpu-{i}") for i in range(count))) for name in nodes]
    gpu = device_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName=GPU)
    return [*(joins(name, "64") for name in nodes), *map(has, [gpu, *slices])]


def claiming(name: str, **claims: str) -> PodBuilder:
    """Return a pod with one claim, by `resourceClaimName` or `resourceClaimTemplateName`."""
    return make_pod(name).request(cpu="1").with_spec(resourceClaims=[{"name": "gpu", **claims}])


def templated(name: str) -> PodBuilder:
    return claiming(name, resourceClaimTemplateName="gpu")


def placements(course: Course) -> list[tuple[float, str, str]]:
    return [said for said in course.said if said[2] != "arrives"]


def test_a_pod_waits_for_a_device_until_another_pod_ends() -> None:
    course = simulate(
        *devices("n", "m"),
        has(TEMPLATE),
        *(arrives(i, templated(f"p{i}"), 10) for i in (1, 2, 3)),
        arrives(30, templated("late"), 1),
    )
    (_, _, first), (_, _, second), third, again, last = placements(course)
    assert {first, second} == {"n", "m"}
    assert (third, again) == ((3, "p3", "waits"), (11, "p3", first))
    assert last[2] in ("n", "m")
    assert course.figures().never_placed == 0


def test_pods_share_a_named_claim_on_one_node_and_the_last_one_frees_it() -> None:
    shared = has(claim("shared", exactly("r"), uid="c1"))
    pods = [
        arrives(1, claiming("a", resourceClaimName="shared"), 10),
        arrives(2, claiming("b", resourceClaimName="shared"), 20),
    ]
    course = simulate(
        *devices("n", "m"), shared, has(TEMPLATE), *pods, arrives(5, templated("x"), 1), arrives(6.5, templated("y"), 1)
    )
    (_, _, node), (_, _, same), (_, _, other), (_, _, again) = placements(course)
    assert node == same
    assert other == again != node
    course = simulate(*devices("n"), shared, has(TEMPLATE), *pods, arrives(5, templated("x"), 1))
    assert placements(course)[2:] == [(5, "x", "waits"), (22, "x", "n")]


def test_the_last_pod_of_a_gang_frees_the_claim_that_its_pods_share() -> None:
    shared, gang = has(claim("shared", exactly("r"), uid="c1")), ObjectSet(0.0, a_group("g", 2))
    pods = [
        arrives(1, claiming(name, resourceClaimName="shared").with_spec(schedulingGroup={"podGroupName": "g"}), runs_s)
        for name, runs_s in (("a", 20), ("b", 5))
    ]
    events: list[Event] = [*devices("n"), shared, has(TEMPLATE), gang, *pods, arrives(10, templated("x"), 1)]
    course = simulate(*events, config=replace(CONFIG, feature_gates=GATES))
    assert placements(course) == [(1, "a", "n"), (1, "b", "n"), (10, "x", "waits"), (21, "x", "n")]


@pytest.mark.parametrize("ends_s", [None, 20.0])
def test_devices_of_a_pod_that_was_on_its_node_are_taken_until_it_ends(ends_s: float | None) -> None:
    was = make_pod("was").uid("shared-uid").with_spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    held = allocated("shared", "n", "gpu-0")
    held["metadata"] |= {"uid": "c1", "finalizers": ["resource.kubernetes.io/delete-protection"]}
    there = PodArrived(0, was.obj(), 0, "n", ends_s, was_on_node=True)
    course = simulate(*devices("n"), has(held), has(TEMPLATE), there, arrives(1, templated("p"), 10))
    assert placements(course) == [(1, "p", "waits"), *([(20, "p", "n")] if ends_s else [])]


def test_devices_for_an_extended_resource_are_freed_when_the_pod_ends() -> None:
    pods = [arrives(at_s, make_pod(f"p{at_s}").request({GPU: "1"}), 5) for at_s in (1, 2, 20)]
    course = simulate(*devices("n"), *pods)
    assert placements(course) == [(1, "p1", "n"), (2, "p2", "waits"), (6, "p2", "n"), (20, "p20", "n")]


def test_devices_leave_with_their_slices() -> None:
    leave = ObjectRemoved(5, "ResourceSlice", "", "n-gpu")
    course = simulate(*devices("n", "m"), has(TEMPLATE), leave, *(arrives(6 + i, templated(f"p{i}")) for i in (0, 1)))
    assert placements(course) == [(6, "p0", "m"), (7, "p1", "waits")]


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (templated("p"), "pod default/p: the trace does not have its ResourceClaimTemplate gpu"),
        (claiming("p", resourceClaimName="c"), "pod default/p: the trace does not have its ResourceClaim c"),
    ],
)
def test_a_claim_that_the_trace_lacks_is_refused(pod: PodBuilder, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        simulate(*devices("n"), arrives(1, pod))
