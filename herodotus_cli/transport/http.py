"""Requests directly to a URL (`--endpoint`): the only module that imports httpx.

Owns: the request, its time limit, and the messages of its failures. Does not own: paths.

Invariant: follows no redirect, and sends no credentials.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit

from herodotus_cli.errors import CliError, unreachable
from herodotus_cli.transport.response_body import parse_response

# httpx imports its own command line, with pygments and more of Rich than the plugin uses: half of its start-up time.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

import httpx  # noqa: E402

_NO_TLS = "WRONG_VERSION_NUMBER"  # in OpenSSL's error when the server speaks plain HTTP
# The service sends a bookmark every 30 s: a stream without a byte for three of them is a dead connection.
_MAX_SILENCE_S = 90.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class HttpTransport:
    """The transport that sends HTTP requests directly to the decisions service at one base URL.

    A `timeout_s` of 0 means no limit.
    """

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        url = urlsplit(endpoint)
        # Proxies from the environment are for hosts elsewhere; without TLS no certificates need to be loaded (30 ms).
        self._settings: dict[str, Any] = {
            "timeout": timeout_s or None,
            "trust_env": url.hostname not in _LOOPBACK,
            "verify": url.scheme == "https",
            "follow_redirects": False,
        }

    def get(self, path: str) -> dict[str, Any]:
        return self._send("GET", path)

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        return self._send("POST", path, document)

    def _send(self, method: str, path: str, sent: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            with httpx.Client(**self._settings) as client:
                accept = {"Accept": "application/json"}
                response = client.request(method, self.endpoint + path, json=sent, headers=accept)
        except httpx.TimeoutException:
            raise unreachable(f"{self.endpoint}: no response within {self.timeout_s:g}s", self._hints()) from None
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise unreachable(f"{self.endpoint}: {_words(e)}", self._hints(e)) from None
        if response.is_redirect:
            raise CliError(
                f"error: {self.endpoint} redirects to {response.headers.get('location', 'elsewhere')}",
                ["if you trust it, give that URL with --endpoint"],
            )
        code = response.status_code
        status = "" if response.is_success else f"{code} {httpx.codes.get_reason_phrase(code)}".strip()
        return parse_response(response.content, self.endpoint, status)

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        """Request a watch and yield its documents, one per line of the response.

        Raises ConnectionFailedError if the connection breaks, or is silent for longer than the time between bookmarks.
        """
        patient = self._settings | {"timeout": httpx.Timeout(self.timeout_s or None, read=_MAX_SILENCE_S)}
        try:
            with httpx.Client(**patient) as client, client.stream("GET", self.endpoint + path) as response:
                if response.status_code != httpx.codes.OK:
                    parse_response(
                        response.read(), self.endpoint, f"{response.status_code} {response.reason_phrase}".strip()
                    )
                for line in response.iter_lines():
                    yield parse_response(line.encode(), self.endpoint)
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise unreachable(f"{self.endpoint}: {_words(e)}", self._hints(e)) from None

    def _hints(self, error: Exception | None = None) -> list[str]:
        if _NO_TLS in str(error):
            return [f"the service speaks plain HTTP:  --endpoint {self.endpoint.replace('https', 'http', 1)}"]
        return [f"is it running there?  curl {self.endpoint}/livez"]


def _words(error: Exception) -> str:
    """Return the message of an httpx error without its number, such as `Connection refused`."""
    return str(error).partition("] ")[2] or str(error) or type(error).__name__
