"""The transport of `--cluster`: every request is about one cluster of a service with records of several.

Owns: naming the cluster in each request. Does not own: the form of its name in requests (`api_paths`), sending them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from herodotus_cli.transport import api_paths
from herodotus_cli.transport.interface import Transport


class ClusterTransport:
    """A transport that makes each request of another transport be about one cluster, given by ID or name."""

    def __init__(self, transport: Transport, cluster: str) -> None:
        self._transport, self._cluster = transport, cluster

    def get(self, path: str) -> dict[str, Any]:
        return self._transport.get(api_paths.select_cluster(path, self._cluster))

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        return self._transport.post(path, api_paths.select_cluster_of_review(document, self._cluster))

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        return self._transport.stream(api_paths.select_cluster(path, self._cluster))
