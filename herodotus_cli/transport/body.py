"""A response body as a document.

Owns: JSON decoding and its errors. Does not own: how the body came here.
"""

from __future__ import annotations

import json
from typing import Any

from herodotus_cli.errors import CliError, from_status, is_status


def document(body: bytes, source: str, status: str = "") -> dict[str, Any]:
    """The JSON object in a body; the error when it is a Status, or when it is no JSON object at all.

    `status`: the HTTP status where it says something, such as `403 Forbidden`: the body may be a proxy's page.
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
    """The first words of a body, to recognise a proxy's page by."""
    words = " ".join(body[:400].decode("utf-8", "replace").split())
    return f"it begins: {words[:70]}" if words else "it was empty"
