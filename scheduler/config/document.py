"""Reads a file into a YAML document and a document into a typed value. Errors are one line with the location."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from herodotus_record import typed_decoding
from scheduler.engine.objects import kubernetes_yaml
from scheduler.engine.objects.kubernetes_yaml import YamlError, load_first_document
from scheduler.engine.objects.problems import Problem, aggregate, format_decode_error

Document = dict[str, Any]
T = TypeVar("T")


class ConfigError(ValueError):
    """An invalid configuration. The message is one line that names the field, or the file and line, and the reason."""

    @classmethod
    def raise_any(cls, problems: Iterable[Problem]) -> None:
        """Raise one ConfigError that lists all problems as kube-scheduler prints them.

        Do nothing if there are no problems.
        """
        remaining = list(problems)
        if remaining:
            raise cls(aggregate(remaining))


def read_text(path: Path) -> str:
    """Return the text of a file. Raise ConfigError if the file cannot be read or decoded."""
    try:
        return kubernetes_yaml.decode_text(path.read_bytes())
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror or e}") from e
    except YamlError as e:
        raise ConfigError(f"{path}: {e}") from e


def parse_document(text: str) -> Document:
    """Return the first YAML document of the text without null values. Raise ConfigError if it is not a mapping.

    Further documents are ignored, as in kube-scheduler.
    """
    try:
        document = load_first_document(text)
    except YamlError as e:
        raise ConfigError(str(e)) from e
    if not isinstance(document, dict):
        raise ConfigError("expected a mapping with apiVersion and kind")
    without_null: Document = _without_null(document)
    return without_null


def convert(document: object, into: type[T]) -> T:
    """Return the document converted to the type `into`.

    Raise ConfigError with a message that starts with the field's path if a value does not match the type.
    """
    try:
        return typed_decoding.convert(document, into)
    except msgspec.ValidationError as e:
        raise ConfigError(format_decode_error(str(e))) from e


def _without_null(value: Any) -> Any:
    """Return a YAML value without the nulls in it: as in Go's decoding, null means that a field is absent."""
    if isinstance(value, dict):
        return {key: _without_null(v) for key, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_null(v) for v in value]
    return value
