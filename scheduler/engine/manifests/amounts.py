"""A search for the invalid quantity in a manifest, run only after decoding or computing failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scheduler.engine.objects import quantity

# fields whose values are quantities by resource, or one quantity
QUANTITY_FIELDS: Final = frozenset(
    {"requests", "limits", "allocatable", "allocatedResources", "overhead", "capacity", "maximumVolumeSize"}
)


def find_invalid_quantity(content: object) -> str | None:
    """Return `FIELD: error` for the first invalid quantity in a manifest, or None if all are valid."""
    return next(_wrong(content, "", False), None)


def _wrong(content: object, path: str, amounts: bool) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _wrong(value, f"{path}.{key}".lstrip("."), amounts or key in QUANTITY_FIELDS)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for i, value in enumerate(content):
            yield from _wrong(value, f"{path}[{i}]", amounts)
    elif amounts and isinstance(content, str | int | float) and not isinstance(content, bool):
        try:
            quantity.parse(content)
        except ValueError as e:
            yield f"{path}: {e}"
