"""Each kind of change takes few hand-written files, as CONTRIBUTING.md says, and derives the rest.

`examples/` holds one patch per kind of change. Each is applied to a copy of the tree, where the references are
generated and the tests of the patch and of the contracts run. `make examples` refreshes the patches after the files
that they change have moved on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.examples import PATCHES, ROOT, apply_patch, changed_files, copy_tree

GENERATED = (
    "docs/record.md",
    "docs/parity.md",
    "docs/commands.md",
    "deploy/aggregated-api/",
)
REGENERATED = [
    "tests/contract/test_references.py",
    "tests/cli/commands/test_reference.py",
]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow"]
# besides the patch's own tests, those of the contracts from which such a change derives the rest
CONTRACTS = {
    "route": [
        "tests/endpoint/test_routes.py",
        "tests/endpoint/test_openapi.py::test_document_has_exactly_the_routes_of_the_app",
        "tests/endpoint/test_openapi.py::test_group_document_has_its_routes_and_kinds",
        "tests/endpoint/access/test_required_rights.py",
    ],
    "field": ["tests/contract/test_disclosure.py", "tests/contract/test_references.py", "tests/record/test_codec.py"],
    "answer": ["tests/contract/test_answer_schemas.py", "tests/client/test_client.py"],
    "screen": [
        "tests/contract/test_disclosure.py",
        "tests/contract/test_answer_schemas.py",
        "tests/cli/render/test_screens.py",
    ],
    "command": ["tests/cli/commands/test_reference.py"],
    "plugin": ["tests/contract/test_docs.py", "tests/scheduler/engine/plugins/test_registry.py"],
    "column": ["tests/scheduler/engine/columns", "tests/scheduler/engine/test_cache_verification.py"],
    "rule": ["tests/scheduler/engine/rules", "tests/contract/test_references.py"],
}


def hand_written(patch: str) -> list[str]:
    return [file for file in changed_files(patch) if not file.startswith(("tests/", *GENERATED))]


def allowed() -> dict[str, int]:
    """Return the highest number of files for each patch, from the table in CONTRIBUTING.md."""
    rows = re.findall(
        r"^\|[^|]+\| (\d+) \| \[[^]]+\]\(tests/contract/examples/(\w+)\.patch\) \|$",
        (ROOT / "CONTRIBUTING.md").read_text(),
        re.MULTILINE,
    )
    return {patch: int(number) for number, patch in rows}


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_example_takes_no_more_files_than_contributing_says(patch: Path) -> None:
    files = hand_written(patch.read_text())
    assert 1 <= len(files) <= allowed()[patch.stem], files


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_example_applies_to_the_tree(patch: Path) -> None:
    """Run `make examples` if this fails."""
    done = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_example_works_and_keeps_every_contract(patch: Path, tmp_path: Path) -> None:
    tree = copy_tree(tmp_path / "tree")
    apply_patch(patch, tree)
    tests = [file for file in changed_files(patch.read_text()) if file.startswith("tests/")]
    run(tree, [*PYTEST, *REGENERATED], HERODOTUS_REGENERATE="1")
    run(tree, [*PYTEST, *tests, *CONTRACTS[patch.stem]])
    run(tree, [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"])
    shutil.rmtree(tree)


def run(tree: Path, command: list[str], **variables: str) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "HERODOTUS_"))}
    environ |= variables | {"PYTHONPATH": str(tree), "HYPOTHESIS_STORAGE_DIRECTORY": str(tree / "hypothesis")}
    done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
