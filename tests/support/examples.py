"""How many examples a property test tries."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """Return `count`, or a fifth of it in the profile of `make quick`; all run in `make test`."""
    return max(2, count // 5) if settings.get_current_profile_name() == "quick" else count
