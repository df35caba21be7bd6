"""The decisions service's CA certificate, which the service publishes in a ConfigMap, as a file for all connections.

A mounted Secret or ConfigMap would reach a running pod only when the kubelet next updates its volumes, a minute or two
after the service made its certificate. A request by name sees it at once.

Owns: reading the ConfigMap, and the file. Does not own: the connections that trust the file (`recorder.connection`).

Invariant: the file holds a valid CA certificate or does not exist. What cannot be read never replaces it.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
from pathlib import Path
from typing import Final

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog

UNPUBLISHED_EVERY_S: Final = 1.0  # a new installation's first record waits for this, and it is one small request
PUBLISHED_EVERY_S: Final = 10.0  # as often as connections look at their files (recorder.connection)
KEY: Final = "ca.crt"


class PublishedAuthority:
    """A thread that keeps a file equal to the CA certificate in a ConfigMap."""

    def __init__(self, api: ApiServer, config_map: tuple[str, str], file: Path) -> None:
        """Prepare the thread without starting it. `config_map` is a pair of namespace and name."""
        self._api = api
        self._path = "/api/v1/namespaces/{}/configmaps/{}".format(*config_map)
        self._name = "/".join(config_map)
        self._file = file
        self._said = ""  # the last problem that was logged
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="endpoint-ca", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, without waiting for it."""
        self._stop.set()

    def refresh(self) -> bool:
        """Write the published CA certificate to the file if it differs, and return whether one is published.

        Raise ApiError if the ConfigMap cannot be read, OSError or ValueError if its content is not a certificate or
        cannot be written.
        """
        pem = str((json.loads(self._api.get(self._path)).get("data") or {}).get(KEY, ""))
        if not pem:
            return False
        if self._file.exists() and self._file.read_text() == pem:
            return True
        ssl.create_default_context(cadata=pem)  # ssl.SSLError, an OSError, if it is not a certificate
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(pem)
        os.replace(new, self._file)
        klog.info(0, "Read the authority of the decisions service", configMap=self._name)
        return True

    def _run(self) -> None:
        while not self._stop.is_set():
            published, problem = False, "it has no ca.crt yet"
            try:
                published = self.refresh()
            except (ApiError, OSError, ValueError, AttributeError) as e:
                problem = str(e)
            if not published and self._said != problem:
                klog.warning(
                    "Cannot read the authority of the decisions service, trying again",
                    configMap=self._name,
                    err=problem,
                )
            self._said = "" if published else problem
            self._stop.wait(PUBLISHED_EVERY_S if published else UNPUBLISHED_EVERY_S)
