"""The user of a request. Owns: the value. Does not own: authentication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PRIVILEGED: Final = "system:masters"  # always allowed by Kubernetes, and therefore not reviewed


@dataclass(frozen=True)
class UserInfo:
    """A Kubernetes user with groups, UID and extra fields, as in the status of a TokenReview."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def parse_user_info(user: Mapping[str, Any]) -> UserInfo:
    """Return the user in `user`, which is the field of that name in a TokenReview's status."""
    extra = sorted((str(key), tuple(map(str, values))) for key, values in (user.get("extra") or {}).items())
    groups = tuple(map(str, user.get("groups") or ()))
    return UserInfo(str(user.get("username") or ""), groups, str(user.get("uid") or ""), tuple(extra))
