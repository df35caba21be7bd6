"""Measures how long selectors take: `python -m bench.cel.speed`.

The columns are the time to compile an expression, to evaluate it on a device, and to answer for a device when the
result for its values is remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from bench.cel.names import A, C
from scheduler.engine.cel import CelDevice, compile_selector
from scheduler.engine.cel.selector import Selector, compile_anew

_DEVICES: Final = 8000  # 1,000 nodes with 8 devices each
_SHORTEST_S: Final = 0.3
EXPRESSIONS: Final = {
    "attribute equals": f'{A}.model == "A100"',
    "three conditions": (f'{A}.model == "A100" && {C}.memory.compareTo(quantity("40Gi")) >= 0 && {A}.index >= 1'),
    "version": f'{A}.driverVersion.isGreaterThan(semver("1.9.0"))',
    "optional": f'{A}.?tier.orValue("none") == "none"',
    "in list": f'{A}.model in ["H100", "A100"]',
    "pattern": f'{A}.model.matches("^[AH][0-9]+$")',
    "bind": f"cel.bind(gpu, {A}, gpu.ecc && gpu.index > 2)",
    "loop over 10": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].exists(i, i == device.attributes['gpu.example.com'].uuid.size())",
    "loop over attributes": f'{A}.exists(name, name == "uuid")',
}


def device(number: int) -> CelDevice:
    """Return a device that differs from all others in its UUID."""
    attributes: dict[str, dict[str, Any]] = {
        "model": {"string": "A100"},
        "index": {"int": number % 8},
        "ecc": {"bool": True},
        "driverVersion": {"version": "2.0.0"},
        "uuid": {"string": f"gpu-{number}"},
    }
    return CelDevice("gpu.example.com", attributes, {"memory": {"value": "80Gi"}})


def measure_s(call: Callable[[], object]) -> float:
    """Return the time of one call, from as many as fill a moment."""
    count = 0
    start = time.perf_counter()
    while (taken := time.perf_counter() - start) < _SHORTEST_S:
        call()
        count += 1
    return taken / count


def main() -> None:
    """Print the figures of each expression."""
    devices = [device(number) for number in range(_DEVICES)]
    print(f"{'EXPRESSION':22} {'COMPILE':>9} {'EVALUATION':>11} {'REMEMBERED':>11}")
    for name, expression in EXPRESSIONS.items():
        selector = compile_selector(expression)
        compiling = measure_s(lambda: compile_anew(expression))  # noqa: B023  # called at once
        evaluating = measure_s(lambda: [selector.evaluate(each) for each in devices]) / _DEVICES  # noqa: B023
        remembering = measure_s(lambda: match_all(selector, devices)) / _DEVICES  # noqa: B023
        print(f"{name:22} {compiling * 1e6:6.0f} µs {evaluating * 1e6:8.2f} µs {remembering * 1e6:8.2f} µs")
    creating = measure_s(lambda: device(1))
    print(f"reading a device of 5 attributes: {creating * 1e6:.1f} µs")


def match_all(selector: Selector, devices: list[CelDevice]) -> None:
    """Ask a selector about all devices."""
    for each in devices:
        selector.matches(each)


if __name__ == "__main__":
    main()
