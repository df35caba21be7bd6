"""What holds for every test."""

import signal
from pathlib import PurePosixPath
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

SYSTEMS: Final = {"agents", "bench", "e2e"}  # folders of tests that start whole systems, or measure processor time

# a slow machine is no failure (a hung test is pytest-timeout's business), and every run tries the same examples
settings.register_profile("herodotus", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("herodotus")

# started in a shell's background we would ignore it, and with us every process that a test starts and interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of whole systems that fails is tried once more and reported as RERUN.

    Half a dozen processes share two cores, and a stall of the machine is no fault of ours. What fails twice fails.
    """
    for item in items:
        if item.path.parent.name in SYSTEMS:
            item.add_marker(pytest.mark.flaky(reruns=1))


class _Rooms(LoadScopeScheduling):
    """With several workers: whole systems run one after the other on one of them; every other file stays whole.

    By file names, as xdist's own groups are lost in pytest 9.2: it no longer reads where xdist 3.8 writes them.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "systems" if PurePosixPath(file).parent.name in SYSTEMS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """xdist asks for this where there are several workers."""
    return _Rooms(config, log)
