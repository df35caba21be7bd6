"""Delegated authentication and authorization: the API server says who sends a request and what they may do.

Owns: the user of a request, token reviews and access reviews with their caches, recognition of the front proxy and its
headers. Does not own: the front proxy's published settings (`published_authorities`), the TLS handshake, which right a
path requires, and the errors that clients see.

Source: k8s.io/apiserver, delegating authentication and authorization.

Invariant: access fails closed. If a review fails, ApiError is raised. A header of the front proxy is trusted only with
a certificate that the published authority itself signed and whose common name is allowed (any name, if none is listed).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature

if TYPE_CHECKING:
    from herodotus_kube.http import ApiServer

PRIVILEGED: Final = "system:masters"  # always allowed by Kubernetes, and therefore not reviewed
TTL_S: Final = 10.0  # as long as Kubernetes' delegated authorization, so a revoked right ends at most this late
MAX_ENTRIES: Final = 4096  # readers times namespaces; more entries mean that somebody guesses tokens
MAX_CACHED_CERTIFICATES: Final = 256  # a few API servers and schedulers, with their previous certificates

Json = dict[str, Any]
Headers = Sequence[tuple[str, str]]  # as sent, in order; names in any case
V = TypeVar("V")


@dataclass(frozen=True)
class UserInfo:
    """A Kubernetes user with groups, UID and extra fields, as in the status of a TokenReview."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def parse(cls, user: Mapping[str, Any]) -> UserInfo:
        """Return the user in `user`, which is the field of that name in a TokenReview's status."""
        extra = sorted((str(key), tuple(map(str, values))) for key, values in (user.get("extra") or {}).items())
        groups = tuple(map(str, user.get("groups") or ()))
        return cls(str(user.get("username") or ""), groups, str(user.get("uid") or ""), tuple(extra))


class Right(Protocol):
    """A right that a SubjectAccessReview can check. Hashable; `str` is the wording of a Forbidden message."""

    def attributes(self) -> Json:
        """Return the part of a SubjectAccessReview's spec that describes this right."""


@dataclass(frozen=True)
class UrlRight:
    """The right to use a verb on a non-resource URL, such as /metrics."""

    path: str
    verb: str = "get"

    def attributes(self) -> Json:
        """Return the part of a SubjectAccessReview's spec that describes this right (`nonResourceAttributes`)."""
        return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}

    def __str__(self) -> str:
        return f'{self.verb} path "{self.path}"'


class ReviewCache:
    """A thread-safe cache of TokenReview and SubjectAccessReview results from one API server.

    It requests a review from the API server if it has no result or the result is older than ten seconds.
    """

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: TTLCache[UserInfo | None] = TTLCache(clock)
        self._rights: TTLCache[tuple[bool, str]] = TTLCache(clock)

    def authenticate_token(self, token: str, audience: str = "") -> UserInfo | None:
        """Return the user of a bearer token, or None if the API server does not accept the token for `audience`.

        If `audience` is "", the token must be valid for the API server itself. Raises ApiError if the review fails.
        """
        digest = hashlib.sha256(token.encode()).digest()  # the cache holds no tokens
        return self._users.get((digest, audience), lambda: self._review_token(token, audience))

    def authorize(self, user: UserInfo, right: Right) -> tuple[bool, str]:
        """Return whether the API server allows the user to do what `right` describes, and its reason or "".

        Raises ApiError if the review fails.
        """
        if PRIVILEGED in user.groups:
            return True, ""
        return self._rights.get((user, right), lambda: self._review_access(user, right))

    def is_allowed(self, user: UserInfo, right: Right) -> bool:
        """Return whether the API server allows the user to do what `right` describes.

        Raises ApiError if the review fails.
        """
        return self.authorize(user, right)[0]

    def _review_token(self, token: str, audience: str) -> UserInfo | None:
        audiences = {"audiences": [audience]} if audience else {}
        status = self._api.review("authentication.k8s.io", "TokenReview", {"token": token} | audiences)
        # a server without audience support returns no audiences
        is_for_audience = not audience or audience in (status.get("audiences") or ())
        user = UserInfo.parse(status.get("user") or {})
        return user if status.get("authenticated") is True and is_for_audience and user.name else None

    def _review_access(self, user: UserInfo, right: Right) -> tuple[bool, str]:
        spec: Json = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
        }
        status = self._api.review("authorization.k8s.io", "SubjectAccessReview", spec | right.attributes())
        return status.get("allowed") is True and not status.get("denied"), str(status.get("reason") or "")


class TTLCache(Generic[V]):
    """A thread-safe cache whose entries expire after TTL_S seconds.

    It evicts the oldest entry first if it is full, and it does not cache exceptions.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Create an empty cache; `clock` returns monotonic seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[object, tuple[float, V]] = {}

    def get(self, key: object, compute: Callable[[], V]) -> V:
        """Return the cached value of a key; if there is none or it has expired, cache the result of `compute`."""
        with self._lock:
            cached = self._entries.get(key)
        if cached is not None and self._clock() < cached[0]:
            return cached[1]
        value = compute()
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = (self._clock() + TTL_S, value)
            while len(self._entries) > MAX_ENTRIES:
                del self._entries[next(iter(self._entries))]
        return value


def parse_bearer_token(authorization: str) -> str:
    """Return the bearer token in the value of an Authorization header, or "" if it holds none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True)
class FrontProxy:
    """The settings with which the API server's front proxy is recognized and its user headers are read.

    `authority` holds the PEM certificates of the CAs that sign the front proxy's client certificate. If it is "", no
    certificate is trusted. If `allowed_names` is empty, every common name is allowed.
    """

    authority: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)

    def is_front_proxy(self, certificate: bytes) -> bool:
        """Return whether a client certificate (DER) is signed by `authority` and has an allowed common name.

        TLS has already checked the certificate's dates.
        """
        name = verified_common_name(certificate, self.authority)
        return name is not None and (not self.allowed_names or name in self.allowed_names)

    def parse_user(self, headers: Headers) -> UserInfo | None:
        """Return the user in the headers of a request, or None if they have no user name.

        The caller must have checked with `is_front_proxy` that the front proxy sent the request.
        """
        name = next(iter(_header_values(headers, self.username_headers)), "")
        if not name:
            return None
        groups = _header_values(headers, self.group_headers)
        uid = next(iter(_header_values(headers, self.uid_headers)), "")
        extra: dict[str, list[str]] = {}
        for header, value in headers:
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    extra.setdefault(unquote(header[len(prefix) :].lower()), []).append(value)
        return UserInfo(name, tuple(groups), uid, tuple((k, tuple(v)) for k, v in sorted(extra.items())))


# Every request of a client repeats its certificate, and verifying takes a millisecond.
@lru_cache(maxsize=MAX_CACHED_CERTIFICATES)
def verified_common_name(certificate: bytes, authority: str) -> str | None:
    """Return the common name of a certificate (DER) if a CA in `authority` (PEM) signed it directly, otherwise None.

    The result is "" if the signed certificate has no common name.
    """
    if not authority:
        return None
    client = x509.load_der_x509_certificate(certificate)
    if not any(_is_issued_by(client, by) for by in x509.load_pem_x509_certificates(authority.encode())):
        return None
    names = client.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _is_issued_by(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (InvalidSignature, ValueError, TypeError):  # a different signature, issuer name or key type
        return False
    return True


def _header_values(headers: Headers, names: Sequence[str]) -> list[str]:
    wanted = {name.lower() for name in names}
    return [value for name, value in headers if name.lower() in wanted and value]
