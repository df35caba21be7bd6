"""Every recorded expression compiles, is refused and evaluates as on a real control plane (`python -m tests.golden.cel.record`)."""

import re
from functools import cache
from typing import Any

import pytest

from scheduler.engine.cel import CelDevice, CelError, CelRuntimeError, compile_selector
from tests.golden.cel.record import PANIC, read_recording

# A refusal is "<kind of error>: <detail>", where the kind of an invalid value repeats the expression.
PREFIX = re.compile(r'(?:Invalid value: "(?:[^"\\]|\\.)*": |Forbidden: |Internal error: )?')
# After the first syntax error upstream's parser recovers and may report more; ours stops.
FIRST_ERROR_ONLY = {
    'device.attributes["gpu.example.com"].in == 1',
    'device.driver /* comment */ == "x"',
}


lines = cache(read_recording)


def devices() -> dict[str, CelDevice]:
    return {
        line["name"]: CelDevice(
            line["driver"], line["attributes"], line["capacity"], line.get("allowMultipleAllocations", False)
        )
        for line in lines()
        if "name" in line
    }


def refusals() -> list[dict[str, Any]]:
    return [line for line in lines() if "refusal" in line]


def values() -> list[dict[str, Any]]:
    return [line for line in lines() if "value" in line]


def our_refusal(expression: str) -> str | None:
    try:
        compile_selector(expression)
    except CelError as error:
        return str(error)
    return None


def our_value(expression: str, device: CelDevice) -> bool | str:
    try:
        return compile_selector(expression).evaluate(device)
    except CelRuntimeError as error:
        return str(error)


def test_the_recording_has_all_kinds_of_verdicts() -> None:
    assert len(refusals()) >= 300
    assert {line["refusal"] is None for line in refusals()} == {True, False}
    assert sum("cost limit" in (line["refusal"] or "") for line in refusals()) >= 10
    assert {type(line["value"]) for line in values()} == {bool, str}
    assert {True, False} <= {line["value"] for line in values()}


def test_expressions_compile_or_are_refused_as_by_the_api_server() -> None:
    wrong = [
        (line["expression"], line["refusal"], ours)
        for line in refusals()
        if ((ours := our_refusal(line["expression"])) is None) is not (line["refusal"] is None)
    ]
    assert wrong == []


def test_refusals_have_the_words_of_the_api_server() -> None:
    wrong = []
    for line in refusals():
        if line["refusal"] not in (None, PANIC):
            theirs = PREFIX.sub("", line["refusal"], count=1)
            ours = our_refusal(line["expression"])
            assert ours is not None
            if line["expression"] in FIRST_ERROR_ONLY:
                assert theirs.startswith(ours)
            elif theirs != ours:
                wrong.append((line["expression"], theirs, ours))
    assert wrong == []


@pytest.mark.parametrize("name", devices())
def test_values_are_those_of_kube_scheduler(name: str) -> None:
    device = devices()[name]
    wrong = [
        (line["expression"], line["value"], ours)
        for line in values()
        if line["device"] == name and (ours := our_value(line["expression"], device)) != line["value"]
    ]
    assert wrong == []


def test_remembered_results_are_those_of_an_evaluation() -> None:
    known = devices()
    for line in values():
        selector = compile_selector(line["expression"])
        for device in known.values():
            for _ in range(2):
                try:
                    remembered: bool | str = selector.matches(device)
                except CelRuntimeError as error:
                    remembered = str(error)
                assert remembered == our_value(line["expression"], device), line["expression"]
