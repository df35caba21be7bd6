"""What a pod requests: kube-scheduler's rules (section by section of component-helpers' PodRequests)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import Resize
from scheduler.engine.objects.types import MANY_AMOUNTS, ResourceRequirements
from tests.scheduler.builders import GIB, MIB, PodBuilder, make_pod

CPU_AND_MEMORY = ("cpu", "memory")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(), {}, id="no containers"),
        pytest.param(make_pod().request(), {}, id="no requests"),
        pytest.param(
            make_pod().request(cpu="100m").request(cpu="200m", memory="1Gi"),
            {"cpu": 300, "memory": GIB},
            id="containers add up",
        ),
        pytest.param(
            make_pod().request(cpu="0.5m").request(cpu="0.5m"), {"cpu": 1}, id="rounded up once, not per container"
        ),
        pytest.param(make_pod().request(memory="1500m"), {"memory": 2}, id="memory rounds up to bytes"),
        pytest.param(
            make_pod().request(storage="1Gi", pods="3", cpu="1"),
            {"cpu": 1000},
            id="names that scheduling does not count",
        ),
        pytest.param(
            make_pod().request(
                {"example.com/gpu": "1", "hugepages-2Mi": "4Mi", "attachable-volumes-x": "1", "x.kubernetes.io/y": "2"}
            ),
            {"example.com/gpu": 1, "hugepages-2Mi": 4 * MIB, "attachable-volumes-x": 1, "x.kubernetes.io/y": 2},
            id="scalars of every kind",
        ),
        pytest.param(make_pod().request({"requests.example.com/gpu": "1"}), {}, id="quota's prefix is not a resource"),
        pytest.param(
            make_pod().request({"ephemeral-storage": "0.5"}), {"ephemeral-storage": 1}, id="half a byte of storage"
        ),
        pytest.param(make_pod().request(cpu="0"), {"cpu": 0}, id="an explicit zero"),
        pytest.param(
            make_pod().container({"cpu": "3"}, init=True).container({"memory": "1Gi"}, init=True).request(cpu="1"),
            {"cpu": 3000, "memory": GIB},
            id="the largest init container, resource by resource",
        ),
        pytest.param(
            make_pod().container({"cpu": "1"}, sidecar=True).request(cpu="1"),
            {"cpu": 2000},
            id="a sidecar adds to the containers",
        ),
        pytest.param(
            make_pod().container({"cpu": "1"}, sidecar=True).container({"cpu": "4"}, init=True).request(cpu="1"),
            {"cpu": 5000},
            id="an init container after a sidecar runs beside it",
        ),
        pytest.param(
            make_pod().container({"cpu": "4"}, init=True).container({"cpu": "1"}, sidecar=True).request(cpu="1"),
            {"cpu": 4000},
            id="an init container before a sidecar runs alone",
        ),
        pytest.param(
            make_pod().container({"cpu": "2"}, sidecar=True).container({"cpu": "3"}, sidecar=True).request(memory="1"),
            {"cpu": 5000, "memory": 1},
            id="sidecars accumulate",
        ),
        pytest.param(
            make_pod().request(cpu="1").overhead(cpu="100m", memory="64Mi"),
            {"cpu": 1100, "memory": 64 * MIB},
            id="overhead, also of what nobody requests",
        ),
        pytest.param(
            make_pod()
            .request({"cpu": "1", "ephemeral-storage": "1", "example.com/gpu": "1"})
            .pod_level(
                {"cpu": "3", "memory": "1Gi", "hugepages-2Mi": "2Mi", "ephemeral-storage": "9", "example.com/gpu": "9"}
            )
            .overhead(cpu="1"),
            {"cpu": 4000, "memory": GIB, "hugepages-2Mi": 2 * MIB, "ephemeral-storage": 1, "example.com/gpu": 1},
            id="pod level replaces cpu, memory and huge pages, then overhead",
        ),
        pytest.param(
            make_pod().request(cpu="2").pod_level(cpu="1"), {"cpu": 1000}, id="pod level replaces even a larger sum"
        ),
        pytest.param(make_pod().request(memory="100Ei"), {"memory": (1 << 63) - 1}, id="cut to Go's int64"),
    ],
)
def test_effective_requests(pod: PodBuilder, expected: dict[str, int]) -> None:
    assert dict(pod.info().requests) == expected


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        pytest.param(
            make_pod().container({"cpu": "1"}, name="a").container_status("a", {"cpu": "3"}, {"cpu": "2"}),
            3000,
            id="what it has",
        ),
        pytest.param(
            make_pod().container({"cpu": "1"}, name="a").container_status("a", {"cpu": "2"}, {"cpu": "3"}),
            3000,
            id="what it was allotted",
        ),
        pytest.param(
            make_pod().container({"cpu": "4"}, name="a").container_status("a", {"cpu": "2"}, {"cpu": "3"}),
            4000,
            id="what it asks for",
        ),
        pytest.param(
            make_pod()
            .container({"cpu": "4"}, name="a")
            .container_status("a", {"cpu": "2"}, {"cpu": "3"})
            .condition("PodResizePending", "True", "Infeasible"),
            3000,
            id="an infeasible resize does not count",
        ),
        pytest.param(
            make_pod()
            .container({"cpu": "4"}, name="a")
            .container_status("a", {"cpu": "2"}, {"cpu": "3"})
            .condition("PodResizePending", "True", "Deferred"),
            4000,
            id="a deferred one does",
        ),
        pytest.param(
            make_pod().container({"cpu": "1"}, name="s", sidecar=True).container_status("s", {"cpu": "2"}, init=True),
            2000,
            id="sidecars likewise",
        ),
        pytest.param(
            make_pod().container({"cpu": "1"}, name="i", init=True).container_status("i", {"cpu": "2"}, init=True),
            1000,
            id="init containers by their spec",
        ),
    ],
)
def test_a_resize_in_progress_counts_for_running_pods_only(pod: PodBuilder, cpu: int) -> None:
    assert requests.compute_pod_requests(pod.obj(), Resize.LARGEST_OF_CONTAINER)["cpu"] == cpu
    spec = pod.json["spec"]
    asked = (spec.get("containers") or spec.get("initContainers"))[0]["resources"]["requests"]["cpu"]
    assert requests.compute_pod_requests(pod.obj())["cpu"] == int(asked) * 1000


@pytest.mark.parametrize(
    ("actual", "allocated", "reason", "cpu"),
    [
        pytest.param({"cpu": "3"}, {"cpu": "2"}, "", 3000, id="what it has"),
        pytest.param({"cpu": "2"}, {"cpu": "3"}, "", 3000, id="what it was allotted"),
        pytest.param({"cpu": "500m"}, {}, "", 1000, id="what it asks for"),
        pytest.param({"cpu": "500m"}, {}, "Infeasible", 500, id="an infeasible wish does not count"),
        pytest.param({}, {}, "Infeasible", 0, id="it has nothing"),
    ],
)
def test_a_pod_level_resize_counts_while_it_is_in_progress(
    actual: dict[str, str], allocated: dict[str, str], reason: str, cpu: int
) -> None:
    builder = make_pod().request(cpu="100m").pod_level(cpu="1").condition("PodResizePending", "True", reason)
    builder.json["status"] |= {"resources": {"requests": actual}, "allocatedResources": allocated}
    assert requests.compute_pod_requests(builder.obj(), Resize.LARGEST_OF_CONTAINER)["cpu"] == cpu
    assert requests.compute_pod_requests(builder.obj())["cpu"] == 1000


def resizing(desired: tuple[str, str], actual: tuple[str, str], allocated: tuple[str, str] | None) -> PodBuilder:
    """A pod of two containers whose cpu is resized."""
    pod = make_pod()
    for i, name in enumerate(("a", "b")):
        pod.container({"cpu": desired[i]}, name=name)
        pod.container_status(name, {"cpu": actual[i]}, {"cpu": allocated[i]} if allocated else None)
    return pod


@pytest.mark.parametrize(
    ("pod", "of_container", "of_pod"),
    [
        pytest.param(resizing(("1", "2"), ("2", "1"), None), 4000, 3000, id="one grows while the other shrinks"),
        pytest.param(resizing(("1", "1"), ("2", "1"), ("1", "3")), 5000, 4000, id="allocated together"),
        pytest.param(resizing(("4", "1"), ("2", "2"), ("1", "1")), 6000, 5000, id="desired together"),
        pytest.param(
            resizing(("9", "9"), ("2", "1"), ("1", "3")).condition("PodResizePending", "True", "Infeasible"),
            5000,
            4000,
            id="an infeasible resize",
        ),
        pytest.param(
            make_pod()
            .container({"cpu": "5"}, name="a")
            .container({"cpu": "1"}, name="b")
            .container_status("b", {"cpu": "2"})
            .condition("PodResizePending", "True", "Infeasible"),
            7000,
            2000,
            id="an infeasible one without the status of a container",
        ),
        pytest.param(
            make_pod().container({"cpu": "1"}, name="i", init=True).container_status("i", {"cpu": "2"}, init=True),
            1000,
            2000,
            id="init containers with their status",
        ),
    ],
)
def test_the_largest_sum_of_a_pod_in_resize_is_at_most_the_sum_of_the_largest(
    pod: PodBuilder, of_container: int, of_pod: int
) -> None:
    assert requests.compute_pod_requests(pod.obj(), Resize.LARGEST_OF_CONTAINER)["cpu"] == of_container
    assert requests.compute_pod_requests(pod.obj(), Resize.LARGEST_OF_POD)["cpu"] == of_pod


@pytest.mark.parametrize(
    ("pod_level", "actual", "allocated", "cpu"),
    [
        pytest.param(None, {"cpu": "3"}, {"cpu": "4"}, 4000, id="amounts of the whole pod replace those of containers"),
        pytest.param(None, {"cpu": "3"}, None, 6000, id="without allocated amounts the containers' count"),
        pytest.param(None, None, {"cpu": "3"}, 6000, id="without actual amounts likewise"),
        pytest.param("2", {"cpu": "3500m"}, {"cpu": "3"}, 3500, id="requests of the whole pod"),
    ],
)
def test_amounts_of_the_whole_pod_count_where_its_largest_sum_does(
    pod_level: str | None, actual: dict[str, str] | None, allocated: dict[str, str] | None, cpu: int
) -> None:
    pod = make_pod().container({"cpu": "1"}, name="a").container_status("a", {"cpu": "5"}, {"cpu": "6"})
    if pod_level:
        pod.pod_level(cpu=pod_level)
    if actual:
        pod.json["status"]["resources"] = {"requests": actual}
    if allocated:
        pod.json["status"]["allocatedResources"] = allocated
    assert requests.compute_pod_requests(pod.obj(), Resize.LARGEST_OF_POD)["cpu"] == cpu


AMOUNTS = st.sampled_from([None, {}, {"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "2"}, {"cpu": "1", "memory": "1Gi"}])


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=3), st.booleans())
def test_a_pod_whose_status_has_its_desired_amounts_needs_no_computation(
    containers: list[tuple[dict[str, str] | None, ...]], is_infeasible: bool
) -> None:
    pod = make_pod().condition("PodResizePending", "True", "Infeasible" if is_infeasible else "Deferred")
    for i, (desired, actual, allocated) in enumerate(containers):
        pod.container(desired or {}, name=f"c{i}")
        if actual is not None:
            pod.container_status(f"c{i}", actual, allocated)
    info = PodInfo(pod.obj(), running=True)
    assert dict(info.requests) == requests.compute_pod_requests(info.pod, Resize.LARGEST_OF_CONTAINER)
    assert dict(info.requests_as_whole) == requests.compute_pod_requests(info.pod, Resize.LARGEST_OF_POD)
    assert info.scoring_requests_as_whole == requests.compute_scoring_requests(info.pod, Resize.LARGEST_OF_POD)


@pytest.mark.parametrize(
    ("pod", "on_the_node", "incoming"),
    [
        pytest.param(make_pod(), (0, 0), (0, 0), id="no containers"),
        pytest.param(make_pod().request(), (100, 200 * MIB), (100, 200 * MIB), id="a container without requests"),
        pytest.param(
            make_pod().request(cpu="1").request(memory="1Gi"),
            (1100, GIB + 200 * MIB),
            (1100, GIB + 200 * MIB),
            id="a default for each missing key",
        ),
        pytest.param(make_pod().request(cpu="0", memory="0"), (0, 0), (0, 0), id="explicit zeros stay"),
        pytest.param(
            make_pod().request(cpu="1", memory="1").container({}, init=True),
            (1000, 200 * MIB),
            (1000, 200 * MIB),
            id="init containers get defaults too",
        ),
        pytest.param(
            make_pod().request().container({}, sidecar=True), (200, 400 * MIB), (200, 400 * MIB), id="sidecars too"
        ),
        pytest.param(
            make_pod().request().pod_level(cpu="2"),
            (2000, 200 * MIB),
            (100, 200 * MIB),
            id="pod level: not for the incoming pod's score",
        ),
        pytest.param(
            make_pod().request().overhead(cpu="1"), (1100, 200 * MIB), (1100, 200 * MIB), id="overhead on top"
        ),
        pytest.param(
            make_pod().request(memory="1Gi").pod_level(memory="2Gi").overhead(cpu="1"),
            (1000, 2 * GIB),
            (1100, GIB),
            id="pod level: overhead leaves no room for a default",
        ),
        pytest.param(
            make_pod().request(cpu="1").request().pod_level(memory="2Gi"),
            (1000, 2 * GIB),
            (1100, 400 * MIB),
            id="pod level: so does another container",
        ),
    ],
)
def test_amounts_for_scoring(pod: PodBuilder, on_the_node: tuple[int, int], incoming: tuple[int, int]) -> None:
    info = pod.info()
    assert info.scoring_requests == on_the_node
    assert tuple(info.incoming_scoring_requests.get(resource, 0) for resource in ("cpu", "memory")) == incoming


@pytest.mark.parametrize(
    ("resource", "extended", "scalar", "counted"),
    [
        ("cpu", False, False, True),
        ("memory", False, False, True),
        ("ephemeral-storage", False, False, True),
        ("pods", False, False, False),
        ("storage", False, False, False),
        ("example.com/gpu", True, True, True),
        ("kubernetes.io/batch-cpu", False, True, True),
        ("node.kubernetes.io/x", False, True, True),
        ("requests.example.com/x", False, False, False),
        ("hugepages-1Gi", False, True, True),
        ("attachable-volumes-csi-x", False, True, True),
    ],
)
def test_which_resources_count(resource: str, extended: bool, scalar: bool, counted: bool) -> None:
    said = (requests.is_extended(resource), requests.is_scalar(resource), requests.is_counted(resource))
    assert said == (extended, scalar, counted)


def test_allocatable_always_knows_pods_and_drops_what_does_not_count() -> None:
    amounts: dict[str, str | int | float] = {"cpu": "1500m", "memory": "1Ki", "storage": "5", "example.com/gpu": 2}
    assert requests.compute_allocatable(amounts) == {"cpu": 1500, "memory": 1024, "example.com/gpu": 2, "pods": 0}
    assert requests.compute_allocatable(None) == {"pods": 0}


kinds = st.sampled_from(["container", "init", "sidecar"])


@given(st.lists(st.tuples(kinds, st.integers(0, 5000)), max_size=8), st.integers(0, 100))
def test_init_containers_and_sidecars_against_a_run_through(containers: list[tuple[str, int]], overhead: int) -> None:
    """The pod needs the most that runs at one time: each init step beside the sidecars so far, then everything."""
    pod = make_pod().overhead(cpu=f"{overhead}m")
    sidecars, peak = 0, 0
    for kind, milli in containers:
        pod.container({"cpu": f"{milli}m"}, init=kind == "init", sidecar=kind == "sidecar")
        if kind == "init":
            peak = max(peak, sidecars + milli)
        elif kind == "sidecar":
            sidecars += milli
    peak = max(peak, sidecars + sum(milli for kind, milli in containers if kind == "container"))
    assert pod.info().requests["cpu"] == peak + overhead


@pytest.mark.parametrize(
    ("one", "two", "memory"),
    [("20E", "1e9", 1553255926290448384 + 10**9), ("500M", "20E", 1553255926290448384 + 500 * 10**6)],
)
def test_a_sum_beyond_int64_wraps_around_as_in_kube_scheduler(one: str, two: str, memory: int) -> None:
    assert make_pod().request(memory=one).request(memory=two).info().requests["memory"] == memory


def test_many_limits_share_their_strings_with_the_requests() -> None:
    amounts = {f"example.com/{n}": "10" for n in range(MANY_AMOUNTS + 1)} | {"pods": 10}
    document = msgspec.json.encode({"requests": amounts, "limits": amounts})
    found = msgspec.json.decode(document, type=ResourceRequirements)
    assert found.requests is not None
    assert found.limits is not None
    assert found.requests == found.limits == amounts
    assert [*map(id, found.requests)] == [*map(id, found.limits)]
    assert len({id(each) for each in found.limits.values()}) == 2
