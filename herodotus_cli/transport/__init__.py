"""How a question reaches the decisions service: through kubectl and the API server, or straight to a URL.

Owns: the choice. Does not own: either way (`kubectl`, `http`), what is asked (`questions`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import Connection
    from herodotus_cli.transport.begun import Begun
    from herodotus_cli.transport.interface import Transport


def connect(connection: Connection, environ: Mapping[str, str], begun: Begun | None = None) -> Transport:
    """The way that the connection names. `begun`: where questions may be under way already."""
    if connection.endpoint:
        from herodotus_cli.transport.http import HttpTransport

        return HttpTransport(connection.endpoint, connection.request_timeout_s)
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, environ, begun)
