"""Whom to ask: values that every layer of the plugin knows, and that cost nothing to import.

Owns: these values and their defaults. Does not own: the options that they come from (`options`).

They are plain classes: what makes tuples or dataclasses of them takes as long to import as Python to start.
"""

from __future__ import annotations

# An API server or service that says nothing for this long is not going to; kubectl itself would wait for ever.
REQUEST_TIMEOUT_S = 30.0


class Service:
    """The Service of the decisions service, behind the API server's proxy."""

    def __init__(self, namespace: str, scheme: str, name: str, port: str) -> None:
        self.namespace, self.scheme, self.name, self.port = namespace, scheme, name, port

    @property
    def proxy_path(self) -> str:
        """Where the API server forwards to it."""
        return f"/api/v1/namespaces/{self.namespace}/services/{self.scheme}:{self.name}:{self.port}/proxy"


SERVICE = Service("herodotus", "https", "herodotus-endpoint", "8000")
# Without TLS: the API server knows a port of that name only where whoever installed the service asked for none.
PLAIN_SERVICE = Service("herodotus", "http", "herodotus-endpoint", "plain-http")


class Connection:
    """Whom to ask. `endpoint` empty: through the API server, with the user's kubeconfig."""

    def __init__(
        self,
        context: str = "",
        kubeconfig: str = "",
        endpoint: str = "",
        service: Service = SERVICE,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        as_user: str = "",
        as_groups: tuple[str, ...] = (),
    ) -> None:
        self.context, self.kubeconfig = context, kubeconfig
        self.endpoint, self.service = endpoint, service
        self.request_timeout_s = request_timeout_s
        self.as_user, self.as_groups = as_user, as_groups
