"""Pods for which a Permit plugin returned Wait.

Owns: which plugins each pod waits for, until when, and how waiting ends. Does not own: what happens then (`loop`). No
thread waits: the call that ends the waiting calls `done`, and the loop calls `expire` regularly. Thread-safe, because
plugins allow and reject pods from any thread.

Source: pkg/scheduler/framework/runtime/waiting_pods_map.go v1.36.

Invariant: waiting ends once; a later allow or reject has no effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from herodotus_record.model import PluginVerdict, Reason
from scheduler.engine.framework.verdicts import error, unschedulable
from scheduler.engine.objects import durations
from scheduler.engine.objects.pod import PodInfo

MAX_WAIT_S: Final = 900.0  # as upstream: a plugin that forgets a pod must not reserve its node for ever

Done = Callable[[PluginVerdict | None], None]


class WaitingPod:
    """A pod that waits on Permit."""

    def __init__(self, pod: PodInfo, node: str, timeouts_s: Mapping[str, float], now: float, done: Done) -> None:
        """`timeouts_s` are counted from `now`, by plugin.

        `done` is called once, in the thread that ends the waiting: with None if every plugin allowed the pod, else
        with the rejection.
        """
        self.pod = pod
        self.node = node
        self._timeouts_s = {plugin: min(timeout_s, MAX_WAIT_S) for plugin, timeout_s in timeouts_s.items()}
        self._pending = {plugin: now + timeout_s for plugin, timeout_s in self._timeouts_s.items()}
        self._done: Done | None = done
        self._lock = threading.Lock()

    def pending_plugins(self) -> dict[str, float]:
        """Return the plugins that have not allowed the pod, with the time of their timeout (monotonic seconds)."""
        with self._lock:
            return dict(self._pending)

    def allow(self, plugin: str) -> None:
        """Allow the pod for one plugin; the last pending plugin ends the waiting."""
        with self._lock:
            self._pending.pop(plugin, None)
            left = bool(self._pending)
        if not left:
            self._end(None)

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod; return False if its waiting had already ended."""
        return self._end(PluginVerdict(plugin, unschedulable(Reason("text", {"text": message}))))

    def preempt(self, plugin: str, message: str) -> bool:
        """Remove the pod as a victim of preemption, to be tried again; return False if its waiting had ended."""
        return self._end(PluginVerdict(plugin, error(message)))

    def expire(self, now: float) -> None:
        """Reject the pod if a plugin's timeout has passed."""
        with self._lock:
            over = [plugin for plugin, at in self._pending.items() if at <= now]
        if over:
            waited = _format_go_duration(self._timeouts_s[over[0]])
            self.reject(over[0], f"rejected due to timeout after waiting {waited} at plugin {over[0]}")

    def _end(self, rejection: PluginVerdict | None) -> bool:
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return False
        done(rejection)
        return True


class WaitingPods:
    """All pods that wait on Permit, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pods)

    def __call__(self) -> list[WaitingPod]:
        """Return the pods that wait now."""
        with self._lock:
            return list(self._pods.values())

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod, or None."""
        with self._lock:
            return self._pods.get(uid)

    def add(self, waiting: WaitingPod) -> None:
        """Add a pod that starts to wait."""
        with self._lock:
            self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        """Remove a pod whose waiting ended."""
        with self._lock:
            self._pods.pop(uid, None)

    def expire(self, now: float) -> None:
        """Reject every pod with a passed timeout."""
        for waiting in self():
            waiting.expire(now)

    def next_due(self) -> float | None:
        """Return the time of the next timeout (monotonic seconds), or None."""
        return min((at for waiting in self() for at in waiting.pending_plugins().values()), default=None)


def _format_go_duration(duration_s: float) -> str:
    return durations.normalize(f"{round(duration_s * 1e9)}ns")
