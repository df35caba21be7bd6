"""Authorities (CAs) that the cluster publishes in ConfigMaps, read again while a process runs.

The API server publishes who signs client certificates, and how its front proxy is known. The decisions service
publishes the CA of its own certificate: a mounted Secret or ConfigMap would reach a running pod only when the kubelet
next updates its volumes, a minute or two after the service made its certificate. A request by name sees it at once.

Owns: reading the ConfigMaps, when they are read again, and the file of the service's authority. Does not own: the
connections that trust the authorities, the meaning of a client certificate (`delegated_auth`).

Source: kube-system/extension-apiserver-authentication, as k8s.io/apiserver reads it.

Invariant: what cannot be read never replaces what was read before.
"""

from __future__ import annotations

import json
import logging
import os
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from cryptography import x509

from herodotus_kube.delegated_auth import FrontProxy
from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog

AUTHENTICATION_PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
AUTHENTICATION_EVERY_S: Final = 60.0  # it changes once in years
FIRST_RETRY_S: Final = 1.0  # an API server that has just started publishes client authorities a moment later
FRONT_PROXY_RETRY_S: Final = 5.0  # the settings that are known stay
SERVICE_CA_KEY: Final = "ca.crt"
UNPUBLISHED_EVERY_S: Final = 1.0  # a new installation's first record waits for this, and it is one small request
PUBLISHED_EVERY_S: Final = 10.0  # as often as connections look at their files (recorder.endpoint)
_log: Final = logging.getLogger(__name__)

T = TypeVar("T")


class PeriodicReader(Generic[T]):
    """A daemon thread that reads a value again and again. `value` is the last one that could be read.

    Each problem is reported once.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], T],
        value: T,
        interval_s: float,
        retry_s: Callable[[float], float],
        report: Callable[[str], None],
        absent: str = "",
    ) -> None:
        """Prepare the thread `name` without starting it.

        The thread calls `read` every `interval_s` seconds. After a failure or an empty value, it waits `retry_s(pause)`
        seconds instead, where `pause` is its last pause. `value` is the value before the first reading, which takes
        place at once if `value` is empty. `report` is called with the text of each problem; `absent` is the text for an
        empty value, or "" if an empty value is no problem.
        """
        self.value = value
        self._read, self._interval_s, self._retry_s = read, interval_s, retry_s
        self._report, self._absent = report, absent
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread that reads the value."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        pause_s, reported = FIRST_RETRY_S, ""
        if self.value:
            pause_s = self._interval_s
            self._stop.wait(pause_s)
        while not self._stop.is_set():
            try:
                self.value = value = self._read()
                is_usable, problem = bool(value), "" if value else self._absent
            except (ApiError, OSError, ValueError, KeyError, TypeError, AttributeError) as e:
                is_usable, problem = False, e.describe() if isinstance(e, ApiError) else str(e)
            if problem and problem != reported:
                self._report(problem)
            reported = problem
            pause_s = self._interval_s if is_usable else self._retry_s(pause_s)
            self._stop.wait(pause_s)


def watch_client_authorities(api: ApiServer, file: Path | None = None) -> PeriodicReader[str]:
    """Return a reader of the CA certificates (PEM) that sign client certificates; its value is "" at first.

    It reads them from `file`, or from the API server if `file` is None. The caller starts it.
    """

    def report(problem: str) -> None:  # as kube-scheduler: without them, tokens still identify users
        klog.warning("Cannot read the authorities of client certificates, trying again", err=problem)

    def retry_s(pause_s: float) -> float:
        return min(pause_s * 2, AUTHENTICATION_EVERY_S)

    return PeriodicReader(
        "client-ca", lambda: read_client_authorities(api, file), "", AUTHENTICATION_EVERY_S, retry_s, report
    )


def read_client_authorities(api: ApiServer, file: Path | None = None) -> str:
    """Return the CA certificates that sign client certificates, as PEM: the content of `file`, if it is given.

    Otherwise they are those that the API server publishes, or "" if it publishes none. Raises OSError or ValueError if
    the file cannot be read, ApiError or OSError if the API server cannot be read or does not publish certificates.
    """
    if file is not None:
        return file.read_text()
    data = api.get_object(AUTHENTICATION_PATH).get("data") or {}
    pem = str(data.get("client-ca-file", ""))
    if pem:
        ssl.create_default_context(cadata=pem)  # ssl.SSLError, an OSError, if it is not a certificate
    return pem


def watch_front_proxy(api: ApiServer, settings: FrontProxy) -> PeriodicReader[FrontProxy]:
    """Return a reader of the front proxy's settings, whose value is `settings` until the first reading."""

    def report(problem: str) -> None:
        _log.warning("cannot read how the front proxy is known, trying again: %s", problem)

    return PeriodicReader(
        "front-proxy",
        lambda: read_front_proxy(api),
        settings,
        AUTHENTICATION_EVERY_S,
        lambda _: FRONT_PROXY_RETRY_S,
        report,
    )


def read_front_proxy(api: ApiServer) -> FrontProxy:
    """Return the front proxy's settings, which the API server publishes in a ConfigMap.

    Raises ApiError if they cannot be read or are not valid.
    """
    return parse_front_proxy(api.get_object(AUTHENTICATION_PATH).get("data") or {})


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


def _parse_names(data: Mapping[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    names = json.loads(data[key]) if data.get(key) else list(default)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} is no list of names")
    return tuple(names)


def watch_service_authority(api: ApiServer, config_map: tuple[str, str], file: Path) -> PeriodicReader[bool]:
    """Return a reader that keeps `file` equal to the decisions service's CA certificate in a ConfigMap.

    `config_map` is the ConfigMap's namespace and name. The reader's value is whether the certificate was found.
    """

    def report(problem: str) -> None:
        klog.warning(
            "Cannot read the authority of the decisions service, trying again",
            configMap="/".join(config_map),
            err=problem,
        )

    return PeriodicReader(
        "endpoint-ca",
        lambda: refresh_service_authority(api, config_map, file),
        False,
        PUBLISHED_EVERY_S,
        lambda _: UNPUBLISHED_EVERY_S,
        report,
        f"it has no {SERVICE_CA_KEY} yet",
    )


def refresh_service_authority(api: ApiServer, config_map: tuple[str, str], file: Path) -> bool:
    """Write the CA certificate in a ConfigMap to the file if it differs; return False if the ConfigMap has none.

    Raise ApiError if the ConfigMap cannot be read, OSError or ValueError if its content is not a certificate or cannot
    be written. The file holds a valid CA certificate or does not exist.
    """
    path = "/api/v1/namespaces/{}/configmaps/{}".format(*config_map)
    pem = str((api.get_object(path).get("data") or {}).get(SERVICE_CA_KEY, ""))
    if not pem:
        return False
    if file.exists() and file.read_text() == pem:
        return True
    ssl.create_default_context(cadata=pem)  # ssl.SSLError, an OSError, if it is not a certificate
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(pem)
    os.replace(new, file)
    klog.info(0, "Read the authority of the decisions service", configMap="/".join(config_map))
    return True
