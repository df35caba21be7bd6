"""The object that `-f` names, as it was written.

Owns: reading YAML and JSON, and which object of several is meant: the one that asks for pods. Does not own: what it
asks for (the decisions service).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from herodotus_cli.errors import CliError
from herodotus_record.templates import is_pod_or_workload

Json = dict[str, Any]
STDIN = "-"
_LARGEST = 4 << 20  # characters; a file of manifests has kilobytes
_TIME = "tag:yaml.org,2002:timestamp"


def read(path: str) -> Json:
    """The one object of a file, or of standard input (`-`), that asks for pods; others beside it are passed over."""
    where = "standard input" if path == STDIN else path
    every = list(_objects(_documents(_text(path), where)))
    found = [o for o in every if is_pod_or_workload(o)]
    if len(found) == 1:
        return dict(found[0])
    if not found:
        kinds = ", ".join(sorted({str(o.get("kind")) for o in every if isinstance(o, dict)})) or "nothing"
        raise CliError(f"error: {where}: no Pod, and no workload with a template of pods", [f"it holds: {kinds}"])
    names = ", ".join(f"{o['kind']}/{(o.get('metadata') or {}).get('name', '')}" for o in found[:5])
    raise CliError(f"error: {where}: several objects ask for pods", [f"ask about one at a time: {names}"])


def _text(path: str) -> str:
    try:
        text = sys.stdin.read(_LARGEST + 1) if path == STDIN else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        why = getattr(e, "strerror", None) or "not a text file"
        raise CliError(f"error: {path}: {why}") from None
    if len(text) > _LARGEST:
        raise CliError(f"error: {path}: too large for a file of manifests")
    return text


def _documents(text: str, where: str) -> list[Any]:
    if text.lstrip()[:1] == "{":
        try:
            return [json.loads(text)]
        except ValueError:
            pass  # a mapping of YAML may begin so too
    import yaml  # here, because JSON needs none

    class Loader(yaml.SafeLoader):
        """A time is a text, as in Kubernetes' YAML."""

    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.items()
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != _TIME] for first, known in resolvers
    }
    try:
        return list(yaml.load_all(text, Loader=Loader))
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        mark = getattr(e, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise CliError(f"error: {where}: not valid YAML{line}") from None


def _objects(documents: list[Any]) -> Iterator[Any]:
    """Lists taken apart."""
    for document in documents:
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            yield from document.get("items") or []
        elif document is not None:
            yield document
