"""Readiness of the service, checked in a background thread.

Owns: when the checks run, and how old their result may be. Does not own: the checks (`store`), the response (`app`).

Invariant: a probe never waits for the database, so that no client and no lock delays it. The result contains only the
names of failed checks, because every client may read it; the log has the cause.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from herodotus_endpoint.store import StoreUnavailableError
from herodotus_serving.probes import OK, ProbeAnswer

if TYPE_CHECKING:
    from herodotus_endpoint.store import Store

CHECK_INTERVAL_S: Final = 1.0
MAX_AGE_S: Final = 10.0  # a check that takes longer fails: twice the longest wait for the database
_log: Final = logging.getLogger(__name__)


def describe_failed(failed: Sequence[str]) -> str:
    """Return the sentence about failed checks, given their names, for a client."""
    return f"not ready: {', '.join(failed)} failed: reason withheld"


class Readiness:
    """The latest result of each readiness check, refreshed by a background thread. Thread-safe."""

    def __init__(self, checks: Mapping[str, Callable[[], None]], clock: Callable[[], float] = time.monotonic) -> None:
        """Create the state of the checks, which are functions by name; a check fails if it raises an exception.

        Until `start` is called, each call of `failed` runs the checks. `clock` returns monotonic seconds.
        """
        self._checks, self._clock = checks, clock
        self._failed: Sequence[str] = ()
        self._checked_at = float("-inf")
        self._logged: dict[str, str] = {}
        self._started = False

    @classmethod
    def from_store(cls, store: Store) -> Readiness:
        """Return a readiness state whose two checks read from and write to the store."""
        return cls(
            {
                "database-read": lambda: store.reader.check_readable(),
                "database-write": lambda: store.writer.check_writable(),
            }
        )

    def start(self) -> None:
        """Run the checks now, and then every CHECK_INTERVAL_S seconds in a daemon thread."""
        self._check()
        self._started = True
        threading.Thread(target=self._run, name="readiness", daemon=True).start()

    def failed(self) -> Sequence[str]:
        """Return the names of the checks that failed.

        If the latest results are older than MAX_AGE_S seconds, all checks count as failed.
        """
        if not self._started:
            self._check()
        if self._clock() - self._checked_at > MAX_AGE_S:
            return tuple(self._checks)
        return self._failed

    def answer_probe(self) -> ProbeAnswer:
        """Return the answer to a readiness probe."""
        failed = self.failed()
        return ProbeAnswer(503, f"{describe_failed(failed)}\n") if failed else OK

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
