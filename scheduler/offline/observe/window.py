"""Events in flight at another scheduler's decision, which may be seen in another order than they took effect.

A scheduler counts a pod on its node as soon as it has decided, and binds it in another thread. So bindings that a watch
shows just before that of a pod may have been decided after it, and those just after it before. For a deletion it is the
reverse: the scheduler learns of it at the same time as the observer, and may have decided before that.

Used by one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from herodotus_kube.watch import ListResult, WatchEvent
from scheduler.backend.cache import Cache
from scheduler.engine.objects.pod import PodInfo

MOST: Final = 16  # changes of a kind on each side: kube-scheduler has as many in flight at some thousand pods a second
MOST_SNAPSHOTS: Final = 96  # of one outcome: half a second of work at 100 nodes, for the few that do not follow at once
REMEMBERED: Final = 1024  # changes: a pod whose volumes are made takes seconds from its decision to its binding

Message = ListResult[Any] | WatchEvent[Any]
Counted = tuple[str, PodInfo | None]  # a pod's UID, and how it counts on its node; None where it counts on none
Counting = Callable[[Message], Iterable[Counted]]


@dataclass(frozen=True)
class Shift:
    """How a snapshot differs from the observed cluster: by how many bindings and deletions of pods.

    A negative number counts changes that were undone, a positive one changes that were applied ahead of time.
    """

    bindings: int = 0
    deletions: int = 0

    def __add__(self, other: Shift) -> Shift:
        return Shift(self.bindings + other.bindings, self.deletions + other.deletions)


@dataclass(frozen=True)
class _Change:
    """A pod that appeared on a node (`before` is None) or disappeared from its node (`after` is None)."""

    uid: str
    before: PodInfo | None
    after: PodInfo | None


class ReorderWindow:
    """Holds back watch messages for `length_s` seconds, and remembers which pods recently appeared or disappeared.

    With both it restores states of the cluster that another scheduler may have seen when it decided.
    """

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._held: deque[tuple[float, Message]] = deque()
        self._seen: deque[tuple[float, _Change]] = deque(maxlen=REMEMBERED)

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, message: Message, now: float) -> None:
        """Hold back a watch message that arrived at the time `now`."""
        self._held.append((now, message))

    def due(self, now: float) -> tuple[float, Message] | None:
        """Remove the oldest message if it arrived at least the window's length ago; return (time of arrival, message).

        Return None if there is no such message.
        """
        if not self._held or self._held[0][0] + self._length_s > now:
            return None
        return self._held.popleft()

    def due_in(self, now: float) -> float | None:
        """Return the seconds until the next message is due, or None if no message is held back."""
        return max(0.0, self._held[0][0] + self._length_s - now) if self._held else None

    @contextmanager
    def noted(self, uid: str, cache: Cache, now: float) -> Iterator[None]:
        """Context manager that records a change if the block puts the pod on a node or removes the pod from its node.

        `now` is the time of the change, in monotonic seconds.
        """
        before = cache.pod(uid)
        yield
        after = cache.pod(uid)
        if (before is None) != (after is None):
            self._seen.append((now, _Change(uid, before, after)))

    @contextmanager
    def before(self, cache: Cache, at: float | None, pod: str) -> Iterator[Shift]:
        """Context manager that restores the cache to its state at the time `at`, without the pod with the UID `pod`.

        It yields the numbers of changes by which this state differs from the present one. If `at` is None, only the pod
        is removed. The present state returns when the block ends.
        """
        since = self._since(at) if at is not None else ()
        others = [(change.uid, change.before) for change in since if change.uid != pod]
        with _changed(cache, [(pod, None)]), _changed(cache, others) as were:
            came = sum(earlier is not None for _, earlier in were)
            yield Shift(-came, came - len(were))

    def snapshots(self, cache: Cache, counting: Counting, but: str, now: float) -> Generator[Shift]:
        """Change the cache to each state that the observed scheduler may have seen instead, and yield its shift.

        The first states lack the last binding, include the next one, lack the last two, and so on; states with other
        deletions follow, then both. The cache is restored when the generator ends or is closed. `counting` returns on
        which nodes pods count after a held-back message. `but` is the UID of the observed pod, whose own binding is not
        applied.
        """
        last = list(self._since(now - self._length_s))
        coming = list(self._coming(cache, counting, but))
        bindings = _ChangeSequence([c for c in last if c.before is None], [c for c in coming if c.before is None])
        deletions = _ChangeSequence([c for c in last if c.after is None], [c for c in coming if c.after is None])
        shifts = (Shift(b, d) for b in bindings.shifts for d in deletions.shifts)
        for shift in islice(sorted(shifts, key=_far), 1, 1 + MOST_SNAPSHOTS):  # the first changes nothing
            with _changed(cache, [*deletions.pods(shift.deletions), *bindings.pods(shift.bindings)]):
                yield shift

    def _since(self, at: float) -> Iterator[_Change]:
        """Yield the changes that were seen since the time `at`, the latest first."""
        for seen_at, change in reversed(self._seen):
            if seen_at < at:
                return
            yield change

    def _coming(self, cache: Cache, counting: Counting, but: str) -> Iterator[_Change]:
        """Yield the changes that held-back messages will make, in order.

        For each pod, only the first appearance and the first removal are included. `counting` returns on which nodes
        pods count after a message. The appearance of the pod `but` is not included.
        """
        told = {(but, True)}
        for _, message in self._held:
            for uid, after in counting(message):
                before, came = cache.pod(uid), after is not None
                if (uid, came) not in told and came is (before is None):
                    told.add((uid, came))
                    yield _Change(uid, before, after)


@dataclass(frozen=True)
class _ChangeSequence:
    """The recent changes of one type, either appearances or removals of pods.

    `last` holds those seen before the observed pod's outcome, the latest first, and `coming` those after it, in order.
    """

    last: Sequence[_Change]
    coming: Sequence[_Change]

    @property
    def shifts(self) -> range:
        """The numbers of changes by which the observed scheduler's view may differ from the observer's present state.

        -n: the scheduler had not seen the last n changes yet; +n: it had already seen the next n.
        """
        return range(-min(MOST, len(self.last)), min(MOST, len(self.coming)) + 1)

    def pods(self, shift: int) -> Iterator[Counted]:
        """Yield a pair for each pod whose change is undone (`shift` < 0) or applied (`shift` > 0).

        It holds the pod's UID, and the pod on its node after that, or None if the pod is on no node then.
        """
        for change in self.last[: max(0, -shift)]:
            yield change.uid, change.before
        for change in self.coming[: max(0, shift)]:
            yield change.uid, change.after


def _far(shift: Shift) -> tuple[bool, int, int]:
    """Return a sort key by which shifts with fewer changes come first, but those of bindings and deletions last."""
    b, d = abs(shift.bindings), abs(shift.deletions)
    return bool(b and d), b + d, d


@contextmanager
def _changed(cache: Cache, pods: Iterable[Counted]) -> Iterator[list[Counted]]:
    """Context manager that puts each pod on its node in the cache, or removes it if its node is None, during the block.

    `pods` are pairs of a UID and the pod on its node. It yields the previous pairs of those pods that changed.
    """
    were: list[Counted] = []
    try:
        for uid, pod in pods:
            cached = cache.pod(uid)
            if (pod is None) != (cached is None):
                _count(cache, uid, pod)
                were.append((uid, cached))
        yield were
    finally:
        for uid, cached in reversed(were):
            _count(cache, uid, cached)


def _count(cache: Cache, uid: str, pod: PodInfo | None) -> None:
    if pod is None:
        cache.remove_pod(uid)
    else:
        cache.set_pod(pod)
