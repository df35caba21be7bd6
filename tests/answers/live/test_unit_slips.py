"""Amounts whose unit is a slip."""

from __future__ import annotations

from fractions import Fraction

import pytest

from herodotus_answers.live.unit_slips import find_unit_slip, list_small_limits


@pytest.mark.parametrize(
    ("resource", "amount", "largest", "meant"),
    [
        ("memory", "512m", None, "512Mi"),
        ("memory", "512", None, "512Mi"),
        ("memory", "500k", None, "500M"),
        ("ephemeral-storage", "1500m", None, "1500Mi"),
        ("storage", "10Ki", None, "10Mi"),
        ("memory", "4Ti", 1 << 34, "4Gi"),
        ("cpu", "500", 64, "500m"),
        ("cpu", "500Mi", None, "500m"),
        ("memory", "4Mi", 1 << 34, ""),
        ("memory", "32Gi", 1 << 34, ""),
        ("memory", "0", None, ""),
        ("memory", "", None, ""),
        ("cpu", "500m", 64, ""),
        ("cpu", "128", 96, ""),
        ("cpu", "500", None, ""),
        ("cpu", "500", 896, ""),
        ("nvidia.com/gpu", "500", 8, ""),
    ],
)
def test_an_amount_with_the_wrong_unit_is_recognized(
    resource: str, amount: str, largest: int | None, meant: str
) -> None:
    slip = find_unit_slip(resource, amount, None if largest is None else Fraction(largest))
    assert (slip.meant if slip else "") == meant
    assert slip is None or amount in slip.text


def test_limits_of_storage_are_looked_at_in_containers_and_volumes() -> None:
    limits = {"limits": {"ephemeral-storage": "500m", "memory": "64Mi"}}
    spec = {"containers": [{"name": "main", "resources": limits}], "volumes": [{"name": "tmp", "emptyDir": {}}]}
    spec["volumes"].append({"name": "cache", "emptyDir": {"sizeLimit": "100m"}})
    assert [(what, slip.meant) for _, what, slip in list_small_limits(spec)] == [
        ("container main", "500Mi"),
        ("volume cache", "100Mi"),
    ]
