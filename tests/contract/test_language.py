"""The language of the code: names and docstrings that a reader understands without the body.

ruff checks the form of docstrings (pep257) and test_document_language.py the documents.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.test_layers import DISTRIBUTED

ROOT = Path(__file__).parents[2]
PACKAGES = (*DISTRIBUTED, "bench", "deploy", "packages", "scripts")
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text()
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path != ROOT / "herodotus_client/answers.py"  # generated: its names and texts are those of the API
}

# Words that have an established term instead: request, response, report, cache, equivalence class, environment, …
FORBIDDEN_WORDS = frozenset(
    {
        *("said", "says", "told", "tells", "teller", "tellers", "asked", "asks", "whose", "whoever"),
        *(
            "bring",
            "brings",
            "gone",
            "goes",
            "comes",
            "came",
            "stands",
            "standing",
            "lies",
            "owed",
            "around",
            "besides",
        ),
        *("herd", "herds", "sight", "desk", "ahead", "motley", "restless", "turns", "turned", "crowded"),
        *("recall", "recollection", "surroundings", "restated"),
    }
)
# Prepositions alone are no names of functions: a verb says what they do.
FORBIDDEN_FUNCTIONS = frozenset({"of", "at", "by", "to"})

# Class names in more than one module because they mean the same concept there.
SAME_CONCEPT: dict[str, str] = {
    "NodeAffinity": "the field of a pod's spec, and the plugin that Kubernetes names after it",
    "Workload": "a kind of load in a benchmark, as scheduler_perf names it, and a controller's object",
    "StatusError": "an error answered as a Kubernetes Status, in two servers that share no package",
}

# Alembic calls `upgrade` of every migration; ruff does not ask for its docstring either.
WITHOUT_DOCSTRINGS = "herodotus_endpoint/store/migrations/versions/"
MIN_WORDS = 4  # A shorter docstring only repeats the name.


def words(name: str) -> set[str]:
    """Return the words of an identifier in snake case or camel case, in lower case."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_"))


def definitions(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def find_unclear_names(file: str, source: str) -> list[str]:
    """Return the module, classes, functions, methods and parameters that have a forbidden name."""
    found = [f"{file}: module {part}" for part in Path(file).with_suffix("").parts if words(part) & FORBIDDEN_WORDS]
    for node in definitions(ast.parse(source)):
        where = f"{file}:{node.lineno}"
        if words(node.name) & FORBIDDEN_WORDS:
            found.append(f"{where}: {node.name}")
        if isinstance(node, ast.ClassDef):
            continue
        if node.name in FORBIDDEN_FUNCTIONS:
            found.append(f"{where}: {node.name}()")
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        found += [f"{where}: {node.name}({a.arg})" for a in parameters if words(a.arg) & FORBIDDEN_WORDS]
    return found


def find_shared_class_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return each public class name that several modules define, with their files."""
    files: dict[str, list[str]] = defaultdict(list)
    for file, source in sources.items():
        for node in definitions(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(file)
    return {name: found for name, found in files.items() if len(found) > 1}


def find_incomplete_docstrings(file: str, source: str) -> list[str]:
    """Return the public modules, classes and functions without docstring, and all docstrings without a sentence."""
    tree = ast.parse(source)
    public = [
        node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]
    found = []
    for node in [tree, *definitions(tree)]:
        where = file if isinstance(node, ast.Module) else f"{file}:{node.lineno} {node.name}"
        text = ast.get_docstring(node)
        if text is None:
            if node is tree or (node in public and WITHOUT_DOCSTRINGS not in file):
                found.append(f"{where}: no docstring")
        elif not is_sentence(text.splitlines()[0]) or (node is not tree and len(text.split()) < MIN_WORDS):
            found.append(f"{where}: {text.splitlines()[0]!r}")
    return found


def is_sentence(line: str) -> bool:
    """Return whether a line starts with a capital letter, code or a number, and ends with a full stop."""
    return re.match(r"[A-Z0-9`\"']", line) is not None and line.endswith((".", ":"))


def violations(check: object, sources: dict[str, str] = SOURCES) -> list[str]:
    assert callable(check)
    return [violation for file, source in sources.items() for violation in check(file, source)]


def test_names_use_established_terms() -> None:
    assert violations(find_unclear_names) == []


def test_a_class_name_has_one_meaning() -> None:
    shared = find_shared_class_names(SOURCES)
    assert {name: files for name, files in shared.items() if name not in SAME_CONCEPT} == {}


def test_allowed_class_names_are_shared() -> None:
    assert set(SAME_CONCEPT) <= set(find_shared_class_names(SOURCES))


def test_docstrings_are_sentences() -> None:
    assert violations(find_incomplete_docstrings) == []


SNIPPET = '''"""A module."""

class AskedNodes:
    """The nodes."""

    def of(self, told_by):
        return told_by

def list_nodes(herdSize):
    """the nodes of a herd."""

def _private():
    pass

async def settle():
    """Wait until nothing changes."""
'''


def test_the_check_of_names_finds_each_kind() -> None:
    assert find_unclear_names("scheduler/desk.py", SNIPPET) == [
        "scheduler/desk.py: module desk",
        "scheduler/desk.py:3: AskedNodes",
        "scheduler/desk.py:9: list_nodes(herdSize)",
        "scheduler/desk.py:6: of()",
        "scheduler/desk.py:6: of(told_by)",
    ]


def test_the_check_of_class_names_finds_a_second_definition() -> None:
    assert find_shared_class_names({"a.py": SNIPPET, "b.py": SNIPPET, "c.py": "class Other: ..."}) == {
        "AskedNodes": ["a.py", "b.py"]
    }


def test_the_check_of_docstrings_finds_each_kind() -> None:
    source = SNIPPET + "\ndef main():\n    pass\n"
    assert find_incomplete_docstrings("m.py", source) == [
        "m.py:3 AskedNodes: 'The nodes.'",
        "m.py:9 list_nodes: 'the nodes of a herd.'",
        "m.py:18 main: no docstring",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Return the nodes.", True),
        ("`evaluate`: decide pods.", True),
        ("Return the nodes", False),
        ("the nodes.", False),
    ],
)
def test_a_sentence_has_a_capital_letter_and_a_full_stop(line: str, *, expected: bool) -> None:
    assert is_sentence(line) is expected
