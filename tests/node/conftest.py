"""One real node for all tests in this folder, with images that are built from this tree."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.control_plane import assets
from tests.node.images import build_archives
from tests.node.installation import Installation, installed
from tests.node.load import LoadGenerator
from tests.node.machine import Machine, run_machine
from tests.node.requirements import RUN, find_missing


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """Run a control plane with one node until the last test."""
    if not os.environ.get(RUN):
        pytest.skip("NOT RUN: `make node`, as root on Debian, runs images in containers of a real kubelet")
    missing, binaries = find_missing(), assets()
    if missing or binaries is None:
        pytest.skip(f"NO REAL NODE: this machine lacks {', '.join(missing)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything ends and is removed then, too
    directory = Path(tempfile.mkdtemp(prefix="hdnode-"))  # short: sockets have paths of at most 108 bytes
    try:
        with run_machine(binaries, directory, [*build_archives()]) as found:
            yield found
    finally:
        if not os.environ.get("HERODOTUS_NODE_KEEP"):
            shutil.rmtree(directory)


@pytest.fixture(scope="module")
def installation(machine: Machine) -> Iterator[Installation]:
    """Install Herodotus as the README does, for all tests of a file."""
    with installed(Installation(machine)) as found:
        yield found


@pytest.fixture(scope="module")
def generator(installation: Installation) -> Iterator[LoadGenerator]:
    generator = LoadGenerator(installation)
    try:
        yield generator
    finally:
        generator.remove()
