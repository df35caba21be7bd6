"""Pods for which a Permit plugin returned Wait.

No thread waits: the call that ends the waiting calls `done`, and the loop calls `expire` regularly. Thread-safe,
because plugins allow and reject pods from any thread.

Source: pkg/scheduler/framework/runtime/waiting_pods_map.go v1.36.

Invariant: waiting ends once; a later allow or reject has no effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from herodotus_record.model import PluginVerdict, Reason
from scheduler.engine.framework.verdicts import error, unschedulable
from scheduler.engine.objects import times
from scheduler.engine.objects.pod import PodInfo

MAX_WAIT_S: Final = 900.0  # as upstream: a plugin that forgets a pod must not reserve its node for ever

Done = Callable[[PluginVerdict | None], None]


class WaitingPod:
    """A pod whose binding waits until each Permit plugin that returned Wait allows it, or one rejects it."""

    def __init__(self, pod: PodInfo, node: str, timeouts_s: Mapping[str, float], now: float, done: Done) -> None:
        """Start to wait for the plugins in `timeouts_s`, which maps plugin names to seconds after `now`.

        `now` is in monotonic seconds. `done` is called once, in the thread that ends the waiting: with None if every
        plugin allowed the pod, else with the rejection.
        """
        self.pod = pod
        self.node = node
        self._timeouts_s = {plugin: min(timeout_s, MAX_WAIT_S) for plugin, timeout_s in timeouts_s.items()}
        self._pending = {plugin: now + timeout_s for plugin, timeout_s in self._timeouts_s.items()}
        self._done: Done | None = done
        self._lock = threading.Lock()

    def pending_plugins(self) -> dict[str, float]:
        """Return the plugins that have not allowed the pod yet, with the time of each timeout (monotonic seconds)."""
        with self._lock:
            return dict(self._pending)

    def allow(self, plugin: str) -> None:
        """Record that one plugin allows the pod. The waiting ends when no other plugin is pending."""
        with self._lock:
            self._pending.pop(plugin, None)
            left = bool(self._pending)
        if not left:
            self._end(None)

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod for a plugin, which ends the waiting; return False if it had already ended."""
        return self._end(PluginVerdict(plugin, unschedulable(Reason("text", {"text": message}))))

    def preempt(self, plugin: str, message: str) -> bool:
        """End the waiting with an error because the pod is a preemption victim; return False if it had already ended.

        `plugin` and `message` are those of the error. The scheduler then tries the pod again.
        """
        return self._end(PluginVerdict(plugin, error(message)))

    def expire(self, now: float) -> None:
        """Reject the pod if the timeout of a plugin has passed at `now` (monotonic seconds)."""
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
    """All pods that wait because a Permit plugin returned Wait, by UID."""

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
        """Return the waiting pod with this UID, or None if it does not wait."""
        with self._lock:
            return self._pods.get(uid)

    def add(self, waiting: WaitingPod) -> None:
        """Add a pod that starts to wait."""
        with self._lock:
            self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        """Remove the pod with this UID, whose waiting ended."""
        with self._lock:
            self._pods.pop(uid, None)

    def expire(self, now: float) -> None:
        """Reject every pod for which a plugin's timeout has passed at `now` (monotonic seconds)."""
        for waiting in self():
            waiting.expire(now)

    def next_due(self) -> float | None:
        """Return the time of the earliest timeout (monotonic seconds), or None if no pod waits."""
        return min((at for waiting in self() for at in waiting.pending_plugins().values()), default=None)


def _format_go_duration(duration_s: float) -> str:
    return times.normalize(f"{round(duration_s * 1e9)}ns")
