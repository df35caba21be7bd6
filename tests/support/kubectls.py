"""The kubectl programs of this machine, and a fake one."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

KUBECTLS = sorted({str(p) for p in (Path(sys.executable).with_name("kubectl"), shutil.which("kubectl")) if p})


def fake_kubectl(folder: Path, script: str) -> dict[str, str]:
    """Return a fake kubectl that runs a script; its arguments and standard input go to files."""
    path = folder / "kubectl"
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/arguments\n{script}\n')
    path.chmod(0o755)
    return {"KUBECTL_PATH": str(path), "HOME": str(folder)}
