"""The authorities (CAs) of accepted client certificates.

They are those that the API server publishes in the ConfigMap kube-system/extension-apiserver-authentication, or those
of `--client-ca-file`.
"""

from __future__ import annotations

import json
import ssl
import threading
from pathlib import Path
from typing import Final

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from herodotus_serving.certificates import CHECK_INTERVAL_S

AUTHORITIES_EVERY_S: Final = 60.0  # how often the ConfigMap is read: they change once in years
AUTHORITIES_PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class ClientAuthorities:
    """The authorities (CAs) of accepted client certificates, which a thread keeps up to date."""

    def __init__(self, api: ApiServer, file: Path | None = None) -> None:
        """Prepare the thread without starting it.

        If `file` is given, it is read instead of the API server's ConfigMap.
        """
        self._api = api
        self._file = file
        self._pem = ""
        self._said = ""  # the last failure that was logged
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client-ca", daemon=True)

    def __call__(self) -> str:
        """Return the accepted authorities as PEM text, which is empty until they are known."""
        return self._pem

    def start(self) -> None:
        """Start the thread that reads the authorities."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, without waiting for it."""
        self._stop.set()

    def _run(self) -> None:
        pause = CHECK_INTERVAL_S
        while not self._stop.is_set():
            try:
                self._pem, self._said = self._read(), ""
                # none: an API server that has just started publishes them a moment later
                pause = AUTHORITIES_EVERY_S if self._pem else min(pause * 2, AUTHORITIES_EVERY_S)
            except (ApiError, OSError, ValueError, KeyError, TypeError, AttributeError) as e:
                pause = min(pause * 2, AUTHORITIES_EVERY_S)
                if self._said != str(e):  # as kube-scheduler: without them, tokens still tell who asks
                    self._said = str(e)
                    klog.warning("Cannot read the authorities of client certificates, trying again", err=str(e))
            self._stop.wait(pause)

    def _read(self) -> str:
        if self._file is not None:
            return self._file.read_text()
        data = json.loads(self._api.get(AUTHORITIES_PATH)).get("data") or {}
        pem = str(data.get("client-ca-file", ""))
        if pem:
            ssl.create_default_context(cadata=pem)  # ssl.SSLError, an OSError, where it is none
        return pem
