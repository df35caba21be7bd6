"""Formats that several screens share: ages, counts, percentages, short names of plugins.

Owns: these formats. Does not own: sentences about decisions, which the documents contain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

from herodotus_cli.render.screen_elements import Block, TextLine, ViewOptions
from herodotus_record.units import pluralize

Row = TypeVar("Row")

# Short names for narrow columns, as operators speak of these plugins. Others are cut.
SHORT = {
    "NodeResourcesFit": "Fit",
    "NodeResourcesBalancedAllocation": "Balanced",
    "TaintToleration": "Taint",
    "NodeAffinity": "NodeAff",
    "NodeUnschedulable": "Unsched",
    "NodeName": "Name",
    "NodePorts": "Ports",
    "PodTopologySpread": "Spread",
    "InterPodAffinity": "InterPod",
    "ImageLocality": "Image",
    "NodeVolumeLimits": "VolLimits",
    "VolumeBinding": "Volume",
    "VolumeRestrictions": "VolRestr",
    "VolumeZone": "VolZone",
    "DynamicResources": "DRA",
}
NOT_KEPT = "not kept"
# Why a node was not evaluated, by the record's term.
NOT_EVALUATED = {
    "restricted": "excluded by a PreFilter plugin",
    "not-sampled": "enough feasible nodes were found (percentageOfNodesToScore)",
    "not-needed": "the nominated node fits",
    "not-reached": "the attempt ended first",
}
_MAX_SHORT_NAME = 10
_SPANS = (
    (2 * 86_400, 86_400, "d", 3600, "h"),
    (3600, 3600, "h", 60, "m"),
    (60, 60, "m", 1, "s"),
)


def short_plugin_names(plugins: Sequence[str]) -> dict[str, str]:
    """Return a unique short name for each plugin, by its full name.

    The short name of an extender, whose full name is a URL, starts with the host.
    """
    names: dict[str, str] = {}
    for plugin in plugins:
        bare = plugin.rpartition("://")[2]
        short = SHORT.get(plugin) or (bare if len(bare) <= _MAX_SHORT_NAME else bare[: _MAX_SHORT_NAME - 1] + "…")
        names[plugin] = plugin if short in names.values() else short
    return names


def cut_rows(rows: Sequence[Row], most: int | None) -> Sequence[Row]:
    """Return the first `most` rows (None: all), or all if only one would be left out."""
    return rows if most is None or len(rows) <= most + 1 else rows[:most]


def note_left_out(left: int, noun: str) -> list[Block]:
    """Return a line that says how many rows of a table --all shows beside those that are shown; [] for none."""
    return [TextLine(f"… {pluralize(left, f'more {noun}')} (--all)", "dim")] if left > 0 else []


def attempt_label(of: dict[str, Any]) -> str:
    """Return `attempt 3 of 11` for an attempt of an answer, or `attempt N` if its position is not known.

    Where its record stands for several equal attempts, the label is `attempts 3–5 of 11`.
    N is the scheduler's number, which restarts when another scheduler takes over, so it is no position.
    """
    attempts = of.get("attempts") or 0
    label = f"attempt{'s' if of.get('lastOrdinal') != of.get('ordinal') else ''} {attempt_ordinals(of)}"
    return f"{label} of {attempts}" if attempts > 1 and of.get("ordinal") is not None else label


def attempt_ordinals(of: dict[str, Any]) -> str:
    """Return which attempts an attempt of an answer stands for, such as `3` or `3–5`; the number if that is unknown."""
    first = of.get("ordinal")
    return str(of["number"]) if first is None else format_ordinals(first, of["lastOrdinal"])


def format_ordinals(first: int, last: int) -> str:
    """Return `3` for one attempt and `3–5` for several."""
    return str(first) if first == last else f"{first}–{last}"


def format_age(since: object, now: datetime) -> str:
    """Return the time since a timestamp, such as `38s`, `4m12s` or `2d4h`; "" if the timestamp is missing."""
    try:
        then = datetime.fromisoformat(str(since).replace("Z", "+00:00"))
        return format_duration((now - then).total_seconds())
    except (TypeError, ValueError):
        return ""


def title_of_times(view: ViewOptions) -> str:
    """Return the title of a column of `format_age_or_time`: TIME with --utc, otherwise AGE."""
    return "TIME" if view.utc else "AGE"


def format_age_or_time(then: object, view: ViewOptions) -> str:
    """Return the age of a timestamp, for a table; with --utc return the time itself, to the second."""
    return _utc(then) if view.utc else format_age(then, view.now)


def format_ago(then: object, view: ViewOptions) -> str:
    """Return a timestamp as words for a sentence: `38s ago`, or with --utc `at 2026-03-01T12:00:00Z`."""
    return f"at {_utc(then)}" if view.utc else f"{format_age(then, view.now)} ago"


def _utc(then: object) -> str:
    try:
        moment = datetime.fromisoformat(str(then).replace("Z", "+00:00"))
    except ValueError:
        return ""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def format_time_until(then: object, now: datetime) -> str:
    """Return the time left until a timestamp, such as `4m12s`; "" if it has passed or is missing."""
    try:
        left = (datetime.fromisoformat(str(then).replace("Z", "+00:00")) - now).total_seconds()
    except ValueError:
        return ""
    return format_duration(left) if left >= 1 else ""


def format_time_between(start: object, end: object) -> str:
    """Return the time from one timestamp to another, such as `4m12s`; "" if one is missing."""
    try:
        return format_age(start, datetime.fromisoformat(str(end).replace("Z", "+00:00")))
    except ValueError:
        return ""


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as `4m12s`. Days are used from 48 hours on, as in kubectl."""
    whole = max(0, int(seconds))
    for least_s, unit_s, unit, below_s, below in _SPANS:
        if whole >= least_s:
            rest = whole % unit_s // below_s
            return f"{whole // unit_s}{unit}{rest}{below}" if rest else f"{whole // unit_s}{unit}"
    return f"{whole}s"


def format_feasible(nodes: Mapping[str, Any], total: str = "total") -> str:
    """Return the numbers of feasible and of all nodes as `4/12`, with `–` for a number that is not recorded.

    `total` is the key of the number of all nodes.
    """
    return "/".join("–" if nodes[name] is None else str(nodes[name]) for name in ("feasible", total))


def omitted_hint(answer: dict[str, Any]) -> str:
    """Return how to see nodes that the answer omits: the option `--all`, or `not kept` if the record was pruned."""
    return NOT_KEPT if answer.get("pruned") else "--all"
