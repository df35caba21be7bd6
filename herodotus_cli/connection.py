"""The settings of a connection to the decisions service, which every layer of the plugin uses.

Owns: these values and their defaults. Does not own: the options that they come from (`option_values`).
"""

from __future__ import annotations

from typing import NamedTuple

# An API server or service that is silent for this long will not answer; kubectl itself would wait for ever.
REQUEST_TIMEOUT_S = 30.0


class ServiceAddress(NamedTuple):
    """The address of the Kubernetes Service that the API server's proxy forwards requests to."""

    namespace: str
    scheme: str
    name: str
    port: str

    @property
    def proxy_path(self) -> str:
        """The path of the API server's proxy for this Service."""
        return f"/api/v1/namespaces/{self.namespace}/services/{self.scheme}:{self.name}:{self.port}/proxy"


DEFAULT_SERVICE = ServiceAddress("herodotus", "https", "herodotus-endpoint", "8000")
# Without TLS. The Service has a port of that name only if it was installed with plain HTTP.
PLAIN_HTTP_SERVICE = ServiceAddress("herodotus", "http", "herodotus-endpoint", "plain-http")


class ConnectionSettings(NamedTuple):
    """The settings with which the plugin reaches the decisions service.

    The service is at the URL `endpoint`. If that is empty, it is reached with kubectl through the API server.
    `request_timeout_s` of 0 means no limit. With `local` no service is used: the cluster is read and evaluated, with
    the KubeSchedulerConfiguration in the file `scheduler_config` and the rules of `kubernetes_version`, unless empty.
    `cluster` is the ID or name of the cluster whose records are asked about; if it is empty, the service chooses its
    own.
    """

    context: str = ""
    kubeconfig: str = ""
    endpoint: str = ""
    service: ServiceAddress = DEFAULT_SERVICE
    request_timeout_s: float = REQUEST_TIMEOUT_S
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    local: bool = False
    scheduler_config: str = ""
    cluster: str = ""
    kubernetes_version: str = ""

    @property
    def reaches_cluster(self) -> bool:
        """Whether kubectl reaches the API server of the cluster that the answers are about.

        Otherwise its objects, such as a pod of the same name, are not known.
        """
        return not self.endpoint and not self.cluster
