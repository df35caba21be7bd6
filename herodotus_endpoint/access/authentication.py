"""Authentication of readers and of senders of records.

A reader is identified by the front proxy's headers or by a bearer token, a sender by a service account's token or a
client certificate.

Owns: reading credentials from the WSGI environment, the configured senders and their clusters. Does not own: verifying
credentials (`herodotus_kube.delegated_auth`), TLS, the check of a batch's cluster (`store.writer`).

Invariant: `X-Remote-*` headers are read only from the front proxy. A sender is bound to one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from herodotus_endpoint.errors import StatusError, retry_later
from herodotus_kube.api_conventions import ApiError
from herodotus_kube.delegated_auth import (
    FrontProxy,
    ReviewCache,
    UserInfo,
    parse_bearer_token,
    verified_common_name,
)
from herodotus_serving.wsgi import CERTIFICATE, HEADERS

Environ = Mapping[str, Any]


@dataclass(frozen=True)
class ReaderAuthenticator:
    """Authentication of readers: finds the user who sent a request.

    It trusts user headers that the front proxy sends, and otherwise has the API server review the bearer token.
    `rights` reviews tokens, and the rights of users. `front_proxy` returns the front proxy's current settings.
    """

    rights: ReviewCache
    front_proxy: Callable[[], FrontProxy]

    def authenticate(self, environ: Environ) -> UserInfo | None:
        """Return the user who sent the request, or None if it has neither trusted user headers nor a valid token."""
        certificate = _client_certificate(environ)
        if certificate and (trusted := self.front_proxy()).is_front_proxy(certificate):
            # The standard WSGI keys join repeated headers with commas, and the name of a group may contain a comma.
            return trusted.parse_user(environ.get(HEADERS, ()))
        token = _bearer_token(environ)
        return self.rights.authenticate_token(token) if token else None


@dataclass(frozen=True)
class SenderAuthenticator:
    """Authentication of the schedulers that send records; each sender is bound to one cluster.

    `clusters` maps a sender's user name, or its certificate's common name, to the ID of its cluster. `rights` reviews
    tokens, which must be valid for `audience`; it is None if senders use certificates. `authority` returns the PEM
    certificates of the CAs that sign senders' certificates, or "" if senders use tokens.
    """

    clusters: Mapping[str, str]
    rights: ReviewCache | None = None
    audience: str = ""
    authority: Callable[[], str] = str

    def authenticate(self, environ: Environ) -> str:
        """Return the ID of the cluster for which the sender of this request may send records.

        Raises StatusError 401 without valid credentials, 403 if the sender is not in `clusters`, and 503 if the API
        server cannot review the token.
        """
        name = self._read_certificate_name(environ) or self._review_token(environ)
        if not name:
            raise StatusError(401, "ingest needs a service account's token or a client certificate")
        if name not in self.clusters:
            raise StatusError(403, f'"{name}" is not a configured sender of records (--ingest-sender)')
        return self.clusters[name]

    @property
    def names(self) -> Mapping[str, str]:
        """The ID of each cluster by the common name of its sender's certificate; empty if senders use tokens."""
        return self.clusters if self.rights is None else {}

    def _read_certificate_name(self, environ: Environ) -> str:
        certificate = _client_certificate(environ)
        return (verified_common_name(certificate, self.authority()) or "") if certificate else ""

    def _review_token(self, environ: Environ) -> str:
        token = _bearer_token(environ)
        if not token or self.rights is None:
            return ""
        try:
            user = self.rights.authenticate_token(token, self.audience)
        except ApiError as e:
            raise retry_later(503, f"cannot authenticate the token: {e.describe()}") from e
        return user.name if user else ""


def _bearer_token(environ: Environ) -> str:
    return parse_bearer_token(str(environ.get("HTTP_AUTHORIZATION", "")))


def _client_certificate(environ: Environ) -> bytes:
    """Return the client's certificate (DER), which TLS has verified, or b"" if the client presented none."""
    return bytes(environ.get(CERTIFICATE, b""))
