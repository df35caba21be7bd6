"""Fold what happened into the entries of a timeline: one line for what is said again in the same words.

Owns: what repeats, and how a line says how often. Does not own: which facts become entries (`pods.pod_timeline`,
`workloads.workload_events`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from herodotus_answers.live.cluster_objects import count_event, read_event_time
from herodotus_answers.live.pod_facts import clean, find_event_span, format_seconds, parse_time

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import TimelineEntry

Json = dict[str, Any]


class Fact(NamedTuple):
    """Something that happened, or that happened `times` times since `first`, the last time at `at`.

    `message` is the part of `text` in the words of a component; `short` replaces the text if the fact with a message
    before has the same one.
    """

    at: str
    source: str
    text: str
    message: str = ""
    short: str = ""
    times: int = 1
    first: datetime | None = None


def describe_event(event: Json, source: str, before: str = "") -> Fact:
    """Return an event as a fact; `before` is put before its message."""
    message, at = clean(event.get("message")), read_event_time(event)
    last = parse_time(at)
    first = None if last is None else last - find_event_span(event)
    text, short = f"{before}{message}", f"{before}the same message"
    return Fact(at, source, text, message, short, count_event(event), first)


def fold_facts(facts: Iterable[Fact]) -> Iterator[TimelineEntry]:
    """Yield the entries of a timeline for facts with a time, oldest first.

    Facts that follow each other and have the same message are one entry, which says how often any one source has it,
    within which time, and which other sources have it.
    """
    before = ""
    numbered = enumerate(facts)
    for _, group in groupby(numbered, key=lambda item: item[1].message or item[0]):
        run = [fact for _, fact in group]
        first = run[0]
        text = first.short if first.message and first.message == before else first.text
        yield {"at": first.at, "source": first.source, "text": text + _describe_repeats(run)}
        before = first.message or before


def _describe_repeats(run: Sequence[Fact]) -> str:
    """Return how often facts with one message occurred, within which time, and their further sources; "" for one."""
    by_source: dict[str, int] = {}
    for fact in run:
        by_source[fact.source] = by_source.get(fact.source, 0) + fact.times
    times, (_, *others) = max(by_source.values()), by_source
    ends = [end for fact in run for end in (fact.first, parse_time(fact.at)) if end is not None]
    span = (max(ends) - min(ends)).total_seconds() if ends else 0
    often = f"{times} times{f' in {format_seconds(span)}' if span else ''}" if times > 1 else ""
    more = f"also {', '.join(others)}" if others else ""
    return f" ({'; '.join(filter(None, (often, more)))})" if often or more else ""
