"""Builds docs/chart-values.md from the comments of the chart's values.yaml.

Owns: how a comment belongs to its value. Does not own: the values.

Invariant: each value has a comment directly above it, or is part of one that has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[2] / "deploy" / "chart" / "herodotus"
HEAD: Final = """# Values of the chart

For users of the Helm chart: every value of `deploy/chart/herodotus/values.yaml` with its default. This page is
generated from the comments there. How to set them: [installing.md](installing.md).
"""
TABLE: Final = "\n| value | default | meaning |\n|---|---|---|\n"


def text() -> str:
    """Return the document, with a section for each block and a row for each value."""
    source = (CHART / "values.yaml").read_text()
    values = yaml.safe_load(source)
    said = dict(_commented(source))
    silent = [leaf for leaf in _leaves(values) if not any(leaf == path or leaf.startswith(f"{path}.") for path in said)]
    if silent:
        raise ValueError(f"values.yaml says nothing of {', '.join(silent)}")
    parts = [HEAD]
    for block, paths in groupby(said, key=lambda path: path.partition(".")[0]):
        rows = list(paths)
        parts.append(f"\n## {block}\n")
        if "." not in rows[0] and isinstance(values[block], dict):
            parts.append(f"\n{said[rows.pop(0)]}\n")
        parts += [TABLE, *(_row(path, _at(values, path), said[path]) for path in rows)]
    return "".join(parts)


def _row(path: str, value: Any, said: str) -> str:
    default = "" if value in ("", [], {}) else f"`{json.dumps(value)}`"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{path}`", default, said)) + " |\n"


def _commented(source: str) -> Iterator[tuple[str, str]]:
    path: list[str] = []
    said: list[str] = []
    for line in source.splitlines():
        if found := re.fullmatch(r" *# ?(.*)", line):
            said.append(found[1])
            continue
        if found := re.match(r"( *)(\w+):", line):
            path[len(found[1]) // 2 :] = [found[2]]
            if said:
                yield ".".join(path), " ".join(said)
        said = []


def _leaves(values: dict[str, Any], place: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{place}{key}.")
        else:
            yield f"{place}{key}"


def _at(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values[key]
    return values
