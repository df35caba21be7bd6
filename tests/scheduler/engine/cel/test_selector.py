"""Selectors compile, match and fail with the words of the API server and of kube-scheduler."""

from __future__ import annotations

import pytest

from scheduler.engine.cel import CelDevice, CelError, CelRuntimeError, compile_selector

GPU = CelDevice(
    "gpu.example.com",
    {
        "model": {"string": "A100"},
        "index": {"int": 3},
        "ecc": {"bool": True},
        "driverVersion": {"version": "2.0.0"},
        "nic.example.com/speed": {"int": 25},
    },
    {"memory": {"value": "40Gi"}},
)
ATTRIBUTES = 'device.attributes["gpu.example.com"]'


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("true", True),
        ('device.driver == "gpu.example.com"', True),
        ("device.allowMultipleAllocations", False),
        (f'{ATTRIBUTES}.model == "A100"', True),
        (f"{ATTRIBUTES}.ecc", True),
        (f"{ATTRIBUTES}.?numa.orValue(3) == 3", True),
        (f"has({ATTRIBUTES}.numa) && {ATTRIBUTES}.numa == 0", False),
        (f"{ATTRIBUTES}.numa == 0 || {ATTRIBUTES}.ecc", True),
        ('device.attributes["nic.example.com"].speed >= 10', True),
        (f'{ATTRIBUTES}.driverVersion.isGreaterThan(semver("1.9.0"))', True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("41Gi")) >= 0', False),
        (f"cel.bind(gpu, {ATTRIBUTES}, gpu.ecc && gpu.index > 2)", True),
        (f"[1, 3].exists(i, i == {ATTRIBUTES}.index)", True),
    ],
)
def test_a_selector_matches_devices(expression: str, matches: bool) -> None:
    assert compile_selector(expression).matches(GPU) is matches


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{ATTRIBUTES}.numa == 0", "no such key: numa"),
        (f"{ATTRIBUTES}.index / 0 == 1", "division by zero"),
        (f"semver({ATTRIBUTES}.model).major() == 1", "No Major.Minor.Patch elements found"),
        (
            f'{ATTRIBUTES}.model.isGreaterThan(semver("1.0.0"))',
            "no such overload: isGreaterThan(string, kubernetes.Semver)",
        ),
        (
            f'{ATTRIBUTES}.?ecc.value().orValue(quantity("1")).isLessThan(quantity("1"))',
            "no such overload: isLessThan(bool, kubernetes.Quantity)",
        ),
    ],
)
def test_a_failed_evaluation_has_the_words_of_kube_scheduler(expression: str, message: str) -> None:
    with pytest.raises(CelRuntimeError) as error:
        compile_selector(expression).matches(GPU)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.no", "compilation failed: ERROR: <input>:1:7: undefined field 'no'\n | device.no\n | ......^"),
        (
            "!!-x",
            "compilation failed: ERROR: <input>:1:4: Syntax error: no viable alternative at input '-x'\n"
            " | !!-x\n | ...^",
        ),
        (
            "1 == -\n !x",
            "compilation failed: ERROR: <input>:2:2: Syntax error: no viable alternative at input '-\\n !'\n"
            " |  !x\n | .^",
        ),
        (
            '!-"\\',
            "compilation failed: ERROR: <input>:1:3: Syntax error: token recognition error at: '\"\\'\n"
            ' | !-"\\\n | ..^\n'
            "ERROR: <input>:1:5: Syntax error: no viable alternative at input '-'\n | !-\"\\\n | ....^",
        ),
        ('int("x") == 1', "program instantiation failed: type conversion error from 'string' to 'int'"),
    ],
)
def test_a_refused_expression_has_the_words_of_the_api_server(expression: str, message: str) -> None:
    with pytest.raises(CelError) as error:
        compile_selector(expression)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('timestamp("0001-01-01T00:30:00-01:00") - duration("1h")', "0000-12-31T23:30:00-01:00"),
        ('timestamp("9999-12-31T23:30:00+01:00") + duration("1h")', "10000-01-01T00:30:00+01:00"),
        ('timestamp("9999-12-31T23:59:59Z").getFullYear("+01:00")', "10000"),
        ('timestamp("0001-01-01T00:00:00Z").getFullYear("-01:00")', "0"),
        ('timestamp("0001-01-01T00:00:00Z").getMonth("-01:00")', "11"),
        ('timestamp("2024-02-29T12:00:00Z").getHours("26:00")', "14"),
        ('timestamp("2024-02-29T12:00:00Z").getDayOfWeek("26:00")', "5"),
    ],
)
def test_local_times_may_be_out_of_the_years_of_timestamps(expression: str, text: str) -> None:
    assert compile_selector(f'string({expression}) == "{text}"').matches(GPU)


def test_a_malformed_version_makes_every_evaluation_fail() -> None:
    device = CelDevice("d", {"v": {"version": "1"}}, {})
    with pytest.raises(
        CelRuntimeError, match=r"^attribute v: parse semantic version: No Major\.Minor\.Patch elements found$"
    ):
        compile_selector("true").matches(device)


def test_devices_alike_in_what_is_read_have_one_key() -> None:
    selector = compile_selector(f"cel.bind(gpu, {ATTRIBUTES}, gpu.ecc && gpu.index > 2)")
    one = CelDevice("gpu.example.com", {"ecc": {"bool": True}, "index": {"int": 3}, "uuid": {"string": "a"}}, {})
    two = CelDevice("gpu.example.com", {"ecc": {"bool": True}, "index": {"int": 3}, "uuid": {"string": "b"}}, {})
    assert selector.key(one) == selector.key(two)
    number = CelDevice("gpu.example.com", {"ecc": {"int": 1}, "index": {"int": 3}}, {})
    assert selector.key(one) != selector.key(number)
