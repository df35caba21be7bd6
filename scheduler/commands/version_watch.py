"""The thread that notices when the cluster's kube-scheduler is upgraded while this process runs.

Owns: when the version is read again. Does not own: how it is found (`config.cluster_version`), and what its change
means for the process (`observe`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from herodotus_kube.http import ApiError
from herodotus_record import klog
from scheduler.config.cluster_version import FoundVersion

EVERY_S: Final = 60.0  # an upgrade of a control plane takes minutes
RETRY_S: Final = 5.0  # while the API server does not answer, as in an upgrade


class VersionWatch:
    """Reads the version every `every_s` seconds and after `wake`, and calls `on_change` once when other rules apply."""

    def __init__(
        self,
        read: Callable[[], FoundVersion],
        version: FoundVersion,
        on_change: Callable[[], None],
        every_s: float = EVERY_S,
    ) -> None:
        """Prepare without starting the thread. If `read` raises ApiError, it is called again RETRY_S seconds later.

        `version` is the version whose rules apply now. `on_change` is called in the thread.
        """
        self._read, self._version, self._on_change, self._every_s = read, version, on_change, every_s
        self._woken, self._is_closed = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="version", daemon=True)

    def start(self) -> None:
        """Start to read the version, in a thread."""
        self._thread.start()

    def wake(self) -> None:
        """Make the thread read the version soon, and return at once."""
        self._woken.set()

    def close(self) -> None:
        """End the thread, without waiting for a request that is under way."""
        self._is_closed = True
        self._woken.set()

    def _run(self) -> None:
        pause_s = self._every_s
        while True:
            if self._woken.wait(pause_s):
                self._woken.clear()
            if self._is_closed:
                return
            try:
                version = self._read()
            except ApiError as e:
                klog.info(2, "Version cannot be read, trying again", err=str(e))
                pause_s = min(RETRY_S, self._every_s)
                continue
            pause_s = self._every_s
            if self._version.is_replaced_by(version):
                klog.info(0, "kube-scheduler was upgraded", before=self._version.describe(), now=version.describe())
                self._on_change()
                return
