"""What every way to the decisions service can do.

Owns: the interface. Does not own: the ways (`kubectl`, `http`), the choice between them (`connect`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol


class Transport(Protocol):
    """Asks the decisions service."""

    def get(self, path: str) -> dict[str, Any]:
        """The document at a path with its query. `CliError` for everything else."""
        ...

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """The answer to a document that is sent to a path. `CliError` for everything else."""
        ...

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        """The documents that come, one a line, until the service ends the answer. Close it to end it before."""
        ...
