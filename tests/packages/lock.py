"""What packages/lock.txt has for an installation."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cache

from tests.processes import ROOT


@dataclass(frozen=True)
class Locked:
    """One requirement of the lock, without its hashes."""

    name: str
    extras: str  # between brackets, "": none
    version: str
    marker: str  # "": everywhere


@cache
def export(installation: str) -> str:
    """Return the requirements of an installation, as packages/locked.sh prints them."""
    command = [str(ROOT / "packages/locked.sh"), installation]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@cache
def locked(installation: str) -> frozenset[Locked]:
    """Return what the lock has for an installation."""
    lines = re.findall(r"^([\w.-]+)(?:\[([\w,-]+)\])?==(\S+)(?: ; (.*?))? \\$", export(installation), re.MULTILINE)
    return frozenset(Locked(*line) for line in lines)
