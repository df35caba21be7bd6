"""Client of the API server for access reviews and a few objects, as JSON.

Owns: credentials, connections, time limits, and one exception type. Does not own: the content of requests.

Invariant: a response of an unexpected kind counts as no response.
"""

from __future__ import annotations

import os
import ssl
from typing import Any, Final

import httpx
import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

TIMEOUT_S: Final = 5.0  # a review takes milliseconds; this bounds how long a reader waits
CONNECTIONS: Final = 16  # fewer threads answer requests, and most results are cached

Json = dict[str, Any]


class ApiServerUnavailableError(Exception):
    """The API server is unreachable, refused the request, or returned an invalid response."""


class ApiServerCredentialsError(Exception):
    """No usable credentials for an API server; the message is one line."""


class ApiServerClient:
    """HTTP client with the credentials of this process. Thread-safe."""

    def __init__(self, kubeconfig: str = "", transport: httpx.BaseTransport | None = None) -> None:
        """Load the credentials. Raises ApiServerCredentialsError if there are none.

        `kubeconfig` "" means the cluster around this pod, or what KUBECONFIG names. `transport` replaces the network in
        tests.
        """
        self._config = Configuration()
        self._config.host = "https://kubernetes.default.svc"
        if transport is None:
            _load_credentials(self._config, kubeconfig)
        self._client = httpx.Client(
            base_url=str(self._config.host).rstrip("/"),
            verify=_build_tls_context(self._config),
            timeout=TIMEOUT_S,
            limits=httpx.Limits(max_connections=CONNECTIONS),
            headers={"User-Agent": "herodotus-endpoint", "Accept": "application/json"},
            transport=transport,
        )

    def get(self, path: str) -> Json:
        """Return the object at a path."""
        return self._send("GET", path)

    def put(self, path: str, document: Json) -> Json:
        """Replace the object at a path and return it."""
        return self._send("PUT", path, document)

    def review(self, group: str, kind: str, spec: Json) -> Json:
        """Create a review, such as TokenReview of authentication.k8s.io, and return its status."""
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        status = self._send("POST", f"/apis/{group}/v1/{kind.lower()}s", body).get("status")
        if not isinstance(status, dict):
            raise ApiServerUnavailableError(f"the API server answered with something that is no {kind}")
        return status

    def close(self) -> None:
        """Close the connections to the API server."""
        self._client.close()

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        token = self._config.get_api_key_with_prefix("BearerToken", alias="authorization")  # read anew when it is due
        headers = {"Authorization": token} if token else {}
        try:
            response = self._client.request(method, path, json=body, headers=headers)
            answer = response.json()
        except (httpx.HTTPError, ValueError) as e:
            raise ApiServerUnavailableError(f"the API server did not answer: {str(e) or type(e).__name__}") from e
        if response.is_error or not isinstance(answer, dict):
            said = answer.get("message", "") if isinstance(answer, dict) else ""
            raise ApiServerUnavailableError(f"the API server answered {response.status_code}: {said}")
        return answer


def _load_credentials(config: Configuration, kubeconfig: str) -> None:
    try:
        if not kubeconfig and not os.environ.get("KUBECONFIG") and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(client_configuration=config)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(config_file=kubeconfig or None, client_configuration=config)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as e:
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "no usable kubeconfig, and no cluster around this process"
        raise ApiServerCredentialsError(f"{where}: {' '.join(str(e).split())[:200]}") from e


def _build_tls_context(config: Configuration) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=config.ssl_ca_cert)
        if config.cert_file:
            tls.load_cert_chain(config.cert_file, config.key_file)
    except OSError as e:
        raise ApiServerCredentialsError(f"cannot load the certificates of the kubeconfig: {e}") from e
    if not config.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls
