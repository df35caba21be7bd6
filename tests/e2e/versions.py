"""Code of earlier versions, out of this repository's own history, to be run beside this tree's.

Owns: which versions, and folders that hold them. Does not own: what is done with them (`rollout`).

Invariant: what runs from such a folder is that version's code with today's dependencies, and says so: its version
number is one that no other version has.
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
    """A version of the two servers: what it calls itself, and the folder with its code."""

    number: str
    tree: Path


@dataclass(frozen=True)
class Earlier:
    """A version of before, and why that one."""

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


def missing(earlier: Earlier) -> str:
    """Why that version cannot be run here; "" where it can."""
    asked = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{earlier.commit}^{{commit}}"], capture_output=True, check=False
    )
    if asked.returncode == 0:
        return ""
    return (
        f"UPGRADE AND ROLLBACK NOT RUN: commit {earlier.commit[:12]} ({earlier.why}) is not in this clone's history;"
        " git fetch --unshallow brings it"
    )


def unpacked(earlier: Earlier, folder: Path) -> Version:
    """That version's code in a folder."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", earlier.commit], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    for name in earlier.version_files:
        file = folder / name
        text, found = re.subn(r'(__version__ = )"[^"]+"', rf'\1"{earlier.number}"', file.read_text())
        assert found == 1, f"{name} of {earlier.commit} does not say its version"
        file.write_text(text)
    return Version(earlier.number, folder)
