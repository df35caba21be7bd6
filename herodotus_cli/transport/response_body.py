"""Parsing the body of a response as a JSON document.

Owns: decoding and its errors. Does not own: the request.
"""

from __future__ import annotations

import json
from typing import Any

from herodotus_cli.errors import CliError, from_status, is_status


def parse_response(body: bytes, source: str, status: str = "") -> dict[str, Any]:
    """Return the JSON object in a response body. Raises ServerError for a Status and CliError for anything else.

    `source` names the server in errors. `status` is the HTTP status of a failed request, such as `403 Forbidden`; the
    body may then be a proxy's HTML page.
    """
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        answered = f"answered HTTP {status}," if status else "answered"
        raise CliError(f"error: {source} {answered} with something that is not a JSON document", [_start(body)])
    if is_status(found):
        raise from_status(found)
    if status:
        raise CliError(f"error: {source} answered HTTP {status}", [_start(body)])
    return found


def _start(body: bytes) -> str:
    """Return a hint with the first words of a response body, so that the user recognizes a proxy's page."""
    words = " ".join(body[:400].decode("utf-8", "replace").split())
    return f"it begins: {words[:70]}" if words else "it was empty"
