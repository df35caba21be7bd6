"""Query parameters of routes: known names, lengths, and the forms of numbers and times.

Owns: parsing and refusing them. Does not own: the effect of a parameter.

Invariant: a route refuses an unknown parameter by name, so that a misspelt one is never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final

from flask import request

from herodotus_endpoint.errors import StatusError

MAX_NAME: Final = 253  # a DNS subdomain, the longest name that Kubernetes gives
MAX_INTEGER: Final = 2**63 - 1  # what a database column holds
BOOLEANS: Final = {"": True, "true": True, "1": True, "false": False, "0": False}


def known(*names: str) -> None:
    """Raise StatusError 400 for a parameter of the request that is not one of `names`, or that is given twice.

    `timeout` is always accepted and ignored: kubectl adds it to every request through the API server.
    """
    for name in request.args:
        if name not in (*names, "timeout"):
            raise StatusError(400, f"unknown parameter {name[:MAX_NAME]!r}; known here: {', '.join(names) or 'none'}")
        if len(request.args.getlist(name)) > 1:
            raise StatusError(400, f"parameter {name!r} is given more than once")


def name(value: str, what: str) -> str:
    """Return a name from the path or the query. Raises StatusError 400 if no Kubernetes object can have it."""
    if len(value) > MAX_NAME:
        raise StatusError(400, f"{what} is longer than {MAX_NAME} characters")
    if "\0" in value:  # PostgreSQL has no such text
        raise StatusError(400, f"{what} holds a NUL")
    return value


def text(parameter: str) -> str:
    """Return a name parameter, or "" if it is absent."""
    return name(request.args.get(parameter, ""), parameter)


def boolean(parameter: str) -> bool:
    """Return a boolean parameter: `true`, `false`, or without a value, which means true."""
    value = request.args.get(parameter, "false")
    if value not in BOOLEANS:
        raise StatusError(400, f"{parameter} must be true or false, not {value[:MAX_NAME]!r}")
    return BOOLEANS[value]


def integer(parameter: str, *, least: int = 0, most: int = MAX_INTEGER) -> int | None:
    """Return an integer parameter, or None if it is absent. Raises StatusError 400 if it is out of bounds."""
    value = request.args.get(parameter)
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,19}", value) or not least <= int(value) <= most:
        raise StatusError(400, f"{parameter} must be a whole number from {least} to {most}, not {value[:MAX_NAME]!r}")
    return int(value)


def limit(default: int, most: int) -> int:
    """Return the maximum number of items of a page. As with the API server's lists, a page may have fewer."""
    return min(integer("limit") or default, most)


def since(parameter: str, clock: Callable[[], float]) -> int | None:
    """Return a time in microseconds since the epoch, or None. It is given as seconds before now or in RFC 3339 form."""
    value = request.args.get(parameter)
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,12}", value):
        return max(0, int((clock() - int(value)) * 1e6))
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError("no offset")
        return max(0, int(moment.astimezone(timezone.utc).timestamp() * 1e6))
    except (ValueError, OverflowError) as e:
        wanted = "a number of seconds or a time as in 2026-03-01T12:00:00Z"
        raise StatusError(400, f"{parameter} must be {wanted}, not {value[:MAX_NAME]!r}") from e
