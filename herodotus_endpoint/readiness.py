"""The readiness checks of the service, which run in a background thread.

Owns: when the checks run, and the maximum age of a result. Does not own: the checks (`store`), the response (`app`).

Invariant: a probe never waits for the database, so no client and no lock delays it. The response names only the failing
checks, because everybody may read it; the log has the cause.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from herodotus_endpoint.store import StoreUnavailableError

if TYPE_CHECKING:
    from herodotus_endpoint.store import Store

CHECK_INTERVAL_S: Final = 1.0
MAX_AGE_S: Final = 10.0  # a check that takes longer fails: twice the longest wait for the database
_log: Final = logging.getLogger(__name__)


class Readiness:
    """The last result of each check. Thread-safe."""

    def __init__(self, checks: Mapping[str, Callable[[], None]], clock: Callable[[], float] = time.monotonic) -> None:
        """Set the checks, which raise StoreUnavailableError. Before `start`, `failed` runs them itself."""
        self._checks, self._clock = checks, clock
        self._failed: Sequence[str] = ()
        self._checked_at = float("-inf")
        self._logged: dict[str, str] = {}
        self._runs = False

    @classmethod
    def from_store(cls, store: Store) -> Readiness:
        """Return the readiness of a store."""
        return cls(
            {
                "database-read": lambda: store.reader.check_readable(),
                "database-write": lambda: store.writer.check_writable(),
            }
        )

    def start(self) -> None:
        """Run the checks once, then every EVERY_S seconds in a daemon thread."""
        self._check()
        self._runs = True
        threading.Thread(target=self._run, name="readiness", daemon=True).start()

    def failed(self) -> Sequence[str]:
        """Return the names of the checks that fail."""
        if not self._runs:
            self._check()
        if self._clock() - self._checked_at > MAX_AGE_S:
            return tuple(self._checks)
        return self._failed

    def _run(self) -> None:
        while True:
            time.sleep(CHECK_INTERVAL_S)
            self._check()

    def _check(self) -> None:
        failed = []
        for name, check in self._checks.items():
            try:
                check()
                self._logged.pop(name, None)
            except StoreUnavailableError as e:
                failed.append(name)
                if self._logged.get(name) != str(e):
                    self._logged[name] = str(e)
                    _log.warning("not ready: %s: %s", name, e)
            except Exception:
                failed.append(name)
                _log.exception("not ready: %s", name)
        self._failed, self._checked_at = tuple(failed), self._clock()
