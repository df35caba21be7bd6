"""Recognition of the API server's front proxy, and parsing of the user that its headers name.

Owns: the trust settings that the API server publishes, verification of the front proxy's certificate, its headers. Does
not own: the TLS handshake (`tls`), rights.

Source: kube-system/extension-apiserver-authentication, as k8s.io/apiserver reads it (requestheader-*).

Invariant: a header is trusted only with a certificate that the published authority itself signed and whose common name
is allowed (any name, if none is listed). Without settings no header is trusted.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from herodotus_endpoint.access.user_info import UserInfo
from herodotus_kube.api_conventions import ApiError

if TYPE_CHECKING:
    from herodotus_kube.http import ApiServer

PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REFRESH_S: Final = 60.0  # the settings change once in years
RETRY_S: Final = 5.0  # while they cannot be read; the known settings stay
MAX_CACHED_CERTIFICATES: Final = 256  # a few API servers and schedulers, with their previous certificates
_log: Final = logging.getLogger(__name__)

Headers = Sequence[tuple[str, str]]  # as sent, in order; names in any case


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
        """Return the user that the headers name, or None if no header holds a user name.

        The caller has checked that the front proxy sent the headers.
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


class FrontProxyWatcher:
    """A background thread that reads the front proxy's settings from the API server again every REFRESH_S seconds.

    `known` holds the latest settings that could be read.
    """

    def __init__(self, api: ApiServer, known: FrontProxy) -> None:
        """Create a watcher; `known` holds the settings to use until the thread has read them again."""
        self._api = api
        self._stop = threading.Event()
        self.known = known

    def start(self) -> None:
        """Start the daemon thread that refreshes `known`."""
        threading.Thread(target=self._run, name="front-proxy", daemon=True).start()

    def close(self) -> None:
        """Stop the thread that refreshes `known`."""
        self._stop.set()

    def _run(self) -> None:
        problem = ""
        while not self._stop.wait(RETRY_S if problem else REFRESH_S):
            try:
                self.known = read_front_proxy(self._api)
                problem = ""
            except ApiError as e:
                if str(e) != problem:
                    problem = str(e)
                    _log.warning("cannot read how the front proxy is known, trying again: %s", e.describe())


def read_front_proxy(api: ApiServer) -> FrontProxy:
    """Return the front proxy's settings, which the API server publishes in a ConfigMap.

    Raises ApiError if they cannot be read or are not valid.
    """
    return parse_front_proxy(api.get_object(PATH).get("data") or {})


def parse_front_proxy(data: Mapping[str, Any]) -> FrontProxy:
    """Return the front proxy's settings from the data of ConfigMap extension-apiserver-authentication.

    Raises ApiError if the data is not valid.
    """
    default = FrontProxy()
    try:
        authority = str(data.get("requestheader-client-ca-file", ""))
        if authority:
            ssl.create_default_context(cadata=authority)
            x509.load_pem_x509_certificates(authority.encode())
        return FrontProxy(
            authority,
            _parse_names(data, "requestheader-allowed-names", ()),
            _parse_names(data, "requestheader-username-headers", default.username_headers),
            _parse_names(data, "requestheader-uid-headers", default.uid_headers),
            _parse_names(data, "requestheader-group-headers", default.group_headers),
            _parse_names(data, "requestheader-extra-headers-prefix", default.extra_prefixes),
        )
    except (ValueError, TypeError, OSError) as e:
        raise ApiError(0, "Invalid", f"extension-apiserver-authentication is not as it should be: {e}") from e


@lru_cache(
    maxsize=MAX_CACHED_CERTIFICATES
)  # every request of a client repeats its certificate, and verifying takes a millisecond
def verified_common_name(certificate: bytes, authority: str) -> str | None:
    """Return the common name of a certificate (DER) if a CA in `authority` (PEM) signed it directly, otherwise None.

    The result is "" if the signed certificate has no common name.
    """
    if not authority:
        return None
    shown = x509.load_der_x509_certificate(certificate)
    if not any(_is_issued_by(shown, by) for by in x509.load_pem_x509_certificates(authority.encode())):
        return None
    found = shown.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _is_issued_by(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (InvalidSignature, ValueError, TypeError):  # a different signature, issuer name or key type
        return False
    return True


def _parse_names(data: Mapping[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = json.loads(data[key]) if data.get(key) else list(default)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{key} is no list of names")
    return tuple(found)


def _header_values(headers: Headers, names: Sequence[str]) -> list[str]:
    wanted = {name.lower() for name in names}
    return [value for name, value in headers if name.lower() in wanted and value]
