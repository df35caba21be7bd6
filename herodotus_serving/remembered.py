"""Answers that hold for a few seconds. Owns: how long and how many. Does not own: how they are found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

TTL_S: Final = 10.0  # as delegated authentication and authorisation of Kubernetes: what RBAC takes back ends this late
ENTRIES: Final = 4096  # readers times namespaces; more is somebody guessing tokens

V = TypeVar("V")


class Remembered(Generic[V]):
    """The oldest answer is forgotten first; an exception is not remembered. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: dict[object, tuple[float, V]] = {}

    def get(self, key: object, ask: Callable[[], V]) -> V:
        """The answer for a key: remembered, or asked for now."""
        with self._lock:
            known = self._answers.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        answer = ask()
        with self._lock:
            self._answers.pop(key, None)
            self._answers[key] = (self._clock() + TTL_S, answer)
            while len(self._answers) > ENTRIES:
                del self._answers[next(iter(self._answers))]
        return answer
