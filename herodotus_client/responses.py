"""Responses of the decisions service and of the API server: the document, or the error that the server states.

Owns: parsing a response, and the errors. Does not own: requests (`client`), what a user reads about an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


class ServiceError(Exception):
    """A refusal of the decisions service or the API server, from its Kubernetes Status.

    `reason` is a word such as NotFound or Forbidden, `code` the HTTP status, and `details` what the Status has under
    that key, such as similar names.
    """

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(f"{reason}: {message}")
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}


class UnknownResponseError(ServiceError):
    """The error for a response that is neither a document nor a Status, such as a proxy's page.

    `beginning` is a sentence with the first words of the body.
    """

    def __init__(self, code: int, message: str, body: bytes) -> None:
        super().__init__(code, "UnknownResponse", message)
        words = " ".join(body[:400].decode("utf-8", "replace").split())
        self.beginning = f"it begins: {words[:70]}" if words else "it was empty"


def parse_response(body: bytes, code: int = 200, phrase: str = "") -> Json:
    """Return the JSON object in a response body.

    `code` and `phrase` are the HTTP status, such as 403 and `Forbidden`. Raises ServiceError for a Status, and
    UnknownResponseError for any other response that is not a document.
    """
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    failed = not 200 <= code < 300
    status = f"HTTP {code} {phrase}".rstrip()
    if not isinstance(document, dict):
        answered = f"answered {status}," if failed else "answered"
        raise UnknownResponseError(code, f"{answered} with something that is not a JSON document", body)
    if document.get("kind") == "Status":
        raise read_status(document, code)
    if failed:
        raise UnknownResponseError(code, f"answered {status}", body)
    return document


def read_status(status: Mapping[str, Any], code: int = 0) -> ServiceError:
    """Return the error for a Kubernetes Status. `code` is the HTTP status, for a Status that has none."""
    code, details = status.get("code") or code, status.get("details")
    return ServiceError(
        code,
        str(status.get("reason") or f"code {code or 'unknown'}"),
        str(status.get("message") or "no message"),
        details if isinstance(details, dict) else None,
    )
