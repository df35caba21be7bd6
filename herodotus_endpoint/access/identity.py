"""Authentication of a request: by the front proxy's headers or by a bearer token.

Owns: reading both from the WSGI environment. Does not own: verifying either (`front_proxy`, `authorization`).

Invariant: `X-Remote-*` headers are read only from the front proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from herodotus_endpoint.access.authorization import ReviewCache
from herodotus_endpoint.access.front_proxy import FrontProxy, Headers
from herodotus_endpoint.access.user_info import UserInfo
from herodotus_serving.wsgi import CERTIFICATE, HEADERS

Environ = Mapping[str, Any]


class Authenticator:
    """Authentication of readers: finds the user who sent a request.

    It trusts user headers that the front proxy sends, and otherwise has the API server review the bearer token.
    """

    def __init__(self, rights: ReviewCache, front_proxy: Callable[[], FrontProxy]) -> None:
        """Create an authenticator; `front_proxy` returns the front proxy's current settings."""
        self._rights = rights
        self._front_proxy = front_proxy

    def authenticate(self, environ: Environ) -> UserInfo | None:
        """Return the user who sent the request, or None if it has neither trusted user headers nor a valid token."""
        certificate = client_certificate(environ)
        if certificate and (trusted := self._front_proxy()).is_front_proxy(certificate):
            return trusted.parse_user(sent_headers(environ))
        token = bearer_token(environ)
        return self._rights.authenticate_token(token) if token else None


def sent_headers(environ: Environ) -> Headers:
    """Return the request's headers as pairs of name and value, in the order in which they were sent.

    The standard WSGI keys join repeated headers with commas, and the name of a group may contain a comma.
    """
    headers: Headers = environ.get(HEADERS, ())
    return headers


def bearer_token(environ: Environ) -> str:
    """Return the bearer token in the Authorization header, or "" if the request has none."""
    scheme, _, token = str(environ.get("HTTP_AUTHORIZATION", "")).strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def client_certificate(environ: Environ) -> bytes:
    """Return the client's certificate (DER), which TLS has verified, or b"" if the client presented none."""
    return bytes(environ.get(CERTIFICATE, b""))
