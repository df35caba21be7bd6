"""YAML as Kubernetes reads it, decoded to JSON values: strings, numbers, booleans, null, lists and maps.

The dialect is Go's YAML 1.1: a time is a string, `1e3` is a number, 16.0 is an integer, and a key that is set twice is
an error. Nesting, and the values that aliases multiply, are limited. Source: sigs.k8s.io/yaml, which kubectl and
kube-scheduler use. Unlike there, a lone `y` or `n` is a string, since other YAML writers do not quote it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import yaml

MAX_DEPTH: Final = 200  # far above any object; libyaml's composer overflows the stack at tens of thousands
MAX_ALIASED: Final = 100_000  # values that aliases add to the written ones
_EXACT: Final = 1 << 53  # a float is exact for integers below

_FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast
_INT, _FLOAT, _TIME = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp"))
_MERGE: Final = "tag:yaml.org,2002:merge"
_NUMBERS: Final = {  # neither 1:30 nor 2026-01-01 is a number
    _INT: r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]*|[1-9][0-9_]*)$",
    _FLOAT: r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$",
}
_FIRST: Final = {_INT: "-+0123456789", _FLOAT: "-+0123456789."}


class YamlError(ValueError):
    """An error for text that is not valid YAML, or that exceeds the limits on nesting or aliases.

    The message starts with the line number where it is known.
    """


def decode_text(content: bytes) -> str:
    """Decode a file's content from UTF-8, or from UTF-16 if it starts with a byte order mark.

    Some shells write UTF-16 when output is redirected to a file. Raise YamlError for other encodings.
    """
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as e:
        raise YamlError(f"not UTF-8 text: {e}") from e


def load_documents(text: str) -> list[Any]:
    """Return every YAML document of a text, as JSON values. Raise YamlError if one cannot be read."""
    return list(_load_documents(text))


def load_first_document(text: str) -> Any:
    """Return the first YAML document of a text, as JSON values, or None if the text has no document.

    Raise YamlError if the first document cannot be read. Further documents are not parsed.
    """
    return next(_load_documents(text), None)


def _load_documents(text: str) -> Iterator[Any]:
    loader = _Loader(text)
    harmless = _check_limits(text)
    try:
        while next(harmless, False) and loader.check_data():
            yield loader.get_data()
    except YamlError:
        raise
    except yaml.MarkedYAMLError as e:
        raise YamlError(f"{_line(e.problem_mark)}{e.problem or 'not YAML'}") from e
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as e:
        raise YamlError(f"not YAML: {' '.join(str(e).split())}") from e
    finally:
        loader.dispose()


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}: " if mark else ""


def _check_limits(text: str) -> Iterator[bool]:
    """Yield True once for each YAML document of a text, after it was found to be within the limits.

    Raise YamlError for a document that is nested too deeply, that contains itself, or whose aliases add too many
    values.
    """
    sizes: dict[str, int] = {}  # number of values per anchor, including those that aliases add
    open_at: list[tuple[str | None, int]] = []
    size = aliased = 0
    for event in yaml.parse(text, _FASTEST):
        if isinstance(event, yaml.CollectionStartEvent):
            open_at.append((event.anchor, size))
            if len(open_at) > MAX_DEPTH:
                raise YamlError(f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_at.pop()
            if anchor is not None:
                sizes[anchor] = size - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_at):
                raise YamlError(f"{_line(event.start_mark)}anchor '{event.anchor}' value contains itself")
            aliased += sizes.get(event.anchor or "", 0)
            size += sizes.get(event.anchor or "", 0)
            if aliased > MAX_ALIASED:
                raise YamlError(f"{_line(event.start_mark)}document contains excessive aliasing")
        elif isinstance(event, yaml.ScalarEvent):
            size += 1
        elif isinstance(event, yaml.DocumentEndEvent):
            yield True


class _Loader(_FASTEST):  # type: ignore[misc]
    """A YAML loader that reads numbers as Go does and rejects duplicate keys."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, regexp) for tag, regexp in resolvers if tag not in (*_NUMBERS, _TIME)]
        for first, resolvers in _FASTEST.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise YamlError(f'{_line(key_node.start_mark)}key "{key}" already set in map')
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return {key if isinstance(key, str) else _key_to_text(key): value for key, value in mapping.items()}

    def construct_number(self, node: yaml.ScalarNode) -> float:
        """Return a YAML float as an int if it is a whole number below 2^53, and as a float otherwise.

        JSON does not distinguish 16 from 16.0.
        """
        number: float = self.construct_yaml_float(node)
        return int(number) if abs(number) < _EXACT and number.is_integer() else number


def _key_to_text(key: object) -> str:
    """Return a boolean or number that is a map key as text, since every JSON key is a string.

    Raise YamlError for a key of another type.
    """
    if isinstance(key, bool | int | float):
        return str(key).lower()
    raise YamlError(f"unsupported map key {key!r}")


for _tag, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_FIRST[_tag]))
_Loader.add_constructor(_FLOAT, _Loader.construct_number)
