"""Answers of the plugin in local mode."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes import ROOT

Json = dict[str, Any]


class Answer(NamedTuple):
    """What the plugin printed: the document, and the lines on stderr."""

    document: Json
    notes: str


def ask_locally(kubeconfig: Path, *words: str) -> Answer:
    command = [sys.executable, str(ROOT / "kubectl-herodotus"), *words, "-o", "json", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return Answer(json.loads(done.stdout), done.stderr)
