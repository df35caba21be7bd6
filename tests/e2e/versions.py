"""Source trees of earlier versions from this repository's history, to run beside this one.

Owns: which versions, and the folders with their code. Does not own: what tests do with them (`rollout`).

Invariant: a tree runs with today's dependencies and reports a version number that no other tree has.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from herodotus_record.version import __version__
from tests.processes import ROOT


@dataclass(frozen=True)
class Version:
    """A version of the two servers: the number that it reports, and the folder with its code."""

    number: str
    tree: Path


@dataclass(frozen=True)
class Earlier:
    """An earlier version in the history, and why tests use it."""

    number: str
    commit: str
    why: str
    schema: str
    version_files: tuple[str, ...]  # in that commit: those that state its version number


# N-1: until versions are released, the last commit before the records of bindings with an unknown result.
BEFORE: Final = Earlier(
    "0.0.9",
    "d2223ff46f28a50424724ac368325c71b61767e8",
    "the version before",
    "0012",
    ("herodotus_record/version.py",),
)
# Older, with a database schema that it cannot return to: it must refuse with a clear message.
LONG_BEFORE: Final = Earlier(
    "0.0.8",
    "ac558ec7941289fab7464480f23bde1af1c8d0d8",
    "another schema",
    "0008",
    ("scheduler/version.py", "herodotus_endpoint/__init__.py"),
)

THIS: Final = Version(__version__, ROOT)


def reason_missing(earlier: Earlier) -> str:
    """Return why that version cannot be run here, or "" if it can."""
    checked = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{earlier.commit}^{{commit}}"], capture_output=True, check=False
    )
    if checked.returncode == 0:
        return ""
    return (
        f"UPGRADE AND ROLLBACK NOT RUN: commit {earlier.commit[:12]} ({earlier.why}) is not in this clone's history;"
        " git fetch --unshallow brings it"
    )


def unpack(earlier: Earlier, folder: Path) -> Version:
    """Write that version's code to a folder and return it."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", earlier.commit], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    for name in earlier.version_files:
        file = folder / name
        text, found = re.subn(r'(__version__ = )"[^"]+"', rf'\1"{earlier.number}"', file.read_text())
        assert found == 1, f"{name} of {earlier.commit} does not say its version"
        file.write_text(text)
    return Version(earlier.number, folder)
