"""A rejected node names the request that lacks devices, and what stops each device."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_answers.wording import describe_reason
from tests.scheduler.engine.dra.builders import (
    DRIVER,
    Json,
    allocated,
    claim,
    decide,
    device,
    device_class,
    exactly,
    node,
    pod,
    slice_on,
    verdict,
)

CLASS = device_class("gpu", f'device.driver == "{DRIVER}"')
BROKEN = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
COUNTERS = {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "30Gi"}}}]}
MEMORY = f'device.attributes["{DRIVER}"].memory >= 40'
LARGE = f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("80Gi"))'


def shortage(wanted: Json, *objects: Json) -> dict[str, str]:
    (reason,) = verdict(decide(pod("c"), node("n"), CLASS, wanted, *objects), "n").reasons
    assert reason.code == "cannot-allocate"
    return dict(reason.params)


def of(name: str, value: Any) -> Json:
    return {"attributes": {name: value}}


@pytest.mark.parametrize(
    ("request_", "devices", "stoppers"),
    [
        pytest.param(exactly("r"), [], "no ResourceSlice has devices for the node", id="none"),
        pytest.param(exactly("r", 2), [device("a")], "the node has no more devices", id="few"),
        pytest.param(
            exactly("r", 1, MEMORY),
            [device("a", **of("memory", {"int": 16})), device("b", **of("memory", {"int": 24}))],
            f"selector #0 of the request is false ({MEMORY}): a (memory is 16), b (memory is 24)",
            id="selector",
        ),
        pytest.param(
            exactly("r", 1, LARGE),
            [device("a", capacity={"memory": {"value": "81559Mi"}})],
            f"selector #0 of the request is false ({LARGE}): a (memory is 81559Mi)",
            id="capacity-in-selector",
        ),
        pytest.param(exactly("r"), [device("a", taints=[BROKEN])], "taint broken=yes:NoSchedule: a", id="taint"),
        pytest.param(
            exactly("r", capacity={"requests": {"memory": "80Gi"}}),
            [device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})],
            "40Gi of 40Gi memory left, 80Gi wanted: a",
            id="capacity",
        ),
        pytest.param(
            exactly("r", 6, MEMORY),
            [device(name, **of("memory", {"int": 16})) for name in "abcdef"],
            f"selector #0 of the request is false ({MEMORY}): {', '.join(f'{name} (memory is 16)' for name in 'abcd')}"
            " and 2 more",
            id="bounded",
        ),
    ],
)
def test_what_stops_a_device_is_named(request_: Json, devices: list[Json], stoppers: str) -> None:
    found = shortage(claim("c", request_), slice_on("n", *devices))
    assert found["stoppers"] == stoppers
    assert (found["claim"], found["request"], found["devices"]) == ("c", "r", str(len(devices)))


def test_a_device_in_use_names_the_claims_that_hold_it() -> None:
    found = shortage(
        claim("c", exactly("r", 2)),
        slice_on("n", device("a"), device("b"), device("c")),
        allocated("x", "n", "a"),
        allocated("y", "n", "b"),
    )
    assert found["stoppers"] == "in use: a, b"
    assert found["holders"] == "default/x, default/y"
    assert found["users"] == "default/x-pod, default/y-pod"
    assert (found["needed"], found["usable"]) == ("2", "1")


def test_an_exhausted_counter_is_named() -> None:
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    shared = slice_on("n", sharedCounters=counters)
    del shared["spec"]["nodeName"], shared["spec"]["devices"]
    shared["metadata"]["name"], shared["spec"]["allNodes"] = "counters", True
    parts = slice_on("n", device("a", **COUNTERS), device("b", **COUNTERS))
    for each in (shared, parts):
        each["spec"]["pool"] = {"name": "n", "generation": 1, "resourceSliceCount": 2}
    found = shortage(claim("c", exactly("r")), shared, parts, allocated("x", "n", "a"))
    assert found["stoppers"] == "in use: a; counter card/memory exhausted: b"


def test_requests_that_compete_for_devices_are_told_apart_from_a_lack_of_devices() -> None:
    found = shortage(claim("c", exactly("r"), exactly("s")), slice_on("n", device("a")))
    assert (found["needed"], found["usable"]) == ("2", "1")
    assert found["stoppers"] == "each request alone has enough devices, but they compete for the same ones"


def test_an_unsatisfiable_constraint_is_named() -> None:
    numa = f"{DRIVER}/numa"
    devices = [device("a", **of("numa", {"int": 0})), device("b", **of("numa", {"int": 1}))]
    found = shortage(claim("c", exactly("r", 2), constraints=[{"matchAttribute": numa}]), slice_on("n", *devices))
    assert found["stoppers"] == f"no combination has one value of {numa}"


def test_a_device_in_use_that_would_satisfy_a_constraint_is_named() -> None:
    root = f"{DRIVER}/root"
    devices = [device(name, **of("root", {"int": number})) for name, number in (("a", 0), ("b", 1), ("c", 1))]
    wanted = claim("c", exactly("r", 2), constraints=[{"matchAttribute": root}])
    found = shortage(wanted, slice_on("n", *devices), allocated("x", "n", "c"))
    assert found["stoppers"] == f"no combination has one value of {root}; in use: c"
    assert (found["holders"], found["users"]) == ("default/x", "default/x-pod")


def test_of_alternatives_the_one_whose_device_is_in_use_is_named() -> None:
    large = exactly("large", 1, MEMORY)["exactly"] | {"name": "large"}
    small = exactly("small")["exactly"] | {"name": "small"}
    wanted = claim("c", {"name": "r", "firstAvailable": [large, small]})
    found = shortage(wanted, slice_on("n", device("a", **of("memory", {"int": 16}))), allocated("x", "n", "a"))
    assert (found["request"], found["stoppers"]) == ("r/small", "in use: a")


def test_the_short_text_of_the_reason_shows_the_count_and_the_stoppers() -> None:
    decided = decide(pod("c"), node("n"), CLASS, claim("c", exactly("r", 2)), slice_on("n", device("a")))
    (reason,) = verdict(decided, "n").reasons
    assert describe_reason(reason) == (
        "request r of claim c: 1 of 1 devices usable, 2 needed (the node has no more devices)"
    )


def test_many_different_explanations_are_bounded_and_the_verdict_stays() -> None:
    names = [f"n{i}" for i in range(80)]
    slices = [slice_on(name, device(f"gpu-{name}", taints=[BROKEN])) for name in names]
    decided = decide(pod("c"), CLASS, claim("c", exactly("r")), *map(node, names), *slices)
    run = next(run for run in decided.result.trace.filters if run.plugin == "DynamicResources")
    assert len(run.verdicts.table) <= 66
    assert {reason.code for v in run.verdicts.table for reason in v.reasons} == {"cannot-allocate"}
    assert decided.result.message.startswith("0/80 nodes are available: 80 cannot allocate all claims.")
