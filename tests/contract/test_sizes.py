"""Functions stay small: few lines and few parameters. CONTRIBUTING.md states both limits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contract.test_layers import DISTRIBUTED

ROOT = Path(__file__).parents[2]
MAX_LINES = 80
MAX_PARAMETERS = 5
MIGRATIONS = "herodotus_endpoint/store/migrations/versions/"  # an initial migration lists every table
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text()
    for folder in (*DISTRIBUTED, "bench", "deploy", "packages", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if MIGRATIONS not in str(path)
}

# Functions that take more parameters, with the reason.
MORE_PARAMETERS = {
    "herodotus_cli/connection.py __init__": "a value object, in a module that may not import dataclasses",
    "herodotus_record/fields.py declare": "declares a record field, with a keyword for each property",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_functions(sources: dict[str, str]) -> Iterator[tuple[str, Function]]:
    """Yield each function and method with its file and name."""
    for file, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, Function):
                yield f"{file} {node.name}", node


def find_long_functions(sources: dict[str, str]) -> list[str]:
    lengths = [(where, (node.end_lineno or 0) - node.lineno + 1) for where, node in list_functions(sources)]
    return [f"{where}: {length} lines" for where, length in lengths if length > MAX_LINES]


def find_many_parameters(sources: dict[str, str]) -> set[str]:
    """Return the functions with more parameters than MAX_PARAMETERS, not counting `self` and `cls`."""
    found = set()
    for where, node in list_functions(sources):
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if len(names) - (names[:1] in (["self"], ["cls"])) > MAX_PARAMETERS:
            found.add(where)
    return found


def test_functions_fit_a_screen() -> None:
    assert find_long_functions(SOURCES) == []


def test_functions_with_many_parameters_take_a_value_object() -> None:
    assert find_many_parameters(SOURCES) == set(MORE_PARAMETERS)


TOO_LARGE = """
class A:
    def few(self, a, b, c, d, e): pass
    def many(self, a, b, c, *, d, e, f): pass
def long():
"""


def test_the_checks_find_what_is_too_large() -> None:
    sources = {"m.py": TOO_LARGE + "    pass\n" * MAX_LINES}
    assert find_many_parameters(sources) == {"m.py many"}
    assert find_long_functions(sources) == ["m.py long: 81 lines"]
