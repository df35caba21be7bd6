"""How a question reaches the decisions service: through kubectl and the API server, or straight to a URL.

Owns: the interface and the choice. Does not own: either way (`kubectl`, `http`), or what is asked (`questions`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from herodotus_cli.connection import Connection
    from herodotus_cli.transport.begun import Begun


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


def connect(connection: Connection, environ: Mapping[str, str], begun: Begun | None = None) -> Transport:
    """The way that the connection names. `begun`: where questions may be under way already."""
    if connection.endpoint:
        from herodotus_cli.transport.http import HttpTransport

        return HttpTransport(connection.endpoint, connection.request_timeout_s)
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, environ, begun)
