"""The screen of plans: the steps of each in order, with the command, where pods land, what is disturbed, and the proof.

Owns: the layout. Does not own: the sentences about size and proof (`herodotus_answers.plans`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_cli.render.formatting import format_count
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, build_table

Json = dict[str, Any]
_INDENT = " " * 5
_NAMED = 3
_TITLES = {
    "move": "MOVE PODS",
    "evict": "GIVE UP LESS IMPORTANT PODS",
    "nodes": "NODES",
    "request": "LOWER A REQUEST",
    "mixed": "SEVERAL KINDS",
}
_FAILURES = {
    "DisplacedPending": "a displaced pod finds no node in one order",
    "TargetPending": "the pods do not fit for every order and draw",
    "Preempts": "a pod would preempt in one order",
    "Forced": "too many nodes would have to be cordoned",
}


def build_screen(review: Json, headline: str, *, every_row: bool = False) -> list[list[Block]]:
    """Return the sections below the title: the sentence, then the plans by kind, one of each unless `every_row`."""
    good = review["verdict"] != "NoPlan"
    sections: list[list[Block]] = [[TextLine(headline, "good" if good else "bad")]]
    for kind in review["kinds"]:
        shown = kind["plans"] if every_row else kind["plans"][:1]
        for number, plan in enumerate(shown, 1):
            title = _TITLES[kind["kind"]] + (f" ({number})" if every_row and len(kind["plans"]) > 1 else "")
            sections.append(_build_plan(title, kind, plan))
        more = len(kind["plans"]) - len(shown)
        if more:
            sections[-1].append(TextLine(f"… {format_count(more, 'other plan')} of this size (--all)", "dim"))
    nothing = [kind for kind in review["kinds"] if not kind["plans"]]
    if nothing:
        rows = [(_TITLES[kind["kind"]].lower(), _explain_nothing(kind)) for kind in nothing]
        sections.append([build_table(("NO PLAN", "WHY"), rows)])
    if review["kinds"]:
        spent = f"{review['seconds']:.1f} s, {review['decided']:,} decisions"
        sections.append([TextLine(f"Searched for {spent}; nothing is changed.", "dim")])
    return sections


def _build_plan(title: str, kind: Json, plan: Json) -> list[Block]:
    from herodotus_answers.plans import describe_bound, describe_changes

    blocks: list[Block] = [TextLine(f"{title}: {describe_changes(kind['kind'], plan)}", "strong")]
    for number, step in enumerate(plan["steps"], 1):
        blocks.append(build_table((), [(Cell(f"{number}.", "strong"), Cell(_describe_step(step)))]))
        if step["command"]:
            blocks.append(TextLine(f"{_INDENT}{step['command']}", command=True))
    blocks.append(build_table((), [(Cell(label, "strong"), text) for label, text in _list_facts(kind, plan)]))
    bound = describe_bound(kind["bound"])
    states = format_count(plan["states"], "state")
    blocks.append(TextLine(f"Proof: holds in every order and draw ({states}). {bound}", "dim"))
    return blocks


def _describe_step(step: Json) -> str:
    """Return what a step does, and what to wait for before the next one."""
    pod = f"{step['namespace']}/{step['pod']}"
    nodes = _join(step["nodes"])
    match step["kind"]:
        case "Cordon":
            return f"cordon {nodes}, so that no pod lands there meanwhile"
        case "Uncordon":
            return f"uncordon {nodes}" + ("" if step["counted"] else " again")
        case "Move":
            owner = f" of {step['owner']}" if step["owner"] else ""
            return (
                f"move {pod}{owner} from {step['node']} to {_join(step['landsOn'], ' or ')}:"
                " wait until its new pod is Ready"
            )
        case "ScaleDown":
            return f"give up {pod} on {step['node']}: {step['owner']} has one pod less; wait until it is gone"
        case "AddNodes":
            return f"add {format_count(len(step['nodes']), 'node')} like {step['node']}"
        case "SetRequest":
            return f"request {step['request']}: {step['owner'] or 'the pod'} replaces its pods"
        case "Create":
            return "create the object"
    return str(step["kind"])


def _list_facts(kind: Json, plan: Json) -> list[tuple[str, str]]:
    lands: dict[str, int] = {}
    for target in plan["targets"]:
        where = _join(target["landsOn"], " or ")
        lands[where] = lands.get(where, 0) + 1
    named = f"{plan['targets'][0]['namespace']}/{plan['targets'][0]['name']}"
    what = [f"{named if len(plan['targets']) == 1 else format_count(n, 'pod')} on {where}" for where, n in lands.items()]
    disruption = plan["disruption"]
    parts = [format_count(disruption["pods"], "pod") + " deleted"] if disruption["pods"] else []
    parts += [f"within {_join(disruption['budgets'])}"] if disruption["budgets"] else []
    parts += [format_count(disruption["volumes"], "volume") + " detached"] if disruption["volumes"] else []
    lost = disruption["localData"]
    parts += [f"{format_count(lost, 'pod')} with emptyDir data lost"] if lost else []
    parts += [format_count(disruption["newNodes"], "new node")] if disruption["newNodes"] else []
    return [("lands", "; ".join(what)), ("disturbs", ", ".join(parts) or "no running pod")]


def _explain_nothing(kind: Json) -> str:
    from herodotus_answers.plans import describe_bound

    bound, failures = kind["bound"], kind["failures"]
    proven = bound["kind"] != "NotProven"
    why = describe_bound(bound) if proven else f"not proven: {bound['reason']}"
    dropped = sorted(failures.items(), key=lambda item: -item[1])
    return why + "".join(f"; dropped {count}: {_FAILURES.get(name, name)}" for name, count in dropped[:2])


def _join(names: Sequence[str], separator: str = ", ") -> str:
    more = len(names) - _NAMED
    return separator.join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
