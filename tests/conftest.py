"""Hooks for every test."""

from __future__ import annotations

import random
import signal

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

# a slow machine is no failure (a hung test is pytest-timeout's business), and every run tries the same examples
settings.register_profile("herodotus", deadline=None, derandomize=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10, stateful_step_count=20)
settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("herodotus")

# started in a shell's background we would ignore it, and with us every process that a test starts and interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run files, and the tests of each, in an order drawn from it")


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed = config.getoption("shuffle")
    return [] if seed is None else [f"order: --shuffle {seed}"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("shuffle")
    if seed is not None:
        draw = random.Random(seed)
        ranks = {path: draw.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (ranks[item.path], draw.random()))


class SharedCasesScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Runs the tests of a file in one process, but those of a case in any: they share nothing, and are a long file."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith("tests/cases/") else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    return SharedCasesScheduling(config, log) if config.getoption("dist") == "loadfile" else None
