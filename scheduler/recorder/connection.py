"""A connection to the decisions service that shows who we are, with the certificates as they are now.

Owns: the HTTP client, when it is made anew. Does not own: flags and files (`endpoint`), what is sent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import httpx

from scheduler.recorder.endpoint import ServiceEndpoint

LOOK_EVERY_S: Final = 10.0  # at certificates, which are renewed days before they end


class ServiceConnection:
    """Requests to one service. For one thread."""

    def __init__(
        self, endpoint: ServiceEndpoint, timeout_s: float, transport: httpx.BaseTransport | None = None
    ) -> None:
        """`transport`: instead of the network."""
        self._endpoint, self._timeout_s, self._transport = endpoint, timeout_s, transport
        self._client: httpx.Client | None = None
        self._made_of: object = None
        self._looked_at = 0.0

    def send(self, method: str, url: str, *, headers: dict[str, str], **options: Any) -> httpx.Response:
        """The answer. OSError when a token or certificate cannot be read, httpx.HTTPError when there is none."""
        return self._connected().request(method, url, headers=headers | self._endpoint.headers(), **options)

    def get(self, url: str, params: Sequence[tuple[str, str]]) -> bytes:
        """Return the body of a GET. Raises OSError where the service is not reached, or refuses."""
        try:
            response = self.send("GET", url, headers={}, params=list(params))
        except httpx.HTTPError as e:
            raise ConnectionError(str(e) or type(e).__name__) from e
        if response.is_error:
            raise ConnectionError(f"{response.status_code}: {response.text[:200]}")
        return response.content

    def close(self) -> None:
        """Give it back."""
        if self._client is not None:
            self._client.close()

    def _connected(self) -> httpx.Client:
        now = time.monotonic()
        if self._client is not None and now - self._looked_at < LOOK_EVERY_S:
            return self._client
        made_of = self._endpoint.identity()
        if self._client is None or made_of != self._made_of:
            self.close()
            verify = self._endpoint.tls() if self._endpoint.url.startswith("https://") else True
            self._client = httpx.Client(timeout=self._timeout_s, transport=self._transport, verify=verify)
            self._made_of = made_of
        self._looked_at = now
        return self._client
