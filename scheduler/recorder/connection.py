"""An authenticated connection to the decisions service, renewed when the certificates change.

Owns: the HTTP client and when it is built again. Does not own: flags and files (`endpoint`), the requests.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import httpx

from scheduler.recorder.endpoint import ServiceEndpoint

LOOK_EVERY_S: Final = 10.0  # at certificates, which are renewed days before they end
CONNECT_S: Final = 3.0  # a service that is away may leave the connection unanswered: then another try must come soon


class ServiceConnection:
    """An HTTP client of one decisions service, which reloads changed certificates. For use by one thread."""

    def __init__(
        self, endpoint: ServiceEndpoint, timeout_s: float, transport: httpx.BaseTransport | None = None
    ) -> None:
        """Store the settings without connecting. `transport` replaces the network in tests."""
        self._endpoint, self._timeout_s, self._transport = endpoint, timeout_s, transport
        self._client: httpx.Client | None = None
        self._certificates: object = None
        self._checked_s = 0.0

    def send(self, method: str, url: str, *, headers: dict[str, str], **options: Any) -> httpx.Response:
        """Send an authenticated request to the decisions service and return the response with any status.

        Raise OSError if a token or certificate cannot be read, httpx.HTTPError if there is no response.
        """
        client = self._get_client()
        try:
            return client.request(method, url, headers=headers | self._endpoint.build_headers(), **options)
        except httpx.ConnectError:
            self._checked_s = 0.0  # the service may have a new certificate: look at the files before the next request
            raise

    def get(self, url: str, params: Sequence[tuple[str, str]]) -> bytes:
        """Return the body of a GET. Raise OSError if the service cannot be reached or responds with an error status."""
        try:
            response = self.send("GET", url, headers={}, params=list(params))
        except httpx.HTTPError as e:
            raise ConnectionError(str(e) or type(e).__name__) from e
        if response.is_error:
            raise ConnectionError(f"{response.status_code}: {response.text[:200]}")
        return response.content

    def close(self) -> None:
        """Close the HTTP client."""
        if self._client is not None:
            self._client.close()

    def _get_client(self) -> httpx.Client:
        now = time.monotonic()
        if self._client is not None and now - self._checked_s < LOOK_EVERY_S:
            return self._client
        certificates = self._endpoint.read_certificates()
        if self._client is None or certificates != self._certificates:
            self.close()
            verify = self._endpoint.build_tls_context() if self._endpoint.url.startswith("https://") else True
            timeout = httpx.Timeout(self._timeout_s, connect=min(self._timeout_s, CONNECT_S))
            self._client = httpx.Client(timeout=timeout, transport=self._transport, verify=verify)
            self._certificates = certificates
        self._checked_s = now
        return self._client
