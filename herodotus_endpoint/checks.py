"""What the codec lets through and a database, a clock or a counter cannot hold.

Owns: bounds on a frame's numbers and names. Does not own: the frame's own consistency (`codec.validate`).

Invariant: a frame that passes can be stored, counted and answered from without an overflow.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from herodotus_record.codec import CodecError, as_numpy
from herodotus_record.model import Column, Decision, Frame, Gap, HighWater, NodeRows, Outcome

MAX_TEXT: Final = 1024  # names are at most 253, identities a host name and a UUID
MAX_SEQUENCE: Final = 1 << 53  # at a million frames a second, 285 years
YEAR_9999_US: Final = 253_402_300_800_000_000  # what RFC 3339 can write
MAX_PLUGINS: Final = 256  # kube-scheduler has 20; each costs a column in every history
MAX_WEIGHT: Final = 1 << 31
MAX_SCORE: Final = 1 << 20  # 100 by law, times an extender's factor
MAX_TOTAL: Final = 1 << 40  # so that a bucket's sums stay far below 63 bits
MAX_SLOTS: Final = 1 << 17  # kube-scheduler is tested up to 5,000 nodes, kubemark went to 30,000


def checked(frame: Frame) -> Frame:
    """The frame itself; CodecError naming the first field that is out of bounds."""
    match frame:
        case Decision():
            _decision(frame)
        case Outcome():
            _names(incarnation=frame.incarnation, decision_id=frame.decision_id, phase=frame.phase)
            _within(0, MAX_SEQUENCE, sequence=frame.sequence, decision_sequence=frame.decision_sequence)
            _within(0, YEAR_9999_US - 1, at_us=frame.at_us)
        case Gap():
            _names(incarnation=frame.incarnation)
            _within(0, MAX_SEQUENCE, sequence=frame.sequence, first=frame.first, last=frame.last)
            _within(0, YEAR_9999_US - 1, at_us=frame.at_us)
        case HighWater():
            _names(incarnation=frame.incarnation, of=frame.of)
            _within(0, MAX_SEQUENCE, sequence=frame.sequence, reached=frame.reached)
            _within(0, YEAR_9999_US - 1, at_us=frame.at_us)
            if frame.of == frame.incarnation:
                raise CodecError("an incarnation tells its own high-water mark")
        case NodeRows():
            _node_rows(frame)
    return frame


def _decision(d: Decision) -> None:
    _names(id=d.id, incarnation=d.key.incarnation, cluster=d.key.cluster, profile=d.scheduler.profile)
    _names(namespace=d.pod.namespace, pod=d.pod.name, pod_uid=d.key.pod_uid)
    _texts(identity=d.scheduler.identity, version=d.scheduler.version)
    if d.pod.owner:
        _names(owner_kind=d.pod.owner.kind, owner_name=d.pod.owner.name)
    _within(0, MAX_SEQUENCE, sequence=d.sequence, attempt=d.key.attempt, generation=d.generation)
    times = d.times
    _within(0, YEAR_9999_US - 1, created_us=times.created_us, queued_us=times.queued_us, started_us=times.started_us)
    _within(0, MAX_SLOTS, slots=d.slots)
    _plugins("filters", tuple([f.plugin for f in d.filters]))
    _plugins("scores", tuple([s.plugin for s in d.scores]))
    for s in d.scores:
        _within(-MAX_WEIGHT, MAX_WEIGHT, weight=s.weight)
        if s.normalized.itemsize > 2 and _beyond(s.normalized, MAX_SCORE):
            raise CodecError(f"scores[{s.plugin}].normalized holds a value beyond {MAX_SCORE}")
        if len(s.raw) != len(s.normalized) and not (_unsaid(d) and not len(s.raw)):
            raise CodecError(f"scores[{s.plugin}] has raw scores without normalised ones, or the reverse")
    if d.totals.itemsize > 4 and _beyond(d.totals, MAX_TOTAL):
        raise CodecError(f"totals holds a value beyond {MAX_TOTAL}")


def _unsaid(d: Decision) -> bool:
    """Whether the record says that it does not know raw scores: those of a log."""
    return "scores.raw" in d.unknown


@lru_cache(maxsize=256)
def _plugins(what: str, plugins: tuple[str, ...]) -> None:
    """The same few lists come with every decision; one that is refused is not remembered."""
    _within(0, MAX_PLUGINS, **{what: len(plugins)})
    _names(**{f"{what}[{i}]": plugin for i, plugin in enumerate(plugins)})
    if len(set(plugins)) < len(plugins):
        raise CodecError(f"{what} names a plugin twice")


def _node_rows(rows: NodeRows) -> None:
    _names(cluster=rows.cluster, incarnation=rows.incarnation)
    for what, texts in (("name", rows.name), ("uid", rows.uid)):
        if max(map(len, texts), default=0) > MAX_TEXT:  # thousands of them: named only where one is too long
            _texts(**{f"{what}[{i}]": text for i, text in enumerate(texts)})
    _within(-1, MAX_SEQUENCE, base=rows.base, generation=rows.generation)
    if len(rows.slot):
        _within(0, MAX_SLOTS - 1, slot=max(rows.slot))
        _within(-1, rows.generation, since=min(rows.since))
        _within(-1, rows.generation, since=max(rows.since))


def _names(**names: str) -> None:
    _texts(**names)
    for what, value in names.items():
        if not value:
            raise CodecError(f"{what} is empty")


def _texts(**texts: str) -> None:
    for what, value in texts.items():
        if len(value) > MAX_TEXT:
            raise CodecError(f"{what} is longer than {MAX_TEXT} characters")


def _within(least: int, most: int, **numbers: int) -> None:
    for what, value in numbers.items():
        if not least <= value <= most:
            raise CodecError(f"{what} is {value}, expected {least} to {most}")


def _beyond(column: Column, bound: int) -> bool:
    values: Any = as_numpy(column)
    return len(values) > 0 and (int(values.min()) < -bound or int(values.max()) > bound)
