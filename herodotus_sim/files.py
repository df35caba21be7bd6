"""Reads Kubernetes objects from YAML or JSON files.

Does not own: what the objects mean. Invariant: an invalid file is an error that names the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from herodotus_sim.kinds import resource_for_type
from herodotus_sim.wire import Object

# The C loader is ten times faster, if PyYAML was built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileError(Exception):
    """A file cannot be read, or does not contain Kubernetes objects of supported kinds."""


class _Loader(_LOADER):  # type: ignore[misc]
    """A YAML loader that keeps timestamps as text, as they are in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _LOADER.yaml_implicit_resolvers.items()
}


def read_files(paths: Iterable[Path]) -> list[Object]:
    """Return every object in the files, with the items of List objects in place of the lists. Raises FileError."""
    return [obj for path in paths for obj in read_file(path)]


def read_file(path: Path) -> list[Object]:
    """Return every object in one file, with the items of List objects in place of the lists. Raises FileError."""
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), _Loader))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: {error}") from None
    objects = [obj for document in documents if document is not None for obj in _unfold(path, document)]
    for obj in objects:
        try:
            resource_for_type(obj.get("apiVersion", ""), obj.get("kind", ""))
        except KeyError as error:
            raise FileError(f"{path}: {error.args[0]}") from None
    return objects


def _unfold(path: Path, document: Any) -> Iterator[Object]:
    if not isinstance(document, dict):
        raise FileError(f"{path}: a document is no object")
    items = document.get("items")
    if not str(document.get("kind", "")).endswith("List") or not isinstance(items, list):
        yield document
        return
    element = {"kind": document["kind"].removesuffix("List"), "apiVersion": document.get("apiVersion")}
    for item in items:
        yield from _unfold(path, {**element, **item} if element["kind"] else item)
