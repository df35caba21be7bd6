"""Choose which of many examples every change has to pass, and which only `make wide` tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def widen(values: Iterable[Any], every: int) -> list[Any]:
    """Return the values as parameters of a test; of each `every` values all but the first are marked `wide`.

    The others are further examples of the same promise: `make test` leaves them out, `make wide` runs them.
    """
    return [v if i % every == 0 else pytest.param(v, marks=pytest.mark.wide) for i, v in enumerate(values)]
