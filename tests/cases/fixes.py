"""The files of the cases, and the commands of the first fix that an answer names."""

from __future__ import annotations

import re
import sys
from pathlib import Path

KUBECTL_FOLDER = Path(sys.executable).parent
CASES = sorted(Path(__file__).parent.glob("*/*.yaml"))


def list_fix_commands(answer: str) -> list[str]:
    """Return the lines with kubectl commands of an answer's first fix."""
    lines = answer.split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith("FIX")), len(lines))
    end = next((i for i, line in enumerate(lines) if i > start and re.match(r"\s*$|or\b", line)), len(lines))
    return [line.strip() for line in lines[start + 1 : end] if line.strip().startswith("kubectl ")]
