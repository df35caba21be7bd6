"""What no linter checks of the code's structure; the layers of imports are import-linter's contracts."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import tomllib

from herodotus_answers.unrecorded import OBSERVE

ROOT = Path(__file__).parents[2]
CHECKED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]

# Class names in more than one module because they mean the same concept there.
SAME_CONCEPT: Final = {
    "NodeAffinity": "the field of a pod's spec, and the plugin that Kubernetes names after it",
    "Workload": "a kind of load in a benchmark, as scheduler_perf names it, and a controller's object",
    "StatusError": "an error answered as a Kubernetes Status, in two servers that share no package",
}


def list_classes(path: Path) -> set[str]:
    """Return the names of the classes in a module: parsing all modules, not only some, would take seconds."""
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}


def test_every_package_takes_part_in_the_contracts_of_imports() -> None:
    """Only bench takes none: it may import every package."""
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == {*CHECKED, "bench"}


def test_a_class_name_has_one_meaning() -> None:
    """The type of an answer's part may have the name of what it is about; among the answers a name is unique too."""
    modules: dict[tuple[str, bool], set[Path]] = defaultdict(set)
    for package in (*CHECKED, "bench", "deploy", "packages", "scripts"):
        for path in (ROOT / package).rglob("*.py"):
            for name in re.findall(r"^ *class ([^\W_]\w*)", path.read_text(), re.MULTILINE):
                modules[name, package == "herodotus_answers"].add(path)
    alike = {
        name: {path for path in paths if name in list_classes(path)}
        for (name, _), paths in modules.items()
        if len(paths) > 1
    }
    ambiguous = {name: paths for name, paths in alike.items() if len(paths) > 1}
    assert ambiguous.keys() == SAME_CONCEPT.keys(), ambiguous


def test_no_test_module_imports_from_another() -> None:
    """What several of them need is in tests/support, or in a helper module of their folder."""
    pattern = re.compile(
        r"^\s*from tests\.(?:\S+\.)?test_\w+ import|^\s*from tests\S* import .*\btest_\w+", re.MULTILINE
    )
    imports = {path: pattern.findall(path.read_text()) for path in (ROOT / "tests").rglob("*.py")}
    assert {path: lines for path, lines in imports.items() if lines} == {}


def test_types_are_decoded_into_by_one_module() -> None:
    """`typed_decoding` says why: two threads that use a type for the first time together end the process."""
    typed = re.compile(
        r"msgspec\.convert\(|msgspec\.(?:json|msgpack)\.(?:Decoder\([^)]|decode\([^()]*(?:\([^)]*\))?[^()]*\btype=)"
    )
    callers = {
        path.relative_to(ROOT).as_posix()
        for package in CHECKED
        for path in (ROOT / package).rglob("*.py")
        if typed.search(path.read_text())
    }
    assert callers == {"herodotus_record/typed_decoding.py"}


def test_pages_and_plugin_name_the_same_command_to_observe_a_scheduler() -> None:
    words = (ROOT / "herodotus_endpoint/pages/files/words.js").read_text()
    assert re.findall(r'const OBSERVE = "(.+)";', words) == [OBSERVE]
