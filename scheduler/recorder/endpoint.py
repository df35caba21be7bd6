"""The address of the decisions service, and the credentials that the shipper presents there.

Owns: the `--endpoint` flags and reading the files that they name. Does not own: HTTP (`shipper`).

Invariant: a token does not leave this machine unencrypted.
"""

from __future__ import annotations

import argparse
import ssl
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from herodotus_serving.sockets import is_loopback_host


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
        given = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name != "url" and getattr(self, f.name))
        return ["--endpoint", self.url, *(w for name, file in given for w in (_flag(name), str(file)))]

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
    found = ServiceEndpoint(arguments.endpoint, **{name: getattr(arguments, f"endpoint_{name}") for name in names})
    found.check()
    return found


def _flag(name: str) -> str:
    return f"--endpoint-{name.replace('_', '-')}"
