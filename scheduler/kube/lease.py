"""Leader election by a Lease: at most one replica schedules.

Source: k8s.io/client-go/tools/leaderelection. A holder whose record has not changed for the lease's duration, by our
own monotonic clock (never by comparing clocks), is dead; its Lease may be taken.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler import klog
from scheduler.kube.http import ApiError, ApiServer, Json
from scheduler.kube.writes import micro_time


@dataclass(frozen=True)
class LeaseSettings:
    """Which Lease, and its durations in seconds."""

    namespace: str
    name: str
    duration_s: float
    renew_deadline_s: float
    retry_period_s: float


class LeaderElection:
    """Acquires the Lease, then renews it in a thread of its own until it is lost or given back."""

    def __init__(
        self, api: ApiServer, identity: str, settings: LeaseSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: monotonic seconds, by which another's Lease expires and ours is lost."""
        self.lost = threading.Event()
        self._api = api
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._stop = threading.Event()
        self._seen: tuple[Any, ...] | None = None  # the holder's record and when we first saw it
        self._seen_at = 0.0
        self._thread: threading.Thread | None = None

    def acquire(self, stop: threading.Event) -> bool:
        """Wait until the Lease is ours; False when `stop` came first."""
        while not stop.is_set():
            if self._try():
                klog.info(0, "Successfully acquired lease", lock=self._path_name)
                self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
                self._thread.start()
                return True
            stop.wait(self._settings.retry_period_s * random.uniform(1, 2.2))
        return False

    def release(self) -> None:
        """Give the Lease back, so that the next leader need not wait for it to expire."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(self._settings.retry_period_s * 2)
        self._thread = None
        try:
            lease = self._get()
            if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time()}
                self._api.put(self._path, lease)
        except ApiError as e:
            klog.error(e, "Failed to release lease", lock=self._path_name)

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
        renewed = self._clock()
        while not self._stop.wait(self._settings.retry_period_s):
            if self._try():
                renewed = self._clock()
            elif self._clock() - renewed > self._settings.renew_deadline_s:
                klog.error("not renewed before the deadline", "Leaderelection lost", lock=self._path_name)
                self.lost.set()
                return

    def _try(self) -> bool:
        """Take or renew the Lease if we may; whether it is ours now."""
        try:
            lease = self._get()
            if lease is None:
                self._api.post(self._collection, self._lease({}, transitions=0, acquired=micro_time()))
                return True
            spec = lease.get("spec") or {}
            ours = spec.get("holderIdentity") == self._identity
            if not ours and spec.get("holderIdentity") and not self._expired(spec):
                return False
            transitions = int(spec.get("leaseTransitions") or 0) + (not ours)
            acquired = spec.get("acquireTime") if ours else micro_time()
            self._api.put(self._path, self._lease(lease["metadata"], transitions, acquired))
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
            lease: Json = json.loads(self._api.get(self._path))
        except ApiError as e:
            if e.code == 404:
                return None
            raise
        return lease

    def _lease(self, metadata: Json, transitions: int, acquired: str | None) -> Json:
        """The Lease as ours; with the version we read, so that the server refuses it if another wrote since."""
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._settings.name, "namespace": self._settings.namespace}
            | ({"resourceVersion": metadata["resourceVersion"]} if metadata else {}),
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._settings.duration_s),
                "acquireTime": acquired,
                "renewTime": micro_time(),
                "leaseTransitions": transitions,
            },
        }
