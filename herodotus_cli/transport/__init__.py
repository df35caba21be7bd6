"""How a request is answered: by the decisions service, through the API server or at a URL, or locally.

Owns: the interface of a transport, choosing one, naming the cluster of `--cluster` in each request, and the command's
proxy to the API server. Does not own: the transports (`kubectl`, `http`, `local`), paths of requests
(`herodotus_client.api_paths`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from herodotus_cli.errors import CliError, print_to_stderr
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_cli.connection import ConnectionSettings
    from herodotus_cli.transport.kubectl_proxy import KubectlProxy
    from herodotus_cli.transport.local import LocalTransport

Json = dict[str, Any]


class Transport(Protocol):
    """The interface of a client of the decisions service. Every method raises CliError if the request fails."""

    def get(self, path: str) -> Json:
        """Return the JSON document at a path, which may have a query string."""
        ...

    def post(self, path: str, document: Json) -> Json:
        """Post a JSON document to a path and return the response document."""
        ...

    def stream(self, path: str) -> Generator[Json, None, None]:
        """Request a watch and yield its documents until the service ends it. Closing the generator ends it too."""
        ...


class ClusterTransport:
    """A transport that makes each request of another transport be about one cluster, given by ID or name."""

    def __init__(self, transport: Transport, cluster: str) -> None:
        self._transport, self._cluster = transport, cluster

    def get(self, path: str) -> Json:
        return self._transport.get(api_paths.select_cluster(path, self._cluster))

    def post(self, path: str, document: Json) -> Json:
        return self._transport.post(path, api_paths.select_cluster_of_review(document, self._cluster))

    def stream(self, path: str) -> Generator[Json, None, None]:
        return self._transport.stream(api_paths.select_cluster(path, self._cluster))


def connect(connection: ConnectionSettings, environ: Mapping[str, str]) -> Transport:
    """Return the transport for these settings: local, HTTP if they have an endpoint, otherwise kubectl.

    Where the cluster has no decisions service, the transport with kubectl answers locally, if local mode is installed.
    """
    if connection.local:
        return open_local(connection, environ)
    transport: Transport
    if connection.endpoint:
        from herodotus_cli.transport.http import HttpTransport

        transport = HttpTransport(connection.endpoint, connection.request_timeout_s)
    else:
        from herodotus_cli.transport.kubectl import KubectlTransport

        transport = KubectlTransport(connection, environ)
    return ClusterTransport(transport, connection.cluster) if connection.cluster else transport


def open_local(
    connection: ConnectionSettings, environ: Mapping[str, str], tell: Callable[..., None] = print_to_stderr
) -> LocalTransport:
    """Return the local transport of a connection: the same one for each call, so that the cluster is read once.

    `tell` prints lines for the user. Raises CliError if local mode is not installed.
    """
    from herodotus_cli.transport.local import LocalTransport

    if connection not in _local:
        _local[connection] = LocalTransport(connection, lambda: open_proxy(connection, environ), tell)
    return _local[connection]


def has_read_locally(connection: ConnectionSettings) -> bool:
    """Return whether local mode has started to read the cluster of a connection for this command."""
    return connection in _local and _local[connection].has_opened


def open_objects(connection: ConnectionSettings, environ: Mapping[str, str]) -> ClusterObjects:
    """Return the cluster's objects as the user may read them now, through one `kubectl proxy` for the command.

    Nothing can be read if the answer is not about the cluster of the kubeconfig, or if kubectl cannot run.
    """
    from http.client import HTTPException  # here and below, because most answers read no objects

    from herodotus_answers.live.cluster_objects import ClusterObjects, no_objects
    from herodotus_client.responses import ServiceError, parse_response

    if not connection.reaches_cluster:
        return no_objects()

    def fetch(path: str) -> tuple[int, Json]:
        try:
            code, body = open_proxy(connection, environ).get(path)
            return code, parse_response(body, code)
        except ServiceError as e:
            return e.code, {}
        except (CliError, OSError, HTTPException):
            return 0, {}

    return ClusterObjects(fetch)


def close() -> None:
    """End the processes and delete the files that the command used."""
    while _local:
        _local.popitem()[1].close()
    while _proxies:
        _proxies.popitem()[1].close()


def open_proxy(connection: ConnectionSettings, environ: Mapping[str, str]) -> KubectlProxy:
    """Return the command's proxy to the API server: the same one for each call. Raises CliError without kubectl."""
    from herodotus_cli.transport.kubectl import KubectlTransport
    from herodotus_cli.transport.kubectl_proxy import KubectlProxy

    if connection not in _proxies:
        _proxies[connection] = KubectlProxy(KubectlTransport(connection, environ).cluster_proxy)
    return _proxies[connection]


_local: dict[ConnectionSettings, LocalTransport] = {}
_proxies: dict[ConnectionSettings, KubectlProxy] = {}
