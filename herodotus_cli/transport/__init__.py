"""How a request reaches the decisions service: through kubectl and the API server, or directly at a URL.

Owns: choosing the transport. Does not own: the transports (`kubectl`, `http`), paths of requests (`api_paths`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import ConnectionSettings
    from herodotus_cli.transport.interface import Transport
    from herodotus_cli.transport.prefetched_processes import PrefetchedProcesses


def connect(
    connection: ConnectionSettings, environ: Mapping[str, str], prefetched: PrefetchedProcesses | None = None
) -> Transport:
    """Return the transport for these settings: HTTP if they have an endpoint, otherwise kubectl.

    `prefetched` holds kubectl processes that are already running.
    """
    if connection.endpoint:
        from herodotus_cli.transport.http import HttpTransport

        return HttpTransport(connection.endpoint, connection.request_timeout_s)
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, environ, prefetched)
