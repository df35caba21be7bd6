"""The body of a request, to its limit.

Owns: reading it, and what is said where it is too large or breaks off. Does not own: what is in it, how long it may
take (`server`).

Invariant: no more than the limit is held, whatever is announced or sent.
"""

from __future__ import annotations

from flask import request
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]

from herodotus_endpoint.errors import ApiError


def read(most: int, what: str) -> bytes:
    """The body as it was sent. 413 beyond `most` bytes, naming `what` it is; 400 where HTTP's own form is broken."""
    try:
        body = request.stream.read(most + 1)
    except (OSError, ParseException) as e:  # chunks that are none, or that break off
        raise ApiError(400, f"the body broke off: {e}") from e
    if len(body) > most:
        raise ApiError(413, f"{what} must be at most {most >> 10} KiB as sent")
    return body
