"""Where in a manifest an amount is none: looked for field by field, once something is known or suspected to be wrong.

Does not own: what an amount is (`scheduler.objects.quantity`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scheduler.objects import quantity

# fields whose values are quantities by resource, or one quantity
AMOUNTS: Final = frozenset(
    {"requests", "limits", "allocatable", "allocatedResources", "overhead", "capacity", "maximumVolumeSize"}
)


def wrong_amount(content: object) -> str | None:
    """`FIELD: what is wrong with it` of the first amount that is none; None where all are."""
    return next(_wrong(content, "", False), None)


def _wrong(content: object, path: str, amounts: bool) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _wrong(value, f"{path}.{key}".lstrip("."), amounts or key in AMOUNTS)
    elif isinstance(content, Sequence) and not isinstance(content, str):
        for i, value in enumerate(content):
            yield from _wrong(value, f"{path}[{i}]", amounts)
    elif amounts and isinstance(content, str | int | float) and not isinstance(content, bool):
        try:
            quantity.parse(content)
        except ValueError as e:
            yield f"{path}: {e}"
