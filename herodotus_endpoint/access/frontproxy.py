"""The API server's front proxy: how its requests are known, and what they say of the reader.

Owns: the trust settings that the API server publishes, whether a certificate is the front proxy's, its headers. Does
not own: the TLS handshake (`tls`), rights.

Source: kube-system/extension-apiserver-authentication, as k8s.io/apiserver reads it (requestheader-*).

Invariant: a header is believed only beside a certificate that the published authority itself has signed and whose
common name is one of those that are allowed (any, where none is named). Without settings nothing is believed.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from herodotus_endpoint.access.apiserver import ApiServer, NoAnswerError
from herodotus_endpoint.access.user import User

PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
EVERY_S: Final = 60.0  # how often the settings are read: they change once in years
RETRY_S: Final = 5.0  # while they cannot be read; those that were known stay
REMEMBERED: Final = 256  # certificates: a few API servers and schedulers, and those that they had before
_log: Final = logging.getLogger(__name__)

Headers = Sequence[tuple[str, str]]  # as sent, in order; names in any case


@dataclass(frozen=True)
class FrontProxy:
    """Trust settings. `authority`: PEM of one or more certificates."""

    authority: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)

    def sent(self, certificate: bytes) -> bool:
        """Whether a client certificate (DER, its dates checked by TLS) is the front proxy's."""
        name = certified_name(certificate, self.authority)
        return name is not None and (not self.allowed_names or name in self.allowed_names)

    def reader(self, headers: Headers) -> User | None:
        """Whom the headers name; None where they name nobody."""
        name = next(iter(_values(headers, self.username_headers)), "")
        if not name:
            return None
        groups = _values(headers, self.group_headers)
        uid = next(iter(_values(headers, self.uid_headers)), "")
        extra: dict[str, list[str]] = {}
        for header, value in headers:
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    extra.setdefault(unquote(header[len(prefix) :].lower()), []).append(value)
        return User(name, tuple(groups), uid, tuple((k, tuple(v)) for k, v in sorted(extra.items())))


class Published:
    """The settings as the API server publishes them, kept up to date in a thread of its own."""

    def __init__(self, api: ApiServer, known: FrontProxy) -> None:
        """`known`: as they were at the start."""
        self._api = api
        self._stop = threading.Event()
        self.known = known

    def start(self) -> None:
        """Begin to read them."""
        threading.Thread(target=self._run, name="front-proxy", daemon=True).start()

    def close(self) -> None:
        """Read them no more."""
        self._stop.set()

    def _run(self) -> None:
        said = ""
        while not self._stop.wait(RETRY_S if said else EVERY_S):
            try:
                self.known = read(self._api)
                said = ""
            except NoAnswerError as e:
                if str(e) != said:
                    said = str(e)
                    _log.warning("cannot read how the front proxy is known, trying again: %s", e)


def read(api: ApiServer) -> FrontProxy:
    """The settings of now. NoAnswerError where they cannot be had."""
    return settings(api.get(PATH).get("data") or {})


def settings(data: Mapping[str, Any]) -> FrontProxy:
    """The trust settings in the ConfigMap's data. NoAnswerError where they are not as they should be."""
    default = FrontProxy()
    try:
        authority = str(data.get("requestheader-client-ca-file", ""))
        if authority:
            ssl.create_default_context(cadata=authority)
            x509.load_pem_x509_certificates(authority.encode())
        return FrontProxy(
            authority,
            _names(data, "requestheader-allowed-names", ()),
            _names(data, "requestheader-username-headers", default.username_headers),
            _names(data, "requestheader-uid-headers", default.uid_headers),
            _names(data, "requestheader-group-headers", default.group_headers),
            _names(data, "requestheader-extra-headers-prefix", default.extra_prefixes),
        )
    except (ValueError, TypeError, OSError) as e:
        raise NoAnswerError(f"extension-apiserver-authentication is not as it should be: {e}") from e


@lru_cache(maxsize=REMEMBERED)  # a client shows the same one with every request, and a signature takes a millisecond
def certified_name(certificate: bytes, authority: str) -> str | None:
    """The common name in a certificate (DER) that one of the authority's own has signed; None where none has."""
    if not authority:
        return None
    shown = x509.load_der_x509_certificate(certificate)
    if not any(_issued(shown, by) for by in x509.load_pem_x509_certificates(authority.encode())):
        return None
    found = shown.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (InvalidSignature, ValueError, TypeError):  # another's signature, name, or kind of key
        return False
    return True


def _names(data: Mapping[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = json.loads(data[key]) if data.get(key) else list(default)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{key} is no list of names")
    return tuple(found)


def _values(headers: Headers, names: Sequence[str]) -> list[str]:
    wanted = {name.lower() for name in names}
    return [value for name, value in headers if name.lower() in wanted and value]
