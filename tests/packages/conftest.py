"""Wheels, once for all tests of a worker."""

from pathlib import Path

import pytest

from tests.packages.wheels import wheels


@pytest.fixture(scope="session")
def wheel_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ours, and every locked one: install.sh needs no network with it."""
    return wheels(tmp_path_factory.mktemp("wheels"))
