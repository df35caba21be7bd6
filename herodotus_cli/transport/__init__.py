"""How a request is answered: by the decisions service, through the API server or at a URL, or locally.

Owns: choosing the transport. Does not own: the transports (`kubectl`, `http`, `local`), paths of requests
(`api_paths`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import ConnectionSettings
    from herodotus_cli.transport.interface import Transport
    from herodotus_cli.transport.local import LocalTransport
    from herodotus_cli.transport.prefetched_processes import PrefetchedProcesses


def connect(
    connection: ConnectionSettings, environ: Mapping[str, str], prefetched: PrefetchedProcesses | None = None
) -> Transport:
    """Return the transport for these settings: local, HTTP if they have an endpoint, otherwise kubectl.

    `prefetched` holds kubectl processes that are already running. Where the cluster has no decisions service, the
    transport with kubectl answers locally, if local mode is installed.
    """
    if connection.local:
        return open_local(connection, environ)
    transport: Transport
    if connection.endpoint:
        from herodotus_cli.transport.http import HttpTransport

        transport = HttpTransport(connection.endpoint, connection.request_timeout_s)
    else:
        from herodotus_cli.transport.kubectl import KubectlTransport

        transport = KubectlTransport(connection, environ, prefetched)
    if connection.cluster:
        from herodotus_cli.transport.one_cluster import ClusterTransport  # here, because few requests need it

        transport = ClusterTransport(transport, connection.cluster)
    return transport


def open_local(connection: ConnectionSettings, environ: Mapping[str, str], because: str = "") -> LocalTransport:
    """Return the local transport of a connection: the same one for each call, so that the cluster is read once.

    `because` is the right that the user lacks to reach a decisions service. Raises CliError if local mode is not
    installed.
    """
    from herodotus_cli.transport.local import LocalTransport

    if connection not in _local:
        _local[connection] = LocalTransport(connection, environ, because)
    return _local[connection]


def close() -> None:
    """End the processes and delete the files of local mode, if it was used."""
    while _local:
        _local.popitem()[1].close()


_local: dict[ConnectionSettings, LocalTransport] = {}
