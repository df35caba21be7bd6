"""Who sent a request: the front proxy's word, or a bearer token.

Owns: reading both from the WSGI environment. Does not own: whether either is believed (`frontproxy`, `rights`).

Invariant: `X-Remote-*` headers of anybody else are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from herodotus_endpoint.access.frontproxy import FrontProxy, Headers
from herodotus_endpoint.access.rights import Rights
from herodotus_endpoint.access.user import User

# Headers as they were sent. WSGI joins repeated ones with commas, and a group may contain a comma (LDAP), so the server
# packs those that start with X- into this one, for everyone alike, and drops what a client sent under its name.
PACKED: Final = "X-HERODOTUS-HEADERS"
CERTIFICATE: Final = "herodotus.client_certificate"  # in the environment: DER, verified by TLS; for tests without TLS

Environ = Mapping[str, Any]


class Identity:
    """Names the sender of a request."""

    def __init__(self, rights: Rights, front_proxy: Callable[[], FrontProxy]) -> None:
        """`front_proxy`: the trust settings of this moment."""
        self._rights = rights
        self._front_proxy = front_proxy

    def of(self, environ: Environ) -> User | None:
        """The user; None where nobody is named, or not by anyone who is believed."""
        certificate = client_certificate(environ)
        if certificate and (trusted := self._front_proxy()).sent(certificate):
            return trusted.reader(sent_headers(environ))
        token = bearer_token(environ)
        return self._rights.user_of(token) if token else None


def pack_headers(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers of a request with those that start with X- packed into one."""
    packed = [(name, value) for name, value in headers if name.upper().startswith("X-") and name.upper() != PACKED]
    return [h for h in headers if h[0].upper() != PACKED] + [(PACKED, json.dumps(packed))]


def sent_headers(environ: Environ) -> Headers:
    """What `pack_headers` packed."""
    packed = environ.get(f"HTTP_{PACKED.replace('-', '_')}", "")
    return [(name, value) for name, value in json.loads(packed)] if packed else []


def bearer_token(environ: Environ) -> str:
    """The token of the Authorization header; "" where there is none."""
    scheme, _, token = str(environ.get("HTTP_AUTHORIZATION", "")).strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def client_certificate(environ: Environ) -> bytes:
    """The certificate of the peer, which TLS has verified; empty where it showed none."""
    given = environ.get(CERTIFICATE)
    if given:
        return bytes(given)
    peer = getattr(environ.get("gunicorn.socket"), "getpeercert", None)
    return (peer(True) or b"") if peer else b""
