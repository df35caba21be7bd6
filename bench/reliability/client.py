"""Requests to the API server as an administrator: repeated until they are answered.

What somebody else made true meanwhile is no error: a name that is taken, an object that is gone or has changed.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final

import httpx

Json = dict[str, Any]

PATIENCE_S: Final = 30.0
MERGE_PATCH: Final = {"Content-Type": "application/merge-patch+json"}
AT_ONCE: Final = {"gracePeriodSeconds": 0}


class Client:
    """One connection, used by the driver's thread alone."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._http = httpx.Client(base_url=url, headers=headers, verify=False, timeout=10.0)

    def create(self, path: str, body: Json) -> None:
        """POST."""
        self._send("POST", path, (409, 403), json=body)  # 403: a namespace that goes, a quota; never ours to judge

    def patch(self, path: str, body: Json) -> None:
        """A merge patch."""
        self._send("PATCH", path, (404, 409, 422), content=json.dumps(body), headers=MERGE_PATCH)

    def delete(self, path: str) -> None:
        """DELETE, without a grace period."""
        self._send("DELETE", path, (404, 409), json=AT_ONCE)

    def put(self, path: str, body: Json) -> None:
        """PUT."""
        self._send("PUT", path, (), json=body)

    def post(self, path: str) -> None:
        """POST without a body."""
        self._send("POST", path, ())

    def close(self) -> None:
        """No more requests."""
        self._http.close()

    def _send(self, method: str, path: str, borne: tuple[int, ...], **request: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                response = self._http.request(method, path, **request)
                if response.status_code < 400 or response.status_code in borne:
                    return
                if response.status_code not in (429, 500, 503) or time.monotonic() > deadline:
                    raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
