"""The screen of `kubectl herodotus pod NAME --attempts`: PodHistory -> blocks.

Owns: the content of the screen. Does not own: changes between two attempts (`herodotus_answers.changes`), drawing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from herodotus_cli.render.formatting import (
    format_age_or_time,
    format_ago,
    format_feasible,
    format_ordinals,
    format_time_between,
    title_of_times,
)
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    headline,
    join_sections,
)
from herodotus_record.units import pluralize

Json = dict[str, Any]
NO_CHANGE = "no change"


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: the pod, then a table with one row per scheduling attempt, oldest first.

    On a terminal, each change since the previous attempt has a line of its own. Consecutive attempts without a change
    share a row, except with -o wide.
    """
    attempts = answer["attempts"]
    last = attempts[-1]
    meta = answer["metadata"]
    name = "  ".join(p for p in (f"{meta['name']} ({meta['namespace']})", answer["owner"] or "") if p)
    within = format_time_between(attempts[0]["startedAt"], _find_last_start(last))
    total = last["lastOrdinal"]
    tried = f"{pluralize(total, 'attempt')}{f' within {within}' if total > 1 and not answer['attemptsOmitted'] else ''}"
    left_out = answer["attemptsOmitted"]
    sections: list[list[Block]] = [
        [SplitLine(name, tried), headline(answer["headline"], last["node"])],
        [_table(attempts, view)],
        [TextLine(f"… {pluralize(left_out, 'earlier attempt')}: --attempt N shows one", "dim")] if left_out else [],
        [TextLine("more: --attempt N (one attempt in full)", "dim")] if not view.piped and not left_out else [],
    ]
    return join_sections(sections)


def _table(attempts: list[Json], view: ViewOptions) -> Block:
    rows: list[list[Cell | str]] = []
    for group in _group_unchanged(attempts, every=view.wide):
        a, last = group[0], group[-1]
        if a is last:
            words = [*_describe_changes(a, first=a is attempts[0]), *_describe_repeats(a, view)]
        else:
            words = _describe_unchanged(group, view)
        facts: list[Cell | str] = [
            format_ordinals(a["ordinal"], last["lastOrdinal"]),
            format_age_or_time(a["startedAt"], view),
            a["state"],
            a["node"] or "–",
            format_feasible(a["nodes"]),
        ]
        lines = ["; ".join(words)] if view.piped else words
        rows += [[*(facts if j == 0 else [""] * len(facts)), line] for j, line in enumerate(lines)]
    header = ("ATTEMPT", title_of_times(view), "RESULT", "NODE", "FIT", "WHAT CHANGED")
    return build_table(header, rows, right=(0, 4))


def _group_unchanged(attempts: list[Json], *, every: bool) -> list[list[Json]]:
    """Return the attempts in groups: consecutive attempts without a change are one group.

    With `every`, each attempt is a group of its own.
    """
    groups: list[list[Json]] = []
    may_join = False
    for i, attempt in enumerate(attempts):
        before = attempts[i - 1] if i and not every else None
        is_unchanged = before is not None and not attempt["changes"] and attempt["state"] == before["state"]
        if is_unchanged and may_join:
            groups[-1].append(attempt)
        else:
            groups.append([attempt])
        may_join = is_unchanged
    return groups


def _find_last_start(attempt: Json) -> str:
    """Return the start of the last attempt that only repeated this one, or of this one without repeats."""
    return str(attempt["repeats"]["lastAt"] if attempt.get("repeats") else attempt["startedAt"])


def _describe_repeats(attempt: Json, view: ViewOptions) -> list[str]:
    """Return, as a list, a text on how often an attempt was repeated and when last; [] if it was not."""
    repeats = attempt.get("repeats")
    if not repeats:
        return []
    return [f"repeated {pluralize(repeats['count'], 'time')}, the last {format_ago(repeats['lastAt'], view)}"]


def _describe_unchanged(group: list[Json], view: ViewOptions) -> list[str]:
    """Return texts on consecutive attempts without a change: their number, the last one, and what requeued them."""
    events = Counter(attempt["requeuedBy"]["event"] for attempt in group if attempt["requeuedBy"])
    requeued = ", ".join(f"{pluralize(n, 'time')} by {event}" for event, n in events.most_common())
    made = group[-1]["lastOrdinal"] - group[0]["ordinal"] + 1
    line = f"{made} attempts, {NO_CHANGE}; the last {format_ago(_find_last_start(group[-1]), view)}"
    return [line, *([f"requeued {requeued}"] if requeued else [])]


def _describe_changes(attempt: Json, *, first: bool) -> list[str]:
    """Return texts on which event requeued the pod and what changed since the previous attempt.

    With `first` there is no previous attempt; the texts then say which filters rejected nodes.
    """
    requeued = attempt["requeuedBy"]
    words = (
        [f"requeued by {requeued['event']}{' for ' + requeued['plugin'] if requeued['plugin'] else ''}"]
        if requeued
        else []
    )
    if first:
        rejected = [f"{plugin} ({n})" for plugin, n in attempt["rejectedBy"].items()]
        return [*words, f"nodes rejected by {', '.join(rejected)}"] if rejected else words or ["–"]
    return [*words, *(change["text"] for change in attempt["changes"])] if attempt["changes"] else [*words, NO_CHANGE]
