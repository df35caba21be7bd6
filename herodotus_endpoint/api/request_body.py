"""Reading a request body up to a limit.

Owns: the error if the body is too large. Does not own: the content, or how long it may take to arrive (`server`).

Invariant: no more than the limit is read, even if the request announces more.
"""

from __future__ import annotations

from flask import request

from herodotus_endpoint.errors import StatusError


def read_body(most: int, what: str) -> bytes:
    """Return the body of the current request as sent, without decompressing it.

    Raises StatusError 413 if it is longer than `most` bytes; `what` names the body in the message.
    """
    body = request.stream.read(most + 1)
    if len(body) > most:
        raise StatusError(413, f"{what} must be at most {most >> 10} KiB as sent")
    return body
