"""The address of the decisions service, the credentials that the shipper presents there, and its connection.

Owns: the `--endpoint` flags, reading the files that they name, the HTTP client and when it is built again. Does not
own: the requests.

Invariant: a token does not leave this machine unencrypted.
"""

from __future__ import annotations

import argparse
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from herodotus_serving.sockets import is_loopback_host

LOOK_EVERY_S: Final = 10.0  # at certificates, which are renewed days before they end
CONNECT_S: Final = 3.0  # a service that is away may leave the connection unanswered: then another try must come soon


class EndpointError(Exception):
    """The `--endpoint` flags contradict each other. The message is one line."""


@dataclass(frozen=True)
class ServiceEndpoint:
    """The URL of the decisions service and the credential files to use there. A file that is not given is None."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def check(self) -> None:
        """Raise EndpointError if the fields contradict each other or would send the token unencrypted."""
        if bool(self.cert_file) != bool(self.key_file):
            raise EndpointError("--endpoint-cert-file and --endpoint-key-file go together")
        if self.url.startswith("https://"):
            return
        if self.ca_file or self.cert_file:
            raise EndpointError("the flags --endpoint-ca-* and --endpoint-cert-file go with an https:// --endpoint")
        if self.token_file and not is_loopback_host(urlsplit(self.url).hostname or ""):
            raise EndpointError(
                "--endpoint-token-file goes with an https:// --endpoint: the token would be in the clear"
            )

    def to_flags(self) -> list[str]:
        """Return the command-line flags that describe this endpoint."""
        files = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name != "url" and getattr(self, f.name))
        return ["--endpoint", self.url, *(w for name, file in files for w in (_flag(name), str(file)))]

    def build_headers(self) -> dict[str, str]:
        """Return the authentication headers of a request, with the token read anew.

        Raise OSError if it cannot be read.
        """
        if self.token_file is None:
            return {}
        return {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}  # the kubelet renews it in time

    def read_certificates(self) -> tuple[Any, ...]:
        """Return the contents of the CA, certificate and key files, so that the caller can detect a change.

        A file that is not given counts as None.
        """
        files = (self.ca_file, self.cert_file, self.key_file)
        return tuple(file.read_bytes() if file else None for file in files)

    def build_tls_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the authorities in `ca_file`, or the system's if it is not given.

        It presents the client certificate, if there is one. Raise OSError if a file cannot be used.
        """
        context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


def add_options(group: argparse._ActionsContainer) -> None:
    """Add the flags `--endpoint-token-file`, `-ca-file`, `-cert-file` and `-key-file` to a command-line parser."""
    for name, what in (
        ("token_file", "a service account's token to show there, read anew for each batch"),
        ("ca_file", "the authority of its certificate (default: the system's)"),
        ("cert_file", "a client certificate to show there instead of a token"),
        ("key_file", "the client certificate's key"),
    ):
        group.add_argument(_flag(name), type=Path, metavar="FILE", help=what)


def endpoint_from_arguments(arguments: argparse.Namespace) -> ServiceEndpoint | None:
    """Return the decisions service of the parsed `--endpoint` flags, or None if `--endpoint` is not given.

    Raise EndpointError if the flags contradict each other.
    """
    if not arguments.endpoint:
        return None
    names = [f.name for f in fields(ServiceEndpoint) if f.name != "url"]
    endpoint = ServiceEndpoint(arguments.endpoint, **{name: getattr(arguments, f"endpoint_{name}") for name in names})
    endpoint.check()
    return endpoint


def _flag(name: str) -> str:
    return f"--endpoint-{name.replace('_', '-')}"


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
