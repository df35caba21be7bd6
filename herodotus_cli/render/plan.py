"""The screen of plans: the steps of each in order, with the command, where pods are placed, the cost, and the proof.

Owns: the layout. Does not own: the sentences about size and proof (`herodotus_answers.plans`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_answers.cluster_headlines import shorten_fit_error
from herodotus_cli.render.formatting import note_left_out
from herodotus_cli.render.screen_elements import Block, Cell, TextLine, build_table
from herodotus_record.units import pluralize

Json = dict[str, Any]
_INDENT = " " * 5
_NAMED = 3
_ROWS = 20
_TITLES = {
    "change": "CHANGE THE POD OR A NODE",
    "move": "MOVE PODS",
    "scale-down": "SCALE DOWN LOWER-PRIORITY WORKLOADS",
    "nodes": "NODES",
    "request": "LOWER A REQUEST",
    "mixed": "SEVERAL KINDS",
}
_FAILURES = {
    "DisplacedPending": "a displaced pod stays Pending in one order",
    "TargetPending": "the pods do not fit for every order and tie-break",
    "Preempts": "a pod would preempt in one order",
    "GoalMissed": "the goal is missed for some order or tie-break",
    "Forced": "too many nodes would have to be cordoned",
}


def build_screen(review: Json, headline: str, *, every_row: bool = False) -> list[list[Block]]:
    """Return the sections below the title: the sentence, then the plans by kind, one of each unless `every_row`."""
    good = review["verdict"] != "NoPlan"
    sections: list[list[Block]] = [[TextLine(headline, "good" if good else "bad")]]
    sections.append(_build_skews(review["spread"]))
    if review["drain"] is not None:
        sections += _build_drain(review["drain"], every_row=every_row)
    for kind in review["kinds"]:
        shown = kind["plans"] if every_row else kind["plans"][:1]
        for number, plan in enumerate(shown, 1):
            title = _TITLES[kind["kind"]] + (f" ({number})" if every_row and len(kind["plans"]) > 1 else "")
            sections.append(_build_plan(title, kind, plan))
        more = len(kind["plans"]) - len(shown)
        if more:
            sections[-1].append(TextLine(f"… {pluralize(more, 'other plan')} of this size (--all)", "dim"))
    nothing = [kind for kind in review["kinds"] if not kind["plans"]]
    if nothing:
        rows = [(_TITLES[kind["kind"]].lower(), _explain_nothing(kind)) for kind in nothing]
        sections.append([build_table(("NO PLAN", "REASON"), rows)])
    if review["kinds"] or review["drain"]:
        sections.append(
            [
                TextLine(
                    f"Simulated {pluralize(review['decided'], 'scheduling decision')} on a copy of the cluster.",
                    "dim",
                )
            ]
        )
    return [section for section in sections if section]


def _build_skews(skews: Sequence[Json]) -> list[Block]:
    """Return a table of a workload's constraints with the pods of each domain."""
    rows = [
        (
            each["topologyKey"],
            str(each["before"]),
            str(each["maxSkew"]),
            ", ".join(f"{domain}: {count}" for domain, count in each["domains"].items()),
        )
        for each in skews
    ]
    return [build_table(("CONSTRAINT", "SKEW", "MAX", "PODS"), rows, right=(1, 2))] if rows else []


def _build_drain(drain: Json, *, every_row: bool) -> list[list[Block]]:
    """Return the drains in order with their commands, and what keeps the other nodes."""
    from herodotus_answers.plans import list_drain_steps

    goes = {each["node"]: _describe_targets(each) for each in drain["nodes"]}
    steps: list[Block] = []
    for number, step in enumerate(list_drain_steps(drain), 1):  # type: ignore[arg-type]
        text = describe_step(step) + (goes[step["nodes"][0]] if step["kind"] == "Drain" else "")
        steps.append(build_table((), [(Cell(f"{number}.", "strong"), Cell(text))]))
        steps.append(TextLine(f"{_INDENT}{step['command']}", command=True))
    proof: list[Block] = []
    if drain["nodes"]:
        held = "Proven for every scheduling order and tie-break (by counting the nodes that fit)."
        if not drain["proven"]:
            runs = pluralize(drain["runs"], "simulation")
            held = f"Not proven: held in {runs} with random and adversarial orders and tie-breaks. Others may fail."
        proof.append(TextLine(held, "dim"))
    if drain["given"]:
        proof.append(TextLine(f"In the given order, without cordoning all nodes first: {drain['given']}.", "dim"))
    shown = drain["obstacles"] if every_row else drain["obstacles"][:_ROWS]
    rows = [(each["node"], each["pod"], shorten_fit_error(each["reason"])) for each in shown]
    kept: list[Block] = [build_table(("NOT DRAINED", "POD", "REASON"), rows)] if rows else []
    kept += note_left_out(len(drain["obstacles"]) - len(shown), "node")
    return [steps, proof, kept]


def _describe_targets(drained: Json) -> str:
    """Return how many pods leave a drained node, and where they went in the first simulation."""
    ways = sorted(drained["targets"].items(), key=lambda item: -item[1])
    goes = _join([f"{name} ({count})" for name, count in ways])
    return f": {pluralize(drained['pods'], 'pod')}" + (f", for example to {goes}" if goes else "")


def _build_plan(title: str, kind: Json, plan: Any) -> list[Block]:
    from herodotus_answers.plans import describe_bound, describe_changes

    blocks: list[Block] = [TextLine(f"{title}: {describe_changes(kind['kind'], plan)}", "strong")]
    for number, step in enumerate(plan["steps"], 1):
        blocks.append(build_table((), [(Cell(f"{number}.", "strong"), Cell(describe_step(step)))]))
        if step["command"]:
            blocks.append(TextLine(f"{_INDENT}{step['command']}", command=True))
    facts = [(label, text) for label, text in _list_facts(plan) if text]
    blocks.append(build_table((), [(Cell(label, "strong"), text) for label, text in facts]))
    bound = describe_bound(kind["bound"])
    if not plan["proven"]:
        blocks.append(
            TextLine(f"Checked: the pod passes all filters after it. Not every order was simulated. {bound}", "dim")
        )
        return blocks
    if plan["disruption"]["replaced"]:
        blocks.append(TextLine(f"Only the placement of these pods was simulated. {bound}", "dim"))
        return blocks
    how = pluralize(plan["states"], "state") + " simulated" if plan["states"] else "by counting the nodes that fit"
    blocks.append(TextLine(f"Proven for every scheduling order and tie-break ({how}). {bound}", "dim"))
    return blocks


def describe_step(step: Any) -> str:
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
            return f"scale {step['owner']} down by one, so that {pod} on {step['node']} goes: wait until it is gone"
        case "Drain":
            return f"drain {nodes}"
        case "AddNodes":
            return f"add {pluralize(len(step['nodes']), 'node')} like {step['node']}"
        case "Change":
            return str(step["text"])
        case "SetRequest":
            container, _, rest = step["request"].partition(":")
            resource, _, amount = rest.partition("=")
            lower = f"lower the {resource} request of container {container} to {amount}"
            if not step["command"]:
                return f"{lower} in the manifest, and create the pods from it"
            if " delete pod " in step["command"]:
                return f"{lower}; delete the waiting pods, which are made anew"
            replaced = (
                "it is deleted and made anew" if " replace --force " in step["command"] else "its pods are replaced"
            )
            return f"{lower}; {replaced}"
        case "Create":
            return "create the object"
    return str(step["kind"])


def _list_facts(plan: Json) -> list[tuple[str, str]]:
    lands: dict[str, int] = {}
    for target in plan["targets"]:
        where = _join(target["landsOn"], " or ")
        lands[where] = lands.get(where, 0) + 1
    only = plan["targets"][0] if len(plan["targets"]) == 1 else None
    what = [
        f"{only['namespace']}/{only['name']} on {where}" if only else f"{pluralize(count, 'pod')} on {where}"
        for where, count in lands.items()
    ]
    disruption = plan["disruption"]
    replaced, deleted = disruption["replaced"], disruption["pods"] - disruption["replaced"]
    parts = []
    if replaced:
        verb = "is" if replaced == 1 else "are"
        parts.append(f"its {pluralize(replaced, 'other pod')} {verb} replaced too, which is not simulated")
    parts += [pluralize(deleted, "pod") + " deleted"] if deleted else []
    parts += [f"allowed by PodDisruptionBudget {_join(disruption['budgets'])}"] if disruption["budgets"] else []
    parts += [pluralize(disruption["volumes"], "volume") + " detached"] if disruption["volumes"] else []
    lost = disruption["localData"]
    parts += [f"{pluralize(lost, 'pod')} with emptyDir data lost"] if lost else []
    parts += [pluralize(disruption["newNodes"], "new node")] if disruption["newNodes"] else []
    return [("PLACED", "; ".join(what)), ("COST", ", ".join(parts) or "no running pod is disturbed")]


def _explain_nothing(kind: Json) -> str:
    from herodotus_answers.plans import describe_bound

    bound, failures = kind["bound"], kind["failures"]
    proven = bound["kind"] != "NotProven"
    why = describe_bound(bound) if proven else f"not proven: {bound['reason']}"
    dropped = sorted(failures.items(), key=lambda item: -item[1])
    return why + "".join(f"; {count} of them: {_FAILURES.get(name, name)}" for name, count in dropped[:2])


def _join(names: Sequence[str], separator: str = ", ") -> str:
    more = len(names) - _NAMED
    return separator.join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
