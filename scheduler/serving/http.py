"""A request and its answer, as values; and the refusals that every path shares.

Bodies of refusals are `Status` objects, as kube-apiserver's libraries write them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True)
class StatusRequest:
    """`peer`: the client certificate's subject as `ssl` gives it, where one was verified."""

    method: str
    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    authorization: str = ""
    body: bytes = b""
    peer: dict[str, Any] | None = None


@dataclass(frozen=True)
class StatusResponse:
    """What goes back."""

    code: int
    body: bytes
    content_type: str = TEXT


class HttpStatusError(Exception):
    """A request that is not answered: the code, and what the client is told."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    def response(self) -> StatusResponse:
        """As a Status object."""
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
    """Plain text."""
    return StatusResponse(code, value.encode())
