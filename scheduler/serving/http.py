"""Responses of the HTTPS port, and errors as responses.

The body of an error is a `Status` object, as kube-apiserver's libraries write it.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import parse_qs

from herodotus_serving.messages import RequestHead, Response

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
MAX_QUERY_FIELDS: Final = 20  # verbose, and an exclude for each check


class HttpStatusError(Exception):
    """An error that ends a request, with the HTTP status code, reason and message for the client."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    def response(self) -> Response:
        """Return the HTTP response for this error, with a Kubernetes Status object as its body."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }
        return build_response(self.code, json.dumps(status).encode(), JSON)


def build_response(code: int, body: bytes, content_type: str = TEXT) -> Response:
    """Return a response that tells clients not to cache it and to close the connection."""
    headers = [
        ("Content-Type", content_type),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-cache, private"),
        ("Connection", "close"),
    ]
    return Response(code, headers, body)


def build_text_response(code: int, value: str) -> Response:
    """Return a plain-text response."""
    return build_response(code, value.encode())


def parse_query(head: RequestHead) -> dict[str, list[str]]:
    """Return the query parameters of a request. Raise HttpStatusError 400 if they are malformed or too many."""
    try:
        return parse_qs(head.query, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
    except ValueError as e:
        raise HttpStatusError(400, "BadRequest", str(e)) from e
