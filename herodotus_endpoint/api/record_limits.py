"""Limits of frames beyond those of the codec: what a database, a clock and a counter can hold.

Owns: bounds on the numbers and names of a frame. Does not own: the consistency of a frame (`codec.validate`).

Invariant: a frame that passes can be stored, counted and read without overflow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from herodotus_answers.node_groups import MAX_RECORDED_BYTES
from herodotus_record.codec import MAX_SLOTS, CodecError, as_numpy
from herodotus_record.model import Column, Decision, Frame, Gap, HighWater, NodeRows, Outcome

MAX_TEXT: Final = 1024  # names are at most 253, identities a host name and a UUID
MAX_SEQUENCE: Final = 1 << 53  # at a million frames a second, 285 years
YEAR_9999_US: Final = 253_402_300_800_000_000  # what RFC 3339 can write
MAX_AHEAD_US: Final = 60_000_000  # a sender's clock may be ahead by this much: NTP keeps clocks within a second
MAX_PLUGINS: Final = 256  # kube-scheduler has 20; each costs a column in every history
MAX_WEIGHT: Final = 1 << 31
MAX_SCORE: Final = 1 << 20  # kube-scheduler's maximum is 100, times an extender's factor
MAX_TOTAL: Final = 1 << 40  # so that a bucket's sums stay far below 63 bits


def check_frame(frame: Frame) -> Frame:
    """Return the frame unchanged if its numbers and names are within the limits of this module.

    Raises CodecError that names the first field out of bounds.
    """
    match frame:
        case Decision():
            _check_decision(frame)
        case Outcome():
            _check_names(incarnation=frame.incarnation, decision_id=frame.decision_id, phase=frame.phase)
            _check_range(0, MAX_SEQUENCE, sequence=frame.sequence, decision_sequence=frame.decision_sequence)
            _check_range(0, YEAR_9999_US - 1, at_us=frame.at_us)
            _check_range(0, MAX_SEQUENCE, repeats=frame.repeats)
            if len(frame.node_groups.encode()) > MAX_RECORDED_BYTES:
                raise CodecError(f"node_groups is longer than {MAX_RECORDED_BYTES} bytes")
        case Gap():
            _check_names(incarnation=frame.incarnation)
            _check_range(0, MAX_SEQUENCE, sequence=frame.sequence, first=frame.first, last=frame.last)
            _check_range(0, YEAR_9999_US - 1, at_us=frame.at_us)
        case HighWater():
            _check_names(incarnation=frame.incarnation, of=frame.of)
            _check_range(0, MAX_SEQUENCE, sequence=frame.sequence, reached=frame.reached)
            _check_range(0, YEAR_9999_US - 1, at_us=frame.at_us)
            if frame.of == frame.incarnation:
                raise CodecError("an incarnation tells its own high-water mark")
        case NodeRows():
            _check_node_rows(frame)
    return frame


def move_future_times(frame: Frame, now_us: int) -> Frame:
    """Return the frame with its times moved back if they are more than MAX_AHEAD_US later than `now_us`.

    Other frames are returned unchanged. All times of a decision move by the same amount, so that its durations stay. If
    the service refused such frames, their sender would lose records as long as its clock is wrong. If it stored them
    unchanged, such a decision would be the pod's latest attempt until that time has passed.
    """
    latest_us = now_us + MAX_AHEAD_US
    if isinstance(frame, Decision):
        times, retry = frame.times, frame.retry
        latest = max(times.created_us, times.queued_us, times.started_us)
        if latest <= latest_us:
            return frame
        ahead_us = latest - now_us
        moved = {n: max(0, getattr(times, n) - ahead_us) for n in ("created_us", "queued_us", "started_us")}
        if retry is not None:
            end_us = None if retry.latest_us is None else max(0, retry.latest_us - ahead_us)
            retry = replace(retry, not_before_us=max(0, retry.not_before_us - ahead_us), latest_us=end_us)
        return replace(frame, times=replace(times, **moved), retry=retry)
    if isinstance(frame, Outcome | Gap | HighWater) and frame.at_us > latest_us:
        return replace(frame, at_us=now_us)
    return frame


def _check_decision(d: Decision) -> None:
    _check_names(id=d.id, incarnation=d.key.incarnation, cluster=d.key.cluster, profile=d.scheduler.profile)
    _check_names(namespace=d.pod.namespace, pod=d.pod.name, pod_uid=d.key.pod_uid)
    _check_texts(identity=d.scheduler.identity, version=d.scheduler.version)
    if d.pod.owner:
        _check_names(owner_kind=d.pod.owner.kind, owner_name=d.pod.owner.name)
    _check_texts(pod_group=d.pod.pod_group)
    _check_range(0, MAX_SEQUENCE, sequence=d.sequence, attempt=d.key.attempt, generation=d.generation)
    if d.group_cycle:
        _check_range(0, MAX_SEQUENCE, **{f"group_cycle.{name}": value for name, value in vars(d.group_cycle).items()})
    times = d.times
    _check_range(
        0, YEAR_9999_US - 1, created_us=times.created_us, queued_us=times.queued_us, started_us=times.started_us
    )
    _check_plugins("filters", tuple([f.plugin for f in d.filters]))
    _check_plugins("scores", tuple([s.plugin for s in d.scores]))
    for s in d.scores:
        _check_range(-MAX_WEIGHT, MAX_WEIGHT, weight=s.weight)
        if s.normalized.itemsize > 2 and _exceeds(s.normalized, MAX_SCORE):
            raise CodecError(f"scores[{s.plugin}].normalized holds a value beyond {MAX_SCORE}")
        if len(s.raw) != len(s.normalized) and not (_lacks_raw_scores(d) and not len(s.raw)):
            raise CodecError(f"scores[{s.plugin}] has raw scores without normalized ones, or the reverse")
    if d.totals.itemsize > 4 and _exceeds(d.totals, MAX_TOTAL):
        raise CodecError(f"totals holds a value beyond {MAX_TOTAL}")


def _lacks_raw_scores(d: Decision) -> bool:
    """Return whether a decision declares that its raw scores are unknown, as decisions read from a log do."""
    return "scores.raw" in d.unknown


@lru_cache(maxsize=256)
def _check_plugins(what: str, plugins: tuple[str, ...]) -> None:
    """Raise CodecError if the names of plugins are too many, empty, too long or repeated.

    `what` names the list in the error. A success is cached, because every decision repeats the same few lists.
    """
    _check_range(0, MAX_PLUGINS, **{what: len(plugins)})
    _check_names(**{f"{what}[{i}]": plugin for i, plugin in enumerate(plugins)})
    if len(set(plugins)) < len(plugins):
        raise CodecError(f"{what} names a plugin twice")


def _check_node_rows(rows: NodeRows) -> None:
    _check_names(cluster=rows.cluster, incarnation=rows.incarnation)
    for what, texts in (("name", rows.name), ("uid", rows.uid)):
        if max(map(len, texts), default=0) > MAX_TEXT:  # thousands of them: named only where one is too long
            _check_texts(**{f"{what}[{i}]": text for i, text in enumerate(texts)})
    _check_range(-1, MAX_SEQUENCE, base=rows.base, generation=rows.generation)
    if len(rows.slot):
        _check_range(0, MAX_SLOTS - 1, slot=max(rows.slot))
        _check_range(-1, rows.generation, since=min(rows.since))
        _check_range(-1, rows.generation, since=max(rows.since))


def _check_names(**names: str) -> None:
    _check_texts(**names)
    for what, value in names.items():
        if not value:
            raise CodecError(f"{what} is empty")


def _check_texts(**texts: str) -> None:
    for what, value in texts.items():
        if len(value) > MAX_TEXT:
            raise CodecError(f"{what} is longer than {MAX_TEXT} characters")


def _check_range(least: int, most: int, **numbers: int) -> None:
    for what, value in numbers.items():
        if not least <= value <= most:
            raise CodecError(f"{what} is {value}, expected {least} to {most}")


def _exceeds(column: Column, bound: int) -> bool:
    values: Any = as_numpy(column)
    return len(values) > 0 and (int(values.min()) < -bound or int(values.max()) > bound)
