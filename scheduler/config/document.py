"""From a text to a YAML document, and from a document to a typed value; both refuse in one line that says where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from scheduler.config.errors import ConfigError
from scheduler.objects import kubernetes_yaml
from scheduler.objects.kubernetes_yaml import YamlError, first_document
from scheduler.objects.problems import required

Document = dict[str, Any]
T = TypeVar("T")


def text_of(path: Path) -> str:
    """A file's text. ConfigError when there is none to be had."""
    try:
        return kubernetes_yaml.text_of(path.read_bytes())
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror or e}") from e
    except YamlError as e:
        raise ConfigError(f"{path}: {e}") from e


def parse(text: str) -> Document:
    """The mapping in a text's first document, without what is null. ConfigError when there is none.

    Further documents are not looked at, as kube-scheduler does not.
    """
    try:
        document = first_document(text)
    except YamlError as e:
        raise ConfigError(str(e)) from e
    if not isinstance(document, dict):
        raise ConfigError("expected a mapping with apiVersion and kind")
    kept: Document = _without_null(document)
    return kept


def convert(document: object, into: type[T]) -> T:
    """The typed value. ConfigError, with the field's path first, when the document is of another shape."""
    try:
        return msgspec.convert(document, into)
    except msgspec.ValidationError as e:
        raise ConfigError(field_first(str(e))) from e


def _without_null(value: Any) -> Any:
    """Null means absent, as in Go's decoding; plugin arguments, which plugins decode themselves, included."""
    if isinstance(value, dict):
        return {key: _without_null(v) for key, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_null(v) for v in value]
    return value


def field_first(message: str) -> str:
    """msgspec's `DETAIL - at `$.PATH`` as `PATH: DETAIL`, in the API machinery's words where it has some."""
    match = re.fullmatch(r"(?s)(.*) - at `(?:key in )?\$\.?(.*)`", message)
    detail, path = (match[1], match[2]) if match else (message, "")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", detail)
    if unknown:
        return f'unknown field "{path + "." if path else ""}{unknown[1]}"'
    missing = re.fullmatch(r"Object missing required field `(.*)`", detail)
    if missing:
        return str(required(f"{path + '.' if path else ''}{missing[1]}"))
    return f"{path}: {detail}" if path else detail
