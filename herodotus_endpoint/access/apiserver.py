"""The one door to the API server: reviews and three documents, as JSON.

Owns: credentials, connections, time limits, one exception. Does not own: what is asked.

Invariant: an answer that is not the kind that was asked for is no answer.
"""

from __future__ import annotations

import os
import ssl
from typing import Any, Final

import httpx
import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

TIMEOUT_S: Final = 5.0  # a review takes milliseconds; a reader waits for no longer than this
CONNECTIONS: Final = 16  # requests are answered by fewer threads, and most answers are remembered

Json = dict[str, Any]


class NoAnswerError(Exception):
    """The API server did not say: unreachable, refusing, or not making sense."""


class CredentialsError(Exception):
    """There is no way to reach an API server. One line that says why."""


class ApiServer:
    """Requests with this process's own credentials. Thread-safe."""

    def __init__(self, kubeconfig: str = "", transport: httpx.BaseTransport | None = None) -> None:
        """`kubeconfig`: "" is the cluster around this pod, or what KUBECONFIG names. `transport`: no network.

        CredentialsError when neither is there.
        """
        self._config = Configuration()
        self._config.host = "https://kubernetes.default.svc"
        if transport is None:
            _load(self._config, kubeconfig)
        self._client = httpx.Client(
            base_url=str(self._config.host).rstrip("/"),
            verify=_tls(self._config),
            timeout=TIMEOUT_S,
            limits=httpx.Limits(max_connections=CONNECTIONS),
            headers={"User-Agent": "herodotus-endpoint", "Accept": "application/json"},
            transport=transport,
        )

    def get(self, path: str) -> Json:
        """The document at a path."""
        return self._send("GET", path)

    def put(self, path: str, document: Json) -> Json:
        """The document at a path, replaced."""
        return self._send("PUT", path, document)

    def review(self, group: str, kind: str, spec: Json) -> Json:
        """The status of a review, such as TokenReview of authentication.k8s.io."""
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        status = self._send("POST", f"/apis/{group}/v1/{kind.lower()}s", body).get("status")
        if not isinstance(status, dict):
            raise NoAnswerError(f"the API server answered with something that is no {kind}")
        return status

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        token = self._config.get_api_key_with_prefix("BearerToken", alias="authorization")  # read anew when it is due
        headers = {"Authorization": token} if token else {}
        try:
            response = self._client.request(method, path, json=body, headers=headers)
            answer = response.json()
        except (httpx.HTTPError, ValueError) as e:
            raise NoAnswerError(f"the API server did not answer: {str(e) or type(e).__name__}") from e
        if response.is_error or not isinstance(answer, dict):
            said = answer.get("message", "") if isinstance(answer, dict) else ""
            raise NoAnswerError(f"the API server answered {response.status_code}: {said}")
        return answer


def _load(config: Configuration, kubeconfig: str) -> None:
    try:
        if not kubeconfig and not os.environ.get("KUBECONFIG") and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(client_configuration=config)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(config_file=kubeconfig or None, client_configuration=config)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as e:
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "no usable kubeconfig, and no cluster around this process"
        raise CredentialsError(f"{where}: {' '.join(str(e).split())[:200]}") from e


def _tls(config: Configuration) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=config.ssl_ca_cert)
        if config.cert_file:
            tls.load_cert_chain(config.cert_file, config.key_file)
    except OSError as e:
        raise CredentialsError(f"cannot load the certificates of the kubeconfig: {e}") from e
    if not config.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls
