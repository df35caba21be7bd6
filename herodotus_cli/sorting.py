"""The option --sort-by of commands that list: by a word of the command, or as kubectl's by a JSONPath of a row.

Owns: the option, paths to a field of a row, the order. Does not own: the rows, the words (the commands).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import click

Document = TypeVar("Document", bound=Mapping[str, Any])
Command = TypeVar("Command", bound=Callable[..., Any])
_KEY = re.compile(r"\.?((?:[^.\[\]{}\\]|\\.)+)|\[(\d+)\]|\['([^']*)'\]")
_NUMBERS = re.compile(r"(\d+)")


class SortKey(NamedTuple):
    """By what rows are sorted: the keys to a field of a row, and whether the largest comes first."""

    path: tuple[str, ...]
    largest_first: bool = False
    text: str = ""


class SortField(click.ParamType[SortKey]):
    """The type of --sort-by: one of the words, or a JSONPath such as `{.metadata.name}`."""

    name = "field"

    def __init__(self, words: Mapping[str, SortKey]) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> SortKey:
        """Return the key, or fail with a usage error."""
        if isinstance(value, SortKey):
            return value
        text = str(value)
        if text in self._words:
            return self._words[text]
        path = text[1:-1] if text.startswith("{") and text.endswith("}") else text
        if not path.startswith((".", "[")) and path == text and not re.search(r"[.\[]", text):
            self.fail(f"{text!r} is not a field to sort by: use one of {', '.join(self._words)}, or a path", param, ctx)
        keys = _parse_path(path)
        if not keys:
            self.fail(f"{text!r} is not a JSONPath such as {{.metadata.name}}", param, ctx)
        return SortKey(keys, text=text)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return the words that start with the given one."""
        from click.shell_completion import CompletionItem  # here, because only completion needs it

        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]


def sort_option(words: Mapping[str, SortKey], default: str, scope: str = "") -> Callable[[Command], Command]:
    """Return the decorator that adds --sort-by. `words` maps the option's words to keys.

    `default` says in the help text how rows are sorted without the option. `scope` is a clause before the text that
    says when the option works, such as `Without NODE: `.
    """
    verb = f"{scope}sort" if scope else "Sort"
    text = f"{verb} by {', '.join(words)}, or a JSONPath of a row as kubectl does [{default}]."
    return click.option("--sort-by", "sort_key", type=SortField(words), metavar="FIELD", help=text)


def sort_rows(document: Document, name: str, key: SortKey | None) -> Document:
    """Return the document with the rows of its list `name` in the order of a key; rows without a value come last.

    A document without the list, and any without a key, is returned as it is. Numbers within texts count as numbers, so
    that node-9 comes before node-10. Raises UsageError if no row has the field.
    """
    if key is None or name not in document:
        return document
    rows: Sequence[Mapping[str, Any]] = document[name]
    values = [(_find_value(row, key.path), row) for row in rows]
    known = [(_order(value), row) for value, row in values if value is not None]
    if rows and not known and key.text:
        raise click.UsageError(f"couldn't find any field with path {key.text!r} in the list of objects")
    known.sort(key=lambda each: each[0], reverse=key.largest_first)
    unknown = (row for value, row in values if value is None)
    return cast(Document, {**document, name: [*(row for _, row in known), *unknown]})


def _parse_path(path: str) -> tuple[str, ...]:
    """Return the keys of a JSONPath without filters and wildcards; () for any other text."""
    keys, at = list[str](), 0
    while at < len(path):
        match = _KEY.match(path, at)
        if match is None:
            return ()
        keys.append(next(group for group in match.groups() if group is not None).replace("\\.", "."))
        at = match.end()
    return tuple(keys)


def _find_value(row: Any, path: Sequence[str]) -> Any:
    for key in path:
        if isinstance(row, Mapping):
            row = row.get(key)
        elif isinstance(row, Sequence) and not isinstance(row, str) and key.isdecimal() and int(key) < len(row):
            row = row[int(key)]
        else:
            return None
    return row


def _order(value: Any) -> tuple[int, float, list[tuple[int, float, str]]]:
    """Return the sort key of a value: numbers come before texts, and numbers within texts are compared as numbers."""
    if isinstance(value, (int, float)):
        return 0, float(value), []
    parts = _NUMBERS.split(str(value))
    return 1, 0.0, [(0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts]
