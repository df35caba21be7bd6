"""Wheels that all tests of a worker share."""

from pathlib import Path

import pytest

from tests.packages.wheels import wheels


@pytest.fixture(scope="session")
def wheel_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with our wheels and every locked one, so that install.sh needs no network."""
    return wheels(tmp_path_factory.mktemp("wheels"))
