"""A user of the cluster. Owns: the value. Does not own: how it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PRIVILEGED: Final = "system:masters"  # has every right by law, and is not asked about


@dataclass(frozen=True)
class User:
    """Who asks, as the API server names them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def of_review(user: Mapping[str, Any]) -> User:
    """The user in the status of a TokenReview."""
    extra = sorted((str(key), tuple(map(str, values))) for key, values in (user.get("extra") or {}).items())
    groups = tuple(map(str, user.get("groups") or ()))
    return User(str(user.get("username") or ""), groups, str(user.get("uid") or ""), tuple(extra))
