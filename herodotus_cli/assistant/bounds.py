"""Bound the size of an answer, and say what was left out.

Owns: which parts are left out. Does not own: how an answer is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

MAX_TEXT: Final = 2_000  # characters of one text
_KEPT: Final = 3  # items that a list always keeps


class _List(NamedTuple):
    path: str
    items: list[Any]
    size: int


def shorten(document: Any, max_size: int) -> list[str]:
    """Shorten a JSON document in place to about `max_size` bytes, and return what was left out, a sentence each.

    Texts are cut first. Then the largest list loses its last items, again and again, while the document is too large
    and a list has more than three items. The first items stay, because answers begin with what matters most.
    """
    notes = _cut_texts(document, "answer")
    totals: dict[str, int] = {}
    while (excess := _size(document) - max_size) > 0:
        lists = [entry for entry in _lists(document, "answer") if len(entry.items) > _KEPT]
        if not lists:
            break
        largest = max(lists, key=lambda entry: entry.size)
        totals.setdefault(largest.path, len(largest.items))
        share = max(0.0, 1 - excess / largest.size)
        del largest.items[max(_KEPT, min(len(largest.items) - 1, int(len(largest.items) * share))) :]
    counts = {entry.path: len(entry.items) for entry in _lists(document, "answer")}
    cut = [f"{path}: the first {counts[path]} of {total} items" for path, total in totals.items() if path in counts]
    return notes + cut


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _lists(value: Any, path: str) -> Iterator[_List]:
    """Yield every list in a document with its path and size, outer lists before inner ones."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _lists(item, f"{path}.{key}")
    elif isinstance(value, list):
        yield _List(path, value, _size(value))
        for number, item in enumerate(value):
            yield from _lists(item, f"{path}[{number}]")


def _cut_texts(value: Any, path: str) -> list[str]:
    if not isinstance(value, (dict, list)):
        return []
    notes = []
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        item_path = f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]"
        if isinstance(item, str) and len(item) > MAX_TEXT:
            value[key] = item[:MAX_TEXT]
            notes.append(f"{item_path}: the first {MAX_TEXT} of {len(item)} characters")
        notes += _cut_texts(item, item_path)
    return notes
