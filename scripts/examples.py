"""Apply the example changes in `tests/contract/examples/` to copies of the tree; refresh them with `make examples`.

`test_examples.py` says what each example must show.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PATCHES: Final = sorted((ROOT / "tests/contract/examples").glob("*.patch"))
_IGNORED: Final = shutil.ignore_patterns(".*_cache", ".git", ".venv*", ".hypothesis", "__pycache__", "node_modules")


def copy_tree(to: Path) -> Path:
    """Copy the project, without what programs generate, to a new directory and return it."""
    return Path(shutil.copytree(ROOT, to, ignore=_IGNORED, symlinks=True))


def changed_files(patch: str) -> list[str]:
    """Return the paths of the files that a patch adds, changes or removes."""
    return re.findall(r"^diff --git a/\S+ b/(\S+)$", patch, re.MULTILINE)


def apply_patch(patch: Path, tree: Path, *options: str) -> None:
    """Apply a patch to a copy of the tree. Raises ValueError with the files that no longer match."""
    done = _git(tree, "apply", *options, str(patch))
    if done.returncode:
        raise ValueError(
            f"{patch.name} no longer applies; run `make examples`, or edit the patch where that fails:\n{done.stderr}"
        )


def refresh(patch: Path) -> None:
    """Rewrite a patch file so that it matches the present tree exactly.

    Raises ValueError if the patch does not apply with one line of context around each change.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_tree(Path(folder) / "tree")
        files = changed_files(patch.read_text())
        _git(tree, "init", "--quiet")
        _git(tree, "add", "--force", "--", *[file for file in files if (tree / file).exists()])
        apply_patch(patch, tree, "-C1", "--recount")
        _git(tree, "add", "--force", "--intent-to-add", "--", *files)
        patch.write_text(_git(tree, "diff", "--no-color", "--", *files).stdout)


def _git(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a copy of the tree and return its result. Repositories in directories above the copy are ignored."""
    command = ["git", "-C", str(tree), *arguments]
    environ = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(tree.parent), "HOME": str(tree)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    for example in PATCHES:
        refresh(example)
