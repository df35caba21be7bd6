"""From a text to a YAML document, and from a document to a typed value; both refuse in one line that says where."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from scheduler.config.errors import ConfigError
from scheduler.objects.problems import required

Document = dict[str, Any]
T = TypeVar("T")


def text_of(path: Path) -> str:
    """A file's text. ConfigError when there is none to be had."""
    try:
        return path.read_text()
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: not UTF-8 text: {e}") from e


def parse(text: str) -> Document:
    """The mapping in a text, without what is null. ConfigError when there is none."""
    document = _parse(text)
    if not isinstance(document, dict):
        raise ConfigError("expected a mapping with apiVersion and kind")
    kept: Document = _without_null(document)
    return kept


def convert(document: object, into: type[T]) -> T:
    """The typed value. ConfigError, with the field's path first, when the document is of another shape."""
    try:
        return msgspec.convert(document, into)
    except msgspec.ValidationError as e:
        raise ConfigError(_in_field_order(str(e))) from e


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is set twice, as kube-scheduler's strict decoding does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise ConfigError(f'line {line}: key "{key}" already set in map')
            seen.add(key)
        return super().construct_mapping(node, deep)


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, _StrictLoader)
    except yaml.MarkedYAMLError as e:
        line = f"line {e.problem_mark.line + 1}: " if e.problem_mark else ""
        raise ConfigError(f"{line}{e.problem or 'not YAML'}") from e
    except ConfigError:
        raise
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as e:  # 2026-13-45 looks like a date, and is none
        raise ConfigError(f"not YAML: {' '.join(str(e).split())}") from e


def _without_null(value: Any) -> Any:
    """Null means absent, as in Go's decoding; plugin arguments, which plugins decode themselves, included."""
    if isinstance(value, dict):
        return {key: _without_null(v) for key, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_null(v) for v in value]
    return value


def _in_field_order(message: str) -> str:
    """msgspec's `DETAIL - at `$.PATH`` as `PATH: DETAIL`."""
    match = re.fullmatch(r"(?s)(.*) - at `(?:key in )?\$\.?(.*)`", message)
    detail, path = (match[1], match[2]) if match else (message, "")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", detail)
    if unknown:
        return f'unknown field "{path + "." if path else ""}{unknown[1]}"'
    missing = re.fullmatch(r"Object missing required field `(.*)`", detail)
    if missing:
        return str(required(f"{path + '.' if path else ''}{missing[1]}"))
    return f"{path}: {detail}" if path else detail
