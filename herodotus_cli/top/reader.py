"""Reads nodes and pods from the API server, with kubectl's credentials, one page after the other.

Owns: these requests and their proxy. Does not own: what the objects mean (`cluster`).

A page holds few objects, so that parsing one never delays a key for long: Python parses JSON without releasing its
lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import Any

from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import CliError, from_service_error
from herodotus_cli.top.cluster import NodeRow, NodesAndPods, PodRow, build_state, read_node, read_pod
from herodotus_cli.transport.kubectl import KubectlTransport
from herodotus_cli.transport.kubectl_proxy import KubectlProxy
from herodotus_client.responses import read_status

Json = dict[str, Any]

_PAGE = 250
_NOT_ENDED = "status.phase!%3DSucceeded,status.phase!%3DFailed"


class _ForbiddenError(CliError):
    """The user may not read what was requested."""


class NodeReader:
    """Reads nodes and pods of one cluster. Not safe for several threads at once."""

    def __init__(self, connection: ConnectionSettings, environ: Mapping[str, str]) -> None:
        """Start kubectl without waiting for it. Raises CliError without kubectl."""
        self._transport = KubectlTransport(connection, environ)
        self._proxy = KubectlProxy(self._transport.cluster_proxy)

    def read(self, namespace: str, show: Callable[[NodesAndPods], None] | None = None) -> NodesAndPods:
        """Return nodes and pods. `show` is called with the nodes as soon as the first of them are known.

        The pods of all namespaces are read, because all count on a node. If the user may not read these, only those of
        `namespace` are. Raises CliError if the API server did not answer.
        """
        try:
            nodes: list[NodeRow] = []
            shown = 0
            for page in self._pages("/api/v1/nodes?"):
                nodes += map(read_node, page)
                if show is not None and len(nodes) >= 2 * shown:  # the first page, then twice as many
                    show(build_state(nodes, (), has_all_pods=False))
                    shown = len(nodes)
            try:
                return build_state(nodes, self._read_pods("/api/v1/pods"), has_all_pods=True)
            except _ForbiddenError:
                if not namespace:
                    raise
                pods = self._read_pods(f"/api/v1/namespaces/{namespace}/pods")
                return build_state(nodes, pods, has_all_pods=False)
        except (OSError, HTTPException, ValueError) as e:
            self._restart()
            raise CliError(f"error: kubectl proxy did not answer: {e}") from None

    def close(self) -> None:
        """End kubectl. A request that runs in another thread fails."""
        self._proxy.close()

    def _restart(self) -> None:
        self._proxy.close()
        self._proxy = KubectlProxy(self._transport.cluster_proxy)

    def _read_pods(self, path: str) -> list[PodRow]:
        return [
            row for page in self._pages(f"{path}?fieldSelector={_NOT_ENDED}&") for row in map(read_pod, page) if row
        ]

    def _pages(self, path: str) -> Iterator[list[Json]]:
        more = ""
        while True:
            code, body = self._proxy.get(f"{path}limit={_PAGE}{f'&continue={more}' if more else ''}")
            document = json.loads(body)
            more = (document.get("metadata") or {}).get("continue") or ""
            if code == 410 and more:  # The token has expired: with the answer's own the list goes on as it is now.
                continue
            if code != 200:
                error = from_service_error(read_status(document, code), "the API server")
                raise _ForbiddenError(error.message, error.hints) if code == 403 else error
            yield document["items"]
            if not more:
                return
