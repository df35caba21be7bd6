"""The interface of a transport to the decisions service.

Owns: the interface. Does not own: its implementations (`kubectl`, `http`), the choice between them (`connect`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol


class Transport(Protocol):
    """A client of the decisions service. Every method raises CliError if the request fails."""

    def get(self, path: str) -> dict[str, Any]:
        """Return the document at a path with its query."""
        ...

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Send a document to a path and return the response document."""
        ...

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        """Yield the documents of a watch until the service ends it. Closing the generator ends it too."""
        ...
