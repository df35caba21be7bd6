"""Which tolerations cover which taints."""

import pytest

from scheduler.engine.objects.taints import is_tolerated, tolerates
from scheduler.engine.objects.types import Taint, Toleration

GPU = Taint(key="dedicated", value="gpu", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param(
            Toleration(key="dedicated", operator="Equal", value="gpu", effect="NoSchedule"), True, id="the very taint"
        ),
        pytest.param(
            Toleration(key="dedicated", value="gpu"), True, id="no operator means Equal, no effect every effect"
        ),
        pytest.param(Toleration(key="dedicated", operator="Exists"), True, id="any value"),
        pytest.param(
            Toleration(key="dedicated", operator="Exists", value="cpu"), True, id="Exists does not look at the value"
        ),
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(operator="Exists", effect="NoSchedule"), True, id="everything of the effect"),
        pytest.param(Toleration(value="gpu"), True, id="an empty key skips the key, whatever the operator"),
        pytest.param(Toleration(), False, id="an empty one has the value empty"),
        pytest.param(Toleration(key="dedicated", value="cpu"), False, id="another value"),
        pytest.param(Toleration(key="dedicated"), False, id="Equal needs the value"),
        pytest.param(Toleration(key="other", operator="Exists"), False, id="another key"),
        pytest.param(Toleration(operator="Exists", effect="NoExecute"), False, id="another effect"),
        pytest.param(
            Toleration(key="dedicated", operator="Gt", value="1"), False, id="Gt is behind a gate that is off"
        ),
        pytest.param(Toleration(key="dedicated", operator="exists"), False, id="operators are case sensitive"),
    ],
)
def test_one_toleration(toleration: Toleration, covers: bool) -> None:
    assert tolerates(toleration, GPU) is covers


def test_one_that_covers_is_enough() -> None:
    assert is_tolerated(GPU, [Toleration(key="x", operator="Exists"), Toleration(key="dedicated", operator="Exists")])
    assert not is_tolerated(GPU, [])


@pytest.mark.parametrize(
    ("operator", "limit", "value", "covers"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "-7", True),
        ("Lt", "5", "5", False),
        ("Lt", "5", "04", False),
        ("Lt", "5", "+4", False),
        ("Lt", "five", "4", False),
        ("Lt", "-0", "-1", False),
        ("Lt", "9223372036854775807", "9223372036854775806", True),
        ("Gt", "1", "9223372036854775808", False),
        ("Gt", "", "1", False),
    ],
)
def test_with_their_gate_operators_compare_canonical_integers(
    operator: str, limit: str, value: str, covers: bool
) -> None:
    toleration = Toleration(key="level", operator=operator, value=limit)
    taint = Taint(key="level", value=value, effect="NoSchedule")
    assert tolerates(toleration, taint, comparison_operators=True) is covers
    assert not tolerates(toleration, taint)
