"""What holds for every test."""

import signal
from typing import Final

import pytest
from hypothesis import settings

SYSTEMS: Final = {"agents", "bench", "e2e"}  # folders of tests that start whole systems, or measure processor time

# a slow machine is no failure (a hung test is pytest-timeout's business), and every run tries the same examples
settings.register_profile("herodotus", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("herodotus")

# started in a shell's background we would ignore it, and with us every process that a test starts and interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers: whole systems run one after the other on one of them; every other file stays whole.

    A test of whole systems that fails is tried once more and reported as RERUN: half a dozen processes share two cores,
    and a stall of the machine is no fault of ours. What fails twice fails.
    """
    for item in items:
        system = item.path.parent.name in SYSTEMS
        item.add_marker(pytest.mark.xdist_group("systems" if system else item.nodeid.partition("::")[0]))
        if system:
            item.add_marker(pytest.mark.flaky(reruns=1))
