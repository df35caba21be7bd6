"""Records name the devices that a pod got, and how free devices are spread where none fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from herodotus_answers.pod import build_pod_explanation
from herodotus_record import codec
from herodotus_record.model import AllocatedDevice
from tests.scheduler.engine.dra.builders import (
    DRIVER,
    claim,
    decide,
    device,
    device_class,
    exactly,
    node,
    pod,
    slice_on,
)
from tests.support.answers import as_json

CLASS = device_class("gpu", f'device.driver == "{DRIVER}"')


def gpus(name: str, count: int) -> Any:
    return slice_on(name, *(device(f"gpu-{i}") for i in range(count)))


def test_the_devices_of_the_chosen_node_are_recorded() -> None:
    decision, table = decide(pod("c"), node("n"), CLASS, claim("c", exactly("r", 2)), gpus("n", 3)).record()
    assert [(d.claim, d.request, d.pool, d.device) for d in decision.devices] == [
        ("c", "r", "n", "gpu-0"),
        ("c", "r", "n", "gpu-1"),
    ]
    assert codec.decode(codec.encode(decision)).devices == decision.devices  # type: ignore[union-attr]
    answer = build_pod_explanation(decision, (), table)
    assert answer["devices"][0]["driver"] == DRIVER
    assert answer["deviceShortage"] is None


def test_a_device_of_a_record_that_does_not_mention_admin_access_has_none() -> None:
    decision, _ = decide(pod("c"), node("n"), CLASS, claim("c", exactly("r")), gpus("n", 1)).record()
    fields = msgspec.msgpack.decode(codec.encode(decision)[codec.HEADER_BYTES :])
    del fields["devices"][0]["admin_access"]
    stored = codec.decode(codec.build_frame(codec.DECISION, msgspec.msgpack.encode(fields)))
    assert stored.devices[0].admin_access is False  # type: ignore[union-attr]


def test_free_devices_on_several_nodes_are_counted_where_none_has_enough() -> None:
    nodes = [each for name, count in (("a", 3), ("b", 0), ("c", 2)) for each in (node(name), gpus(name, count))]
    decision, table = decide(pod("c"), CLASS, claim("c", exactly("r", 4)), *nodes).record()
    shortage = as_json(build_pod_explanation(decision, (), table)["deviceShortage"])
    assert (shortage["usable"], shortage["needed"], shortage["fragmented"]) == (5, 4, True)
    assert (
        shortage["text"]
        == "request r of claim c needs 4 devices on one node; 5 usable on 2 of 3 nodes, at most 3 on one: a 3, c 2"
    )


def test_no_free_device_is_no_fragmentation() -> None:
    decision, table = decide(pod("c"), node("a"), CLASS, claim("c", exactly("r"))).record()
    shortage = as_json(build_pod_explanation(decision, (), table)["deviceShortage"])
    assert shortage["text"] == "request r of claim c needs 1 device on one node; 0 usable on 0 of 1 nodes"
    assert not shortage["fragmented"]


def test_a_pod_without_claims_has_neither() -> None:
    decision, table = decide(pod(), node("a")).record()
    answer = build_pod_explanation(decision, (), table)
    assert (answer["devices"], answer["deviceShortage"]) == ([], None)


@pytest.mark.parametrize("amount", ["1Gi", "500m"])
def test_consumed_capacity_survives_the_codec(amount: str) -> None:
    decision, _ = decide(pod(), node("a")).record()
    shared = AllocatedDevice("c", "r", DRIVER, "a", "gpu-0", consumed_capacity={"memory": amount})
    decision = replace(decision, devices=(shared,))
    assert codec.decode(codec.encode(decision)) == decision
