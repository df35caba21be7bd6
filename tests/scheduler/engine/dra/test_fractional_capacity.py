"""DRAFractionalCapacityRange: what a request consumes of a range with fractions, and what its policy refuses."""

from __future__ import annotations

import msgspec
import pytest

from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.engine.dra.capacity import consume, fits
from scheduler.engine.objects.resource_api import CapacityRequirements, Device
from scheduler.engine.rules import Rules
from tests.scheduler.engine.dra.builders import Json


def shared(valid_range: Json, default: str | None = None) -> Device:
    policy = {"validRange": valid_range, **({} if default is None else {"default": default})}
    capacity = {"cores": {"value": "10", "requestPolicy": policy}}
    return msgspec.convert({"name": "a", "allowMultipleAllocations": True, "capacity": capacity}, Device)


def asking(cores: str) -> CapacityRequirements:
    return CapacityRequirements(requests={"cores": cores})


TENTHS = {"min": "100m", "max": "4", "step": "100m"}
WHOLE = {"min": "1", "max": "4", "step": "1"}


@pytest.mark.parametrize(
    ("valid_range", "wanted", "fractions", "consumed", "is_valid"),
    [
        (TENTHS, "50m", True, "100m", True),
        (TENTHS, "100m", True, "100m", True),
        (TENTHS, "101m", True, "200m", True),
        (TENTHS, "1950m", True, "2", True),
        (TENTHS, "4", True, "4", True),
        (TENTHS, "4050m", True, "4100m", False),
        (TENTHS, "100500u", True, "100500u", False),
        ({"min": "500m", "step": "250m"}, "600m", True, "750m", True),
        ({"min": "500m"}, "600m", True, "600m", True),
        (WHOLE, "1500m", True, "2", True),
        (WHOLE, "1500m", False, "2", True),
        (TENTHS, "50m", False, "100m", True),
        (TENTHS, "250m", False, "1", True),
        ({"min": "1Gi", "step": "1Gi"}, "1500Mi", True, "2Gi", True),
    ],
)
def test_requests_are_rounded_up_to_a_step_of_the_range(
    valid_range: Json, wanted: str, fractions: bool, consumed: str, is_valid: bool
) -> None:
    device = shared(valid_range)
    if valid_range["min"] == "1Gi":
        device = msgspec.structs.replace(
            device, capacity={"cores": msgspec.structs.replace((device.capacity or {})["cores"], value="4Gi")}
        )
    assert consume(asking(wanted), device, fractions=fractions) == {"cores": consumed}
    assert fits(asking(wanted), device, {}, fractions=fractions) is is_valid


def test_what_others_consume_counts() -> None:
    used = {"cores": 9_500_000_000}
    assert fits(asking("450m"), shared(TENTHS), used, fractions=True)
    assert not fits(asking("501m"), shared(TENTHS), used, fractions=True)


@pytest.mark.parametrize(("minor", "on"), [("v1.36", False), ("v1.37", True)])
def test_fractions_count_from_v1_37_on(minor: str, on: bool) -> None:
    rules = Rules.from_settings({}, KubernetesVersion.parse(minor))
    assert rules.enabled("DRAFractionalCapacityRange") is on
