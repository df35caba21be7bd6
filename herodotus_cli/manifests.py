"""Reads the manifest that `whatif -f` names.

Owns: parsing YAML and JSON, and choosing the Pod or workload among several objects. Does not own: the pods that the
object would create (the decisions service).
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
_MAX_LENGTH = 4 << 20  # characters; a file of manifests has kilobytes
_TIME = "tag:yaml.org,2002:timestamp"


def read(path: str) -> Json:
    """Return the only Pod or workload in a manifest file, or in standard input if `path` is `-`.

    Objects of other kinds are ignored. Raises CliError if there is no Pod or workload, or more than one.
    """
    return read_grouped(path)[0]


def read_grouped(path: str) -> tuple[Json, int]:
    """Return the only Pod or workload in a manifest file, as `read` does, and the minCount of the file's PodGroup.

    The number is 0 if the file has no PodGroup, or one whose pods are independent.
    """
    every = read_all(path, with_groups=True)
    objects = [obj for obj in every if not is_pod_group(obj)]
    if len(objects) == 1:
        policies = [(group.get("spec") or {}).get("schedulingPolicy") or {} for group in every if is_pod_group(group)]
        counts = [(policy.get("gang") or {}).get("minCount") for policy in policies]
        return objects[0], next((count for count in counts if isinstance(count, int)), 0)
    source = _describe(path)
    names = ", ".join(f"{o['kind']}/{(o.get('metadata') or {}).get('name', '')}" for o in objects[:5])
    raise CliError(f"error: {source}: several objects define pods", [f"put one of them into a file: {names}"])


def read_all(path: str, *, with_groups: bool = False) -> list[Json]:
    """Return every Pod and workload in a manifest file, or in standard input if `path` is `-`.

    With `with_groups`, they follow the PodGroups of the file. Objects of other kinds are ignored. Raises CliError if
    there is no Pod or workload.
    """
    every = list(_objects(read_documents(path)))
    objects = [dict(o) for o in every if is_pod_or_workload(o)]
    if objects and with_groups:
        return [*(dict(o) for o in every if is_pod_group(o)), *objects]
    if not objects:
        kinds = ", ".join(sorted({str(o.get("kind")) for o in every if isinstance(o, dict)})) or "nothing"
        message = f"error: {_describe(path)}: no Pod, and no workload with a template of pods"
        raise CliError(message, [f"it holds: {kinds}"])
    return objects


def is_pod_group(obj: Any) -> bool:
    """Return whether an object is a PodGroup of Kubernetes; other projects have kinds of the same name."""
    version = obj.get("apiVersion") if isinstance(obj, dict) else None
    return bool(version) and obj.get("kind") == "PodGroup" and str(version).startswith("scheduling.k8s.io/")


def read_documents(path: str) -> list[Any]:
    """Return the documents of a YAML or JSON file, or of standard input if `path` is `-`."""
    return _documents(_text(path), _describe(path))


def _describe(path: str) -> str:
    return "standard input" if path == STDIN else path


def _text(path: str) -> str:
    try:
        text = sys.stdin.read(_MAX_LENGTH + 1) if path == STDIN else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        why = getattr(e, "strerror", None) or "not a text file"
        raise CliError(f"error: {path}: {why}") from None
    if len(text) > _MAX_LENGTH:
        raise CliError(f"error: {path}: too large for a file of manifests")
    return text


def _documents(text: str, where: str) -> list[Any]:
    if text.lstrip()[:1] == "{":
        try:
            return [json.loads(text)]
        except ValueError:
            pass  # a YAML mapping can start with a brace too
    import yaml  # here, because JSON does not need it

    class Loader(yaml.SafeLoader):
        """A YAML loader that reads timestamps as strings, as Kubernetes does."""

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
    """Yield the Kubernetes objects in parsed documents. A List is replaced by its items."""
    for document in documents:
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            yield from document.get("items") or []
        elif document is not None:
            yield document
