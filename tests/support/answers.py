"""Answers as tests read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def as_json(answer: Mapping[str, object] | None) -> dict[str, Any]:
    """Return an answer as plain JSON, in which a test may read and write every key."""
    assert answer is not None
    return cast("dict[str, Any]", answer)
