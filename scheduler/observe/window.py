"""What was in flight when another scheduler decided: bindings that are seen in another order than they were decided in.

A scheduler counts a pod on its node as soon as it has decided, and binds it in a thread aside. So the bindings that a
watch shows just before that of a pod may have been decided after it, and those just after it before.

Owns: the messages that are held back for a while, the bindings seen just now, and the snapshots in between. Does not
own: what a snapshot is evaluated for. For one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from scheduler.cache import Cache
from scheduler.eventhandlers import PODS
from scheduler.kube.watch import Changed, Listed
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Pod

MOST: Final = 16  # bindings on each side: kube-scheduler has as many in flight at some thousand pods a second
REMEMBERED: Final = 1024  # bindings: a pod whose volumes are made takes seconds from its decision to its binding

Message = Listed[Any] | Changed[Any]


@dataclass(frozen=True)
class _Seen:
    at: float
    pod: PodInfo


class Window:
    """Messages of the last moments, in the order in which they came. `length_s`: how long each is held back."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._held: deque[tuple[float, Message]] = deque()
        self._before: deque[_Seen] = deque(maxlen=REMEMBERED)

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, message: Message, now: float) -> None:
        """A message came."""
        self._held.append((now, message))

    def due(self, now: float) -> Message | None:
        """The next message that was held back long enough."""
        if not self._held or self._held[0][0] + self._length_s > now:
            return None
        return self._held.popleft()[1]

    def due_in(self, now: float) -> float | None:
        """Seconds until there is one; None where none is held."""
        return max(0.0, self._held[0][0] + self._length_s - now) if self._held else None

    def bound(self, pod: PodInfo, now: float) -> None:
        """A pod's binding was brought to the cache."""
        self._before.append(_Seen(now, pod))

    @contextmanager
    def before(self, cache: Cache, at: float | None) -> Iterator[int]:
        """The cache without the bindings seen since a moment: how many those are. None: as it is."""
        with _put_back(cache) as taken:
            for pod in self._since(at) if at is not None else ():
                if cache.remove_pod(pod.uid):  # else it has gone since
                    taken.append(pod)
            yield len(taken)

    def snapshots(self, cache: Cache, waiting: Callable[[str], bool], but: str, now: float) -> Generator[int]:
        """Change the cache step by step: without the last binding, the last two, ... then with the next, the next two.

        Yields how many bindings the cache has more (or, negative, less) than it had. It is as it was when the iterator
        is closed or has ended. `waiting`: whether a pod, by UID, has not been seen bound. `but`: the pod in question.
        """
        yield from self._without(cache, now)
        yield from self._with(cache, waiting, but)

    def _without(self, cache: Cache, now: float) -> Generator[int]:
        with _put_back(cache) as taken:
            for pod in self._since(now - self._length_s):
                if len(taken) == MOST:
                    return
                if cache.remove_pod(pod.uid):
                    taken.append(pod)
                    yield -len(taken)

    def _since(self, at: float) -> Iterator[PodInfo]:
        """The pods whose bindings were seen since a moment, the last first."""
        for seen in reversed(self._before):
            if seen.at < at:
                return
            yield seen.pod

    def _with(self, cache: Cache, waiting: Callable[[str], bool], but: str) -> Generator[int]:
        given: list[PodInfo] = []
        try:
            for pod in islice(self._next_bindings(waiting, but), MOST):
                cache.set_pod(pod)
                given.append(pod)
                yield len(given)
        finally:
            for pod in given:
                cache.remove_pod(pod.uid)

    def _next_bindings(self, waiting: Callable[[str], bool], but: str) -> Iterator[PodInfo]:
        told = {but}
        for _, message in self._held:
            if isinstance(message, Changed) and message.kind == PODS and message.type != "DELETED":
                pod: Pod = message.object
                uid = pod.metadata.uid
                if pod.spec.node_name and uid not in told and waiting(uid):
                    told.add(uid)
                    yield PodInfo(pod, running=True)


@contextmanager
def _put_back(cache: Cache) -> Iterator[list[PodInfo]]:
    """In the end the pods of the list are in the cache again, the last that was taken first."""
    taken: list[PodInfo] = []
    try:
        yield taken
    finally:
        for pod in reversed(taken):
            cache.set_pod(pod)
