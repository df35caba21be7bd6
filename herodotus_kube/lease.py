"""Leader election by a Lease: at most one replica schedules.

Source: k8s.io/client-go/tools/leaderelection. If a holder's record in the Lease has not changed for the lease's
duration, measured by this process's monotonic clock, the holder is considered dead and its Lease may be acquired.

Unlike in client-go, a leader gives up as soon as it sees that another process holds the Lease, and does not wait for
its own deadline.

The Lease also carries annotations from a leader to its successor, written at each renewal.

Invariant: what others wrote into the Lease's metadata (labels, annotations, owners) stays as it is.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from herodotus_kube.http import ApiError, ApiServer, Json, micro_time
from herodotus_record import klog

# How often a standby looks, in retry periods. It sees a renewal at most one look late, and its end at most another: the
# cluster is without a leader for the lease's duration and two retry periods at most. client-go looks half as often.
STANDBY_POLL: Final = (0.6, 0.9)
RELEASE_PAUSE: Final = 0.25  # retry periods between two tries to give the Lease back: others wait for it
_RELEASED: Final[Json] = {"holderIdentity": "", "leaseDurationSeconds": 1}


@dataclass(frozen=True)
class LeaseSettings:
    """The name of the Lease, and its durations in seconds."""

    namespace: str
    name: str
    duration_s: float
    renew_deadline_s: float
    retry_period_s: float


class LeaderElector:
    """Acquires the Lease and renews it in a thread until it is lost or released."""

    def __init__(
        self, api: ApiServer, identity: str, settings: LeaseSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare leader election without contacting the API server.

        `identity` names this process in the Lease. `clock` returns monotonic seconds.
        """
        self.lost = threading.Event()
        self.previous_annotations: Mapping[str, str] = {}  # the Lease's annotations when it became ours
        self._build_annotations: Callable[[], Mapping[str, str]] = dict
        self._api = api
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._stop = threading.Event()
        self._seen: tuple[Any, ...] | None = None  # the holder's record and when we first saw it
        self._seen_at = 0.0
        self._renewed = 0.0  # when it was last ours
        self._thread: threading.Thread | None = None

    def acquire(self, stop: threading.Event) -> bool:
        """Wait until this process holds the Lease, and start to renew it. Return False if `stop` was set first."""
        while not stop.is_set():
            if self._try_acquire_or_renew():
                klog.info(0, "Successfully acquired lease", lock=self._path_name)
                self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
                self._thread.start()
                threading.Thread(target=self._watch_deadline, name="lease-deadline", daemon=True).start()
                return True
            stop.wait(self._settings.retry_period_s * random.uniform(*STANDBY_POLL))
        return False

    def set_annotations(self, annotations: Callable[[], Mapping[str, str]]) -> None:
        """Set the function whose result is written into the Lease's annotations at each renewal."""
        self._build_annotations = annotations

    @property
    def leading(self) -> bool:
        """Whether this process certainly holds the Lease, because it was renewed within the renewal deadline.

        The clock is checked too, because a process that was stopped for a while runs on before `_watch_deadline` does.
        """
        in_time = self._clock() - self._renewed <= self._settings.renew_deadline_s
        return self._thread is not None and in_time and not self.lost.is_set()

    def seconds_since_renewal(self) -> float | None:
        """Return the seconds since the last renewal of the Lease, or None if this process does not hold it."""
        return self._clock() - self._renewed if self.leading else None

    def release(self) -> None:
        """Stop renewing the Lease and clear its holder, so that the next leader need not wait until the Lease expires.

        A failed request is repeated until the renewal deadline; then the Lease is left to expire. Do nothing if this
        process never held it.
        """
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(self._settings.retry_period_s * 2)
        self._thread = None
        while not self._try_release() and self._clock() < self._renewed + self._settings.renew_deadline_s:
            time.sleep(self._settings.retry_period_s * RELEASE_PAUSE)

    def _try_release(self) -> bool:
        """Clear the Lease's holder if it is this process. Return False if a request failed."""
        try:
            lease = self._get()
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                self._api.put(self._path, self._merge_spec(lease, _RELEASED | {"renewTime": micro_time()}))
        except ApiError as e:
            klog.error(e, "Failed to release lease", lock=self._path_name)
            return False
        return True

    @property
    def _path_name(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._settings.namespace}/leases"

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._settings.name}"

    def _renew(self) -> None:
        while not self._stop.wait(self._settings.retry_period_s) and not self.lost.is_set():
            self._try_acquire_or_renew()

    def _watch_deadline(self) -> None:
        """Give up leadership if the Lease is not renewed before the deadline.

        This runs in a separate thread, so that a renewal request that hangs does not prolong leadership.
        """
        while not self._stop.wait(self._settings.retry_period_s / 2):
            if self._clock() - self._renewed > self._settings.renew_deadline_s:
                self._lose("not renewed before the deadline")
                return

    def _lose(self, why: str) -> None:
        klog.error(why, "Leaderelection lost", lock=self._path_name)
        self.lost.set()

    def _try_acquire_or_renew(self) -> bool:
        """Acquire or renew the Lease, unless another process holds it. Return whether this process holds it now."""
        started = self._clock()  # ours is as old as the question: the server may have written it at once
        try:
            lease = self._get()
            if lease is None:
                self._api.post(self._collection, self._with_holder(self._new(), ours=False))
                self._renewed = started
                return True
            spec = lease.get("spec") or {}
            ours = spec.get("holderIdentity") == self._identity
            if not ours and self._thread is not None and not self.lost.is_set():
                self._lose(f"{spec.get('holderIdentity') or 'nobody'} holds it")
                return False
            if not ours and (self._stop.is_set() or (spec.get("holderIdentity") and not self._expired(spec))):
                return False  # a renewal that was slow must not take back what was given back meanwhile
            if not ours:  # before the request, whose answer may be lost
                self.previous_annotations = dict(lease["metadata"].get("annotations") or {})
            self._api.put(self._path, self._with_holder(lease, ours=ours))
            self._renewed = started
            return True
        except ApiError as e:
            if e.code != 409:  # another replica was faster: not an error
                klog.error(e, "Failed to update lock", lock=self._path_name)
            return False

    def _expired(self, spec: Json) -> bool:
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        now = self._clock()
        if record != self._seen:
            self._seen, self._seen_at = record, now
        return now - self._seen_at > float(spec.get("leaseDurationSeconds") or self._settings.duration_s)

    def _get(self) -> Json | None:
        try:
            return self._api.get_object(self._path)
        except ApiError as e:
            if e.code == 404:
                return None
            raise

    def _new(self) -> Json:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._settings.name, "namespace": self._settings.namespace},
        }

    def _with_holder(self, lease: Json, *, ours: bool) -> Json:
        """Return a copy of the Lease that this process holds from now on. `ours` says that it held the Lease before."""
        spec = lease.get("spec") or {}
        # a new Lease has had no transition; a change of hands is one
        transitions = int(spec.get("leaseTransitions") or 0) + (bool(spec) and not ours)
        return self._merge_spec(
            lease,
            {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._settings.duration_s),
                "acquireTime": spec.get("acquireTime") if ours else micro_time(),
                "renewTime": micro_time(),
                "leaseTransitions": transitions,
            },
        )

    def _merge_spec(self, lease: Json, spec: Json) -> Json:
        """Return a copy of the Lease with these spec fields and the annotations of `set_annotations`.

        It keeps the resourceVersion, so that the server refuses the write if another process has changed the Lease
        since.
        """
        metadata, annotations = lease["metadata"], dict(self._build_annotations())
        if annotations:
            metadata = metadata | {"annotations": (metadata.get("annotations") or {}) | annotations}
        return lease | {"metadata": metadata, "spec": (lease.get("spec") or {}) | spec}
