"""What was in flight when another scheduler decided: changes that are seen in another order than they counted in.

A scheduler counts a pod on its node as soon as it has decided, and binds it in a thread aside. So the bindings that a
watch shows just before that of a pod may have been decided after it, and those just after it before. A pod that goes
is the other way round: the scheduler hears of it as we do, and may have decided before it did.

Owns: the messages that are held back for a while, the pods that came to a node or went from one just now, and the
snapshots in between. Does not own: what a snapshot is evaluated for. For one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from scheduler.backend.cache import Cache
from scheduler.engine.objects.pod import PodInfo
from scheduler.kube.watch import ListResult, WatchEvent

MOST: Final = 16  # changes of a kind on each side: kube-scheduler has as many in flight at some thousand pods a second
MOST_SNAPSHOTS: Final = 96  # of one outcome: half a second of work at 100 nodes, for the few that do not follow at once
REMEMBERED: Final = 1024  # changes: a pod whose volumes are made takes seconds from its decision to its binding

Message = ListResult[Any] | WatchEvent[Any]
Counted = tuple[str, PodInfo | None]  # a pod's UID, and how it counts on its node; None where it counts on none
Counting = Callable[[Message], Iterable[Counted]]


@dataclass(frozen=True)
class Shift:
    """How far a snapshot is from the cluster as it was seen: that many changes fewer (negative), or more."""

    bindings: int = 0
    deletions: int = 0

    def __add__(self, other: Shift) -> Shift:
        return Shift(self.bindings + other.bindings, self.deletions + other.deletions)


@dataclass(frozen=True)
class _Change:
    """A pod came to a node (`before` is None) or went from it (`after` is None): how it counted, and counts."""

    uid: str
    before: PodInfo | None
    after: PodInfo | None


class ReorderWindow:
    """Messages of the last moments, in the order in which they came. `length_s`: how long each is held back."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._held: deque[tuple[float, Message]] = deque()
        self._seen: deque[tuple[float, _Change]] = deque(maxlen=REMEMBERED)

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, message: Message, now: float) -> None:
        """A message came."""
        self._held.append((now, message))

    def due(self, now: float) -> tuple[float, Message] | None:
        """The next message that was held back long enough, and when it came."""
        if not self._held or self._held[0][0] + self._length_s > now:
            return None
        return self._held.popleft()

    def due_in(self, now: float) -> float | None:
        """Seconds until there is one; None where none is held."""
        return max(0.0, self._held[0][0] + self._length_s - now) if self._held else None

    @contextmanager
    def noted(self, uid: str, cache: Cache, now: float) -> Iterator[None]:
        """The cache changes meanwhile: whether the pod came to a node, or went from one, is remembered."""
        before = cache.pod(uid)
        yield
        after = cache.pod(uid)
        if (before is None) != (after is None):
            self._seen.append((now, _Change(uid, before, after)))

    @contextmanager
    def before(self, cache: Cache, at: float | None, pod: str) -> Iterator[Shift]:
        """The cache as it was at a moment, and how far that is from now. None: as it is. Either way without the pod."""
        since = self._since(at) if at is not None else ()
        others = [(change.uid, change.before) for change in since if change.uid != pod]
        with _changed(cache, [(pod, None)]), _changed(cache, others) as were:
            came = sum(counted is not None for _, counted in were)
            yield Shift(-came, came - len(were))

    def snapshots(self, cache: Cache, counting: Counting, but: str, now: float) -> Generator[Shift]:
        """Change the cache to what the scheduler may have seen instead, the nearest first.

        Without the last binding, with the next, without the last two, ...; likewise for deletions; then with some of
        both. Yields how far the cache is from what it was; it is that again when the iterator is closed or has
        ended. `counting`: what a message says of pods on nodes. `but`: the pod in question.
        """
        last = list(self._since(now - self._length_s))
        coming = list(self._coming(cache, counting, but))
        bindings = _Line([c for c in last if c.before is None], [c for c in coming if c.before is None])
        deletions = _Line([c for c in last if c.after is None], [c for c in coming if c.after is None])
        shifts = (Shift(b, d) for b in bindings.shifts for d in deletions.shifts)
        for shift in islice(sorted(shifts, key=_far), 1, 1 + MOST_SNAPSHOTS):  # the first changes nothing
            with _changed(cache, [*deletions.pods(shift.deletions), *bindings.pods(shift.bindings)]):
                yield shift

    def _since(self, at: float) -> Iterator[_Change]:
        """The changes that were seen since a moment, the last first."""
        for seen_at, change in reversed(self._seen):
            if seen_at < at:
                return
            yield change

    def _coming(self, cache: Cache, counting: Counting, but: str) -> Iterator[_Change]:
        """The changes that are held back, the next first; of a pod the first of each kind."""
        told = {(but, True)}
        for _, message in self._held:
            for uid, after in counting(message):
                before, came = cache.pod(uid), after is not None
                if (uid, came) not in told and came is (before is None):
                    told.add((uid, came))
                    yield _Change(uid, before, after)


@dataclass(frozen=True)
class _Line:
    """Changes of one kind on both sides of the pod: `last` were seen before it, the last first; `coming` after it."""

    last: Sequence[_Change]
    coming: Sequence[_Change]

    @property
    def shifts(self) -> range:
        """How many may be taken back (negative), or be there already."""
        return range(-min(MOST, len(self.last)), min(MOST, len(self.coming)) + 1)

    def pods(self, shift: int) -> Iterator[Counted]:
        """How the pods of the shifted changes count then, by UID."""
        for change in self.last[: max(0, -shift)]:
            yield change.uid, change.before
        for change in self.coming[: max(0, shift)]:
            yield change.uid, change.after


def _far(shift: Shift) -> tuple[bool, int, int]:
    """Snapshots are tried in this order."""
    b, d = abs(shift.bindings), abs(shift.deletions)
    return bool(b and d), b + d, d


@contextmanager
def _changed(cache: Cache, pods: Iterable[Counted]) -> Iterator[list[Counted]]:
    """The cache with these pods counting so, or not at all; how those that did otherwise did, and do in the end."""
    were: list[Counted] = []
    try:
        for uid, pod in pods:
            counted = cache.pod(uid)
            if (pod is None) != (counted is None):
                _count(cache, uid, pod)
                were.append((uid, counted))
        yield were
    finally:
        for uid, counted in reversed(were):
            _count(cache, uid, counted)


def _count(cache: Cache, uid: str, pod: PodInfo | None) -> None:
    if pod is None:
        cache.remove_pod(uid)
    else:
        cache.set_pod(pod)
