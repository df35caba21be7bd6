"""Pods that a Permit plugin asked to wait, and what may be done to them meanwhile.

Owns: which plugins each of them waits for, until when, and how the waiting ends. Does not own: what follows (`loop`).
No thread waits: whoever ends the waiting calls `done`, and `expire` is called now and then. Thread-safe, because
plugins allow and reject from any thread.

Source: pkg/scheduler/framework/runtime/waiting_pods_map.go v1.36.

Invariant: a waiting ends once; what is said of the pod afterwards changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from herodotus_record.model import PluginVerdict, Reason
from scheduler.framework.verdicts import error, unschedulable
from scheduler.objects import durations
from scheduler.objects.pod import PodInfo

MAX_WAIT_S: Final = 900.0  # as upstream: a plugin that forgets a pod must not keep its room for ever

Done = Callable[[PluginVerdict | None], None]


class WaitingPod:
    """One of them. `timeouts_s`: by plugin, from `now` on."""

    def __init__(self, pod: PodInfo, node: str, timeouts_s: Mapping[str, float], now: float, done: Done) -> None:
        """`done`: told once, from whatever thread ends it: None when every plugin allowed the pod, else who did not."""
        self.pod = pod
        self.node = node
        self._timeouts_s = {plugin: min(timeout_s, MAX_WAIT_S) for plugin, timeout_s in timeouts_s.items()}
        self._pending = {plugin: now + timeout_s for plugin, timeout_s in self._timeouts_s.items()}
        self._done: Done | None = done
        self._lock = threading.Lock()

    def pending_plugins(self) -> dict[str, float]:
        """The plugins that have not allowed it yet, and when each of them ends the waiting (monotonic seconds)."""
        with self._lock:
            return dict(self._pending)

    def allow(self, plugin: str) -> None:
        """One plugin has nothing against the pod any more. The last one lets it go on."""
        with self._lock:
            self._pending.pop(plugin, None)
            left = bool(self._pending)
        if not left:
            self._end(None)

    def reject(self, plugin: str, message: str) -> bool:
        """The pod shall not go on; whether that came in time."""
        return self._end(PluginVerdict(plugin, unschedulable(Reason("text", {"text": message}))))

    def preempt(self, plugin: str, message: str) -> bool:
        """The pod makes room for another, and is tried again by itself; whether that came in time."""
        return self._end(PluginVerdict(plugin, error(message)))

    def expire(self, now: float) -> None:
        """Reject it where a plugin's time is over."""
        with self._lock:
            over = [plugin for plugin, at in self._pending.items() if at <= now]
        if over:
            waited = _go(self._timeouts_s[over[0]])
            self.reject(over[0], f"rejected due to timeout after waiting {waited} at plugin {over[0]}")

    def _end(self, refusal: PluginVerdict | None) -> bool:
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return False
        done(refusal)
        return True


class WaitingPods:
    """All of them, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pods)

    def __call__(self) -> list[WaitingPod]:
        """Those of the moment."""
        with self._lock:
            return list(self._pods.values())

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod, or None."""
        with self._lock:
            return self._pods.get(uid)

    def add(self, waiting: WaitingPod) -> None:
        """It waits from now on."""
        with self._lock:
            self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        """It waits no longer."""
        with self._lock:
            self._pods.pop(uid, None)

    def expire(self, now: float) -> None:
        """Reject those whose time is over."""
        for waiting in self():
            waiting.expire(now)

    def next_due(self) -> float | None:
        """When `expire` will have something to do (monotonic seconds)."""
        return min((at for waiting in self() for at in waiting.pending_plugins().values()), default=None)


def _go(duration_s: float) -> str:
    return durations.canonical(f"{round(duration_s * 1e9)}ns")
