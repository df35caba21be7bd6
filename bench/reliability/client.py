"""An administrator's client for the API server that repeats requests until they are answered.

It ignores conflicts with concurrent changes: an existing name, a deleted or modified object.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

import httpx

Json = dict[str, Any]

PATIENCE_S: Final = 60.0  # three times the longest stall
MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}
AT_ONCE: Final = {"gracePeriodSeconds": 0}


class RetryingClient:
    """A client with one connection, for the driver's thread only."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=10.0)

    def create(self, path: str, body: Json) -> None:
        """Send a POST with an object."""
        self._send("POST", path, (409, 403), json=body)  # 403: the namespace is terminating, or a quota is exceeded.

    def patch(self, path: str, body: Json) -> None:
        """Send a merge patch."""
        self._send("PATCH", path, (404, 409, 422), content=json.dumps(body), headers=MERGE_PATCH)

    def delete(self, path: str) -> None:
        """Send a DELETE without a grace period."""
        self._send("DELETE", path, (404, 409), json=AT_ONCE)

    def put(self, path: str, body: Json) -> None:
        """Send a PUT with an object."""
        self._send("PUT", path, (), json=body)

    def post(self, path: str) -> None:
        """Send a POST without a body."""
        self._send("POST", path, ())

    def close(self) -> None:
        """Close the connection to the API server."""
        self._http.close()

    def _send(self, method: str, path: str, accepted: tuple[int, ...], **request: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                response = self._http.request(method, path, **request)
                if response.status_code < 400 or response.status_code in accepted:
                    return
                if response.status_code not in (429, 500, 503, 504) or time.monotonic() > deadline:
                    raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
