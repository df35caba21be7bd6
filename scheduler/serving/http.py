"""Requests and responses of the HTTPS port as values, and error responses.

The body of an error is a `Status` object, as kube-apiserver's libraries write it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True)
class StatusRequest:
    """A request to the HTTPS port.

    `peer` is the subject of the verified client certificate, in the form that `ssl` returns, or None without
    certificate.
    """

    method: str
    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    authorization: str = ""
    body: bytes = b""
    peer: dict[str, Any] | None = None
    accept: str = ""


@dataclass(frozen=True)
class StatusResponse:
    """A response: status code, body and content type."""

    code: int
    body: bytes
    content_type: str = TEXT


class HttpStatusError(Exception):
    """An error that ends a request, with the HTTP status code, reason and message for the client."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    def response(self) -> StatusResponse:
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
        return StatusResponse(self.code, json.dumps(status).encode(), JSON)


def build_text_response(code: int, value: str) -> StatusResponse:
    """Return a plain-text response."""
    return StatusResponse(code, value.encode())
