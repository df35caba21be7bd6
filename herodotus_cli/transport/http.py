"""Requests directly to a URL (`--endpoint`), with the Python client.

Owns: the messages of failures. Does not own: the request (`herodotus_client.client`), paths.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from herodotus_cli.errors import CliError, from_service_error, unreachable
from herodotus_client.responses import ServiceError
from herodotus_record.lean_httpx import leave_out_command_line

leave_out_command_line()

import httpx  # noqa: E402

from herodotus_client.client import Client  # noqa: E402

Json = dict[str, Any]
_NO_TLS = "WRONG_VERSION_NUMBER"  # in OpenSSL's error when the server speaks plain HTTP


class HttpTransport:
    """The transport that sends HTTP requests directly to the decisions service at one base URL.

    A `timeout_s` of 0 means no limit.
    """

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s

    def get(self, path: str) -> Json:
        with self._open() as client:
            return client.request(path)

    def post(self, path: str, document: Json) -> Json:
        with self._open() as client:
            return client.request(path, document)

    def stream(self, path: str) -> Generator[Json, None, None]:
        """Request a watch and yield its documents, one per line of the response.

        Raises ConnectionFailedError if the connection breaks, or is silent for longer than the time between bookmarks.
        """
        with self._open(watches=True) as client:
            yield from client.stream(path)

    @contextmanager
    def _open(self, watches: bool = False) -> Iterator[Client]:
        """Context manager that yields a client, and raises CliError for the failures of its requests.

        `watches` is true for a watch, which has another time limit than `timeout_s`, so that the error does not name
        one.
        """
        try:
            with Client(self.endpoint, timeout_s=self.timeout_s or None) as client:
                yield client
        except ServiceError as e:
            if 300 <= e.code < 400:
                hint = "if you trust it, give that URL with --endpoint"
                raise CliError(f"error: {self.endpoint} {e.message}", [hint]) from None
            raise from_service_error(e, self.endpoint) from None
        except httpx.TimeoutException as e:
            limit_s = 0.0 if watches else self.timeout_s
            problem = f"no response within {limit_s:g}s" if limit_s else _describe(e)
            raise unreachable(f"{self.endpoint}: {problem}", self._hints()) from None
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise unreachable(f"{self.endpoint}: {_describe(e)}", self._hints(e)) from None

    def _hints(self, error: Exception | None = None) -> list[str]:
        if _NO_TLS in str(error):
            return [f"the service speaks plain HTTP:  --endpoint {self.endpoint.replace('https', 'http', 1)}"]
        return [f"is it running there?  curl {self.endpoint}/livez"]


def _describe(error: Exception) -> str:
    """Return the message of an httpx error without its number, such as `Connection refused`."""
    return str(error).partition("] ")[2] or str(error) or type(error).__name__
