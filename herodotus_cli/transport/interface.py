"""The interface of a transport to the decisions service.

Owns: the interface. Does not own: its implementations (`kubectl`, `http`), the choice between them (`connect`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol


class Transport(Protocol):
    """The interface of a client of the decisions service. Every method raises CliError if the request fails."""

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON document at a path, which may have a query string."""
        ...

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Post a JSON document to a path and return the response document."""
        ...

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        """Request a watch and yield its documents until the service ends it. Closing the generator ends it too."""
        ...
