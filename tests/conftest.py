"""Hooks for every test."""

import signal
from pathlib import PurePosixPath
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

SYSTEMS: Final = {"agents", "bench", "e2e"}  # folders of tests that start whole systems, or measure processor time

# a slow machine is no failure (a hung test is pytest-timeout's business), and every run tries the same examples
settings.register_profile("herodotus", deadline=None, derandomize=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10, stateful_step_count=20)
settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("herodotus")

# started in a shell's background we would ignore it, and with us every process that a test starts and interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)


class _SystemsOnOneWorker(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """A distribution over workers: whole systems run one after the other on one of them, other files stay whole.

    It goes by file names because pytest 9.2 no longer reads xdist 3.8's groups.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "systems" if PurePosixPath(file).parent.name in SYSTEMS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Return the distribution that xdist uses with several workers."""
    return _SystemsOnOneWorker(config, log)
