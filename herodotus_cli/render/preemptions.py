"""The screen of `kubectl herodotus preemptions`: Preemptions -> blocks; and the sentence about one victim.

Owns: the content of the screen. Does not own: which preemptions are listed (the decisions service), drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herodotus_cli.render.formatting import format_age_or_time, format_ago, title_of_times
from herodotus_cli.render.screen_elements import Block, TextLine, ViewOptions, build_table, join_sections
from herodotus_record.units import join_limited

if TYPE_CHECKING:
    from herodotus_answers.preemptions import PreemptionEntry, Preemptions, Victim

_VICTIMS_NAMED = 3
_HIDDEN = "a pod of another namespace"


def build_screen(answer: Preemptions, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: a row for each victim, the newest preemption first."""
    rows = []
    for found in answer["preemptions"]:
        for victim in found["victims"]:
            state = victim["state"] if found["evicted"] else "Expected"
            row = [format_age_or_time(victim["at"] or found["at"], view), _name(victim), found["node"], state]
            rows.append([*row, describe_preemptor(found)])
    notes = [] if answer["complete"] else ["… older preemptions are not listed: --since 1h"]
    if any(not found["evicted"] for found in answer["preemptions"]):
        notes.append("Expected: by the observer's evaluation; the scheduler itself does not say whom it evicted.")
    return join_sections(
        [
            [build_table((title_of_times(view), "VICTIM", "NODE", "STATE", "PREEMPTED BY"), rows)],
            [TextLine(note, "dim") for note in notes],
        ]
    )


def describe_preemptor(found: PreemptionEntry) -> str:
    """Return the pod for which a preemption made room, as `shop/db-0 (priority 1000, attempt 2)`."""
    pod = found["preemptor"]
    if pod is None:
        return _HIDDEN
    return f"{pod['namespace']}/{pod['pod']} (priority {pod['priority']}, attempt {pod['attempt']})"


def describe_eviction(found: PreemptionEntry, view: ViewOptions) -> str:
    """Return a sentence on the preemption that evicted the pod of an answer, with the command that explains it."""
    pod = found["preemptor"]
    age = format_ago(found["at"], view)
    verb = "Evicted" if found["evicted"] else "By the observer's evaluation, evicted"
    sentence = f"{verb} from {found['node']} {age} to make room for {describe_preemptor(found)}"
    if pod is None:
        return f"{sentence}."
    return f"{sentence}: kubectl herodotus pod {pod['namespace']}/{pod['pod']} --attempt {pod['attempt']}"


def describe_victims(found: PreemptionEntry, view: ViewOptions) -> str:
    """Return the pods that a preemption evicted, or by the observer's evaluation would have, their node, and when."""
    gone = [_name(victim) for victim in found["victims"] if victim["state"] != "Failed"]
    names = join_limited(gone, _VICTIMS_NAMED, "kubectl herodotus preemptions")
    verb = "" if found["evicted"] else "by the observer's evaluation, "
    return f"{verb}{names} from {found['node']}, {format_ago(found['at'], view)}, to make room for this pod"


def _name(victim: Victim) -> str:
    return f"{victim['namespace']}/{victim['pod']}" if victim["pod"] else _HIDDEN
