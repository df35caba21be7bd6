"""The blocks about the state that a pod or a workload is really in: a LiveState -> headline, causes, fixes, timeline.

Owns: their layout. Does not own: states, causes and remedies (`herodotus_answers.live.declarations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_cli.render import suggestions
from herodotus_cli.render.formatting import format_age_or_time, title_of_times
from herodotus_cli.render.screen_elements import (
    Blank,
    Block,
    Style,
    TextLine,
    ViewOptions,
    build_table,
    labelled_rows,
)
from herodotus_record.units import pluralize

Json = dict[str, Any]
_MAX_CAUSES = 3
_MAX_REMEDIES = 3
_ROOMY = 120  # columns of a terminal that hold a column of sources
# Changes that cost the application or other pods more than what a cause asks for.
_COSTLY = ("set-request", "set-priority-class")
_NEW_NODE = "new-node-"  # begins the codes of causes that an autoscaler's machine is late, failed or refused
# Changes that give up what the pod asks of its neighbours, after which it may run where it is of no use.
_LOOSENS = ("remove-pod-affinity", "remove-pod-anti-affinity", "set-when-unsatisfiable")


def build_blocks(
    state: Json,
    view: ViewOptions,
    *,
    decided: Sequence[tuple[str, str]] = (),
    proposed: Json | None = None,
    is_short: bool = False,
) -> list[Block]:
    """Return the headline of a state, its causes with their objects and sources, and one list of fixes.

    `decided` has labelled sentences on the scheduler's decision, which are evidence for the state. `proposed` is an
    answer with suggestions for the same pod: checked ones that need no new capacity are the first fixes. If `is_short`,
    only the first fix has its command.
    """
    is_well = state["actor"] is None
    sign = "" if view.piped or state["code"] == "pod-gone" else "✓ " if is_well else "✗ "
    style: Style = "strong" if state["code"] == "pod-gone" else "good" if is_well else "bad"
    blocks: list[Block] = [TextLine(sign + state["headline"], style)]
    causes = state["causes"][:_MAX_CAUSES]
    rows = [row for cause in causes for row in _describe(cause, state["headline"])]
    if omitted := len(state["causes"]) - len(causes):
        rows.append(("", f"… {pluralize(omitted, 'other cause')}: -o json"))
    if state["unread"]:
        rows.append(("UNREAD", f"you may not read, or could not: {', '.join(state['unread'])}"))
    rows += decided
    blocks += [labelled_rows(rows)] if rows else []
    proposals = {(each["text"], each["command"]): each for cause in causes for each in cause["remedies"]}
    remedies = list(proposals.values())[:_MAX_REMEDIES]  # two causes may have the same one
    is_awaited = any(cause["code"].startswith(_NEW_NODE) for cause in causes)
    fixes = _merge_fixes(remedies, proposed or {}, view, is_awaited=is_awaited)
    return [*blocks, Blank(), *suggestions.build_fixes(fixes, is_short=is_short)] if fixes else blocks


def build_timeline(state: Json, view: ViewOptions) -> list[Block]:
    """Return the table of what happened to the pod, oldest first; [] if the timeline was not asked for."""
    entries = state.get("timeline")
    if not entries:
        return []
    times = [format_age_or_time(each["at"], view) for each in entries]
    if view.width is not None and view.width < _ROOMY:  # a column of sources would leave no room for what happened
        texts = [f"{each['text']} [{each['source']}]" for each in entries]
        return [build_table((title_of_times(view), "TIMELINE"), zip(times, texts, strict=True))]
    rows = [(time, each["source"], each["text"]) for time, each in zip(times, entries, strict=True)]
    return [build_table((title_of_times(view), "SOURCE", "TIMELINE"), rows)]


def _describe(cause: Json, headline: str) -> list[tuple[str, str]]:
    """Return (label, text) rows for a cause: its text, its source, its object, and the command to inspect it.

    The text is left out if `headline` contains it.
    """
    of = cause["object"] or ""
    is_named = not of or of.partition("/")[2] in cause["text"]
    source = cause["source"] + ("" if is_named else f", about {of}")
    is_said = cause["text"].lower() in headline.lower()
    rows = [("SOURCE", source)] if is_said else [("CAUSE", f"{cause['text']} [{source}]")]
    return [*rows, *([("SEE", cause["inspect"])] if "inspect" in cause else [])]


def _merge_fixes(
    remedies: Sequence[Json], proposed: Json, view: ViewOptions, *, is_awaited: bool
) -> list[suggestions.Fix]:
    """Return the remedies of causes between the suggestions that end the wait by themselves and all others.

    A suggestion ends the wait by itself if it is checked, needs no new capacity, and asks no less of other pods. A
    lower request, or a priority that evicts others, comes after every remedy. So does each change of the application if
    a new node is awaited (`is_awaited`), on which the pod fits as it is. If `proposed` has no suggestions, its
    unchecked changes are returned only if there are no remedies.
    """
    of_causes = [
        suggestions.Fix(remedy["text"], remedy["command"], is_checked=bool(remedy.get("checked")))
        for remedy in remedies
    ]
    given = proposed.get("suggestions") or []
    if not given:
        return of_causes or (suggestions.list_fixes(proposed, view) if proposed else [])
    is_enough = [
        bool(each["checked"])
        and "capacity" not in each["costs"]
        and each["kind"] not in _LOOSENS
        and not (remedies and each["kind"] in _COSTLY)
        and not (is_awaited and "application" in each["costs"])
        for each in given
    ]
    listed = list(zip(is_enough, suggestions.list_fixes(proposed, view), strict=True))
    return [*(fix for enough, fix in listed if enough), *of_causes, *(fix for enough, fix in listed if not enough)]
