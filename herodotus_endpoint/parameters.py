"""Parsing of query parameters: names, booleans, numbers and times.

Owns: parsing and the error for an invalid value. Does not own: the effect of a parameter.

Invariant: a route rejects a parameter that it does not support, so that a misspelled one is never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final

from flask import request

from herodotus_endpoint.errors import StatusError

MAX_NAME: Final = 253  # a DNS subdomain, the longest name of a Kubernetes object
MAX_INTEGER: Final = 2**63 - 1  # of a database column
BOOLEANS: Final = {"": True, "true": True, "1": True, "false": False, "0": False}


def reject_unknown(*names: str) -> None:
    """Raise StatusError 400 if this request has a query parameter that is not in `names`, or has one twice.

    `timeout` is always accepted and has no effect: kubectl adds it to requests through the API server.
    """
    for name in request.args:
        if name not in (*names, "timeout"):
            raise StatusError(400, f"unknown parameter {name[:MAX_NAME]!r}; supported: {', '.join(names) or 'none'}")
        if len(request.args.getlist(name)) > 1:
            raise StatusError(400, f"parameter {name!r} is given more than once")


def check_name(value: str, what: str) -> str:
    """Return `value` unchanged if it could be the name of a Kubernetes object; "" is allowed.

    Raises StatusError 400 if it is too long or contains a NUL. `what` names the value in the error message.
    """
    if len(value) > MAX_NAME:
        raise StatusError(400, f"{what} is longer than {MAX_NAME} characters")
    if "\0" in value:  # PostgreSQL cannot store it in a text
        raise StatusError(400, f"{what} contains a NUL")
    return value


def parse_name(parameter: str) -> str:
    """Return the name in a query parameter of this request, or "" if the parameter is absent.

    Raises StatusError 400 if the value cannot be the name of a Kubernetes object.
    """
    return check_name(request.args.get(parameter, ""), parameter)


def parse_boolean(parameter: str) -> bool:
    """Return a boolean query parameter of this request: False if it is absent, True if it has no value.

    Raises StatusError 400 for other texts than `true`, `false`, `1` and `0`.
    """
    value = request.args.get(parameter, "false")
    if value not in BOOLEANS:
        raise StatusError(400, f"{parameter} must be true or false, not {value[:MAX_NAME]!r}")
    return BOOLEANS[value]


def parse_integer(parameter: str, *, minimum: int = 0, maximum: int = MAX_INTEGER) -> int | None:
    """Return an integer query parameter of this request, or None if it is absent.

    Raises StatusError 400 if the value is not an integer from `minimum` to `maximum`.
    """
    value = request.args.get(parameter)
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,19}", value) or not minimum <= int(value) <= maximum:
        raise StatusError(
            400, f"{parameter} must be a whole number from {minimum} to {maximum}, not {value[:MAX_NAME]!r}"
        )
    return int(value)


def parse_limit(default: int, maximum: int) -> int:
    """Return the page size in the query parameter `limit`, or `default` if it is absent or 0.

    As in the API server, a value above `maximum` is no error and is reduced to `maximum`.
    """
    return min(parse_integer("limit") or default, maximum)


def parse_time(parameter: str, clock: Callable[[], float]) -> int | None:
    """Return the time in a query parameter of this request in microseconds since 1970, or None if it is absent.

    The value is a number of seconds before now, or an RFC 3339 time. Raises StatusError 400 for other values. `clock`
    returns seconds since 1970.
    """
    value = request.args.get(parameter)
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,12}", value):
        return max(0, int((clock() - int(value)) * 1e6))
    try:
        time = datetime.fromisoformat(value)
        if time.tzinfo is None:
            raise ValueError("no offset")
        return max(0, int(time.astimezone(timezone.utc).timestamp() * 1e6))
    except (ValueError, OverflowError) as e:
        expected = "a number of seconds or a time as in 2026-03-01T12:00:00Z"
        raise StatusError(400, f"{parameter} must be {expected}, not {value[:MAX_NAME]!r}") from e
