"""Plans: the steps after which pods fit, a drain is through, nodes are empty or a workload is spread again.

Owns: their types, with what each field discloses, and the sentence above them. Does not own: the search
(`scheduler.engine.plans`), masking, screens.
"""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from herodotus_record.discloses import Discloses
from herodotus_record.units import describe_all, pluralize

FIT, RESIZE, DRAIN, CONSOLIDATE, SPREAD = "Fit", "Resize", "Drain", "Consolidate", "Spread"
# Verdicts of a plan review.
NOTHING_TO_DO, PLANNED, NO_PLAN, PREEMPTING = "NothingToDo", "Planned", "NoPlan", "Preempting"
CHANGE: Final = "change"  # of the pod or of a node: a fix that the answer about the pod names too
KINDS: Final = (CHANGE, "move", "scale-down", "nodes", "request")
MIXED: Final = "mixed"
NOT_PROVEN: Final = "NotProven"
TIME_OVER, INTERRUPTED = "TimeOver", "Interrupted"
MAX_CHANGES: Final = 10
MAX_TIME_S: Final = 240  # of a search for plans, or the runs of a descheduler: a review of the cluster has 300 s


class PlanStep(TypedDict):
    """A step of a plan. It is over when the pods that it displaces are Ready."""

    kind: Annotated[
        str,
        "Cordon, Uncordon, Move (the pod is deleted, and its controller recreates it), ScaleDown (its workload has one"
        " pod less), AddNodes, SetRequest, Change (of the pod or of a node, see `text`), Create or Drain.",
        Discloses.NOTHING,
    ]
    counted: Annotated[
        bool, "Whether it is a change of the plan; otherwise it only forces where pods land.", Discloses.NOTHING
    ]
    namespace: Annotated[str | None, "Namespace of the pod; null for a step about nodes.", Discloses.NAMESPACE]
    pod: Annotated[str, "Name of the pod; empty for a step about nodes.", Discloses.THIS_POD]
    owner: Annotated[str, "Owner of the pod as KIND/NAME.", Discloses.THIS_POD]
    request: Annotated[str, "New request as CONTAINER:RESOURCE=AMOUNT; empty for other steps.", Discloses.THIS_POD]
    text: Annotated[str, "The change as a sentence; empty for other steps than Change.", Discloses.THIS_POD]
    node: Annotated[str, "Node that the pod leaves, or that is copied.", Discloses.NODES]
    nodes: Annotated[list[str], "Nodes that are cordoned, uncordoned, drained or added.", Discloses.NODES]
    landsOn: Annotated[
        list[str], "Nodes on which the pod's successor may be placed, by whatever tie-break.", Discloses.NODES
    ]
    command: Annotated[str, "Shell command of the step; empty if no command of kubectl does it.", Discloses.THIS_POD]


class PlacedTarget(TypedDict):
    """A pod that fits after the plan."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    landsOn: Annotated[list[str], "Nodes on which it may land.", Discloses.NODES]


class PlanDisruption(TypedDict):
    """What a plan disturbs."""

    pods: Annotated[
        int,
        "Number of pods that are deleted. For a lower request or a change: of other pods, replaced or evicted.",
        Discloses.NOTHING,
    ]
    replaced: Annotated[int, "Number of these that the workload's changed template replaces.", Discloses.NOTHING]
    budgets: Annotated[list[str], "PodDisruptionBudgets as NAMESPACE/NAME that allow these evictions.", Discloses.PODS]
    volumes: Annotated[int, "Number of persistent volumes that are detached.", Discloses.NOTHING]
    localData: Annotated[int, "Number of pods that lose the data of emptyDir volumes.", Discloses.NOTHING]
    newNodes: Annotated[int, "Number of nodes that are added.", Discloses.NOTHING]


class Plan(TypedDict):
    """A plan that was proven on a copy of the cluster for every scheduling order and tie-break, or a checked fix."""

    changes: Annotated[int, "Number of changes; steps that only force where pods land do not count.", Discloses.NOTHING]
    steps: Annotated[list[PlanStep], "The steps in order.", Discloses.PARTS]
    targets: Annotated[list[PlacedTarget], "Pods that fit afterwards.", Discloses.PARTS]
    disruption: Annotated[PlanDisruption, "What it disturbs.", Discloses.PARTS]
    proven: Annotated[
        bool,
        "Whether it was proven; otherwise it is a change after which the pod passes all filters on the node.",
        Discloses.NOTHING,
    ]
    states: Annotated[
        int,
        "Number of states of the copy that its proof went through; 0 if it is proven by counting: each displaced pod"
        " always has more nodes than others can take.",
        Discloses.NOTHING,
    ]


class PlanBound(TypedDict):
    """What is known about plans of this kind with fewer changes."""

    kind: Annotated[
        str,
        "Exhaustive (all smaller sets of changes were tried, each pod moved at most once), Relaxation (fewer changes"
        " cannot be enough, whatever they are) or NotProven.",
        Discloses.NOTHING,
    ]
    changes: Annotated[
        int | None,
        "No plan has fewer changes than this, unless it is not proven; null if no number of changes is enough.",
        Discloses.NOTHING,
    ]
    tried: Annotated[int, "Number of sets of changes.", Discloses.NOTHING]
    reason: Annotated[
        str, "Why it is not proven, or why fewer changes are not enough; may be empty.", Discloses.NOTHING
    ]


class PlansOfKind(TypedDict):
    """The plans of one kind."""

    kind: Annotated[str, "change, move, scale-down, nodes, request, or mixed.", Discloses.NOTHING]
    plans: Annotated[list[Plan], "Plans with the fewest changes, the least disruptive first.", Discloses.PARTS]
    bound: Annotated[PlanBound, "What is known about plans with fewer changes.", Discloses.PARTS]
    failures: Annotated[
        dict[str, int],
        "Number of step sequences that fit by requests and were dropped, by what went wrong in a simulation.",
        Discloses.NOTHING,
    ]


class PlannedDrain(TypedDict):
    """A node that is drained, and where its pods went in the first run."""

    node: Annotated[str, "Name of the node.", Discloses.NODES]
    pods: Annotated[int, "Number of pods that leave it.", Discloses.NOTHING]
    targets: Annotated[dict[str, int], "Number of these pods by the node that took them.", Discloses.NODES]
    command: Annotated[str, "Shell command of the drain.", Discloses.NODES]


class DrainObstacle(TypedDict):
    """A pod that keeps a node from being drained, or that finds no other node."""

    node: Annotated[str, "Node that is drained.", Discloses.NODES]
    pod: Annotated[str, "Pod as NAMESPACE/NAME.", Discloses.NAMESPACE]
    reason: Annotated[str, "Why, in the words of kubectl, the API server or kube-scheduler.", Discloses.MESSAGE]


class DrainPlan(TypedDict):
    """The order in which nodes are drained, or the set of nodes that a consolidation empties."""

    nodes: Annotated[list[PlannedDrain], "The nodes in the order of their drains.", Discloses.PARTS]
    cordon: Annotated[str, "Shell command before the first drain; empty if there is none.", Discloses.NODES]
    rolling: Annotated[
        bool, "Whether each node takes pods again before the next is drained, as in an upgrade.", Discloses.NOTHING
    ]
    obstacles: Annotated[list[DrainObstacle], "What keeps the other nodes, or the last order tried.", Discloses.PARTS]
    orders: Annotated[int, "Number of orders, or of sets of nodes, that were tried.", Discloses.NOTHING]
    proven: Annotated[
        bool,
        "Whether each displaced pod is proven to find a node, in every scheduling order and with every tie-break.",
        Discloses.NOTHING,
    ]
    runs: Annotated[
        int,
        "Number of simulations in which the plan held, about half of them with adversarial draws: other pods take the"
        " nodes of pods with few alternatives.",
        Discloses.NOTHING,
    ]
    given: Annotated[
        str,
        "What goes wrong in the order of the question, if the nodes are not cordoned first; may be empty.",
        Discloses.NOTHING,
    ]
    greedy: Annotated[
        int | None,
        "Number of nodes that `consolidate` empties; null for drains, and where the time was over.",
        Discloses.NOTHING,
    ]
    bound: Annotated[int | None, "No more nodes than this can be emptied; null for drains.", Discloses.NOTHING]


class SpreadSkew(TypedDict):
    """A topology spread constraint of a workload, and its skew before the plan."""

    topologyKey: Annotated[str, "Label of the nodes.", Discloses.NOTHING]
    maxSkew: Annotated[int, "Largest difference that the constraint wants.", Discloses.NOTHING]
    before: Annotated[int, "Difference between the fullest and the emptiest domain now.", Discloses.NOTHING]
    domains: Annotated[dict[str, int], "Number of pods by domain now.", Discloses.NODES]


class PlanReview(TypedDict):
    """The answer to a request for a plan."""

    goal: Annotated[str, "Fit, Resize (a deferred one fits), Drain, Consolidate or Spread.", Discloses.NOTHING]
    verdict: Annotated[
        str, "NothingToDo, Planned, NoPlan, or Preempting (the pods evict others by themselves).", Discloses.NOTHING
    ]
    pods: Annotated[int, "Number of pods that the plan is for.", Discloses.NOTHING]
    maxChanges: Annotated[int, "Number of changes that a plan may have.", Discloses.NOTHING]
    kinds: Annotated[list[PlansOfKind], "The plans by kind, those with the fewest changes first.", Discloses.PARTS]
    drain: Annotated[DrainPlan | None, "Order of drains; null for other goals.", Discloses.PARTS]
    spread: Annotated[list[SpreadSkew], "Constraints of the workload that is spread again.", Discloses.PARTS]
    decided: Annotated[int, "Number of decisions of the engine.", Discloses.NOTHING]
    seconds: Annotated[float, "Time that the search took.", Discloses.NOTHING]
    timeLimitSeconds: Annotated[float, "Time that it had.", Discloses.NOTHING]
    endedBy: Annotated[
        str,
        "What ended the search before everything was tried: TimeOver, Interrupted (by the user), or empty.",
        Discloses.NOTHING,
    ]


def list_drain_steps(drain: DrainPlan) -> list[PlanStep]:
    """Return the drains as steps with their commands: the cordon, each drain, and with `rolling` each uncordon."""
    steps = []
    if drain["cordon"]:
        steps.append(_make_node_step("Cordon", [each["node"] for each in drain["nodes"]], drain["cordon"]))
    for each in drain["nodes"]:
        steps.append(_make_node_step("Drain", [each["node"]], each["command"]))
        if drain["rolling"]:
            steps.append(_make_node_step("Uncordon", [each["node"]], f"kubectl uncordon {each['node']}"))
    return steps


def _make_node_step(kind: str, nodes: list[str], command: str) -> PlanStep:
    return {
        "kind": kind,
        "counted": kind == "Drain",
        "namespace": None,
        "pod": "",
        "owner": "",
        "request": "",
        "text": "",
        "node": "",
        "nodes": nodes,
        "landsOn": [],
        "command": command,
    }


def format_plan_headline(review: PlanReview) -> str:
    """Return the answer in one sentence."""
    if review["goal"] == DRAIN and review["drain"] is not None:
        return _describe_drain(review, review["drain"])
    if review["goal"] == CONSOLIDATE and review["drain"] is not None:
        return _describe_consolidation(review, review["drain"])
    if review["goal"] == SPREAD:
        subject, verb, present = "The workload", "is spread as it should be", "is spread as it should be"
    elif review["goal"] == RESIZE:
        subject, verb, present = "The pod's resize", "fits on its node", "fits on its node now"
    else:
        one = review["pods"] == 1
        subject, verb = ("The pod", "fits") if one else (describe_all(review["pods"], "pod"), "fit")
        present = f"{verb} as the cluster is"
    match review["verdict"]:
        case "NothingToDo":
            return f"{subject} {present}: no plan is needed."
        case "Preempting":
            return f"{subject} {verb} by preemption: the scheduler evicts less important pods by itself."
        case "NoPlan":
            most = pluralize(review["maxChanges"], "change")
            searched = [of_kind["kind"] for of_kind in review["kinds"] if of_kind["kind"] != MIXED]
            if not {*KINDS} <= {*searched}:
                most += f" of the kind{'s' if len(searched) > 1 else ''} {', '.join(searched)}"
            if all(of_kind["bound"]["kind"] != NOT_PROVEN for of_kind in review["kinds"]):
                return f"No plan of at most {most} exists."
            return f"No plan of at most {most} was found, but one may exist."
    first = review["kinds"][0]
    after = describe_changes(first["kind"], first["plans"][0])
    return f"{subject} {verb} after {after}. {describe_bound(first['bound'])}"


def _describe_drain(review: PlanReview, drain: DrainPlan) -> str:
    nodes = pluralize(len(drain["nodes"]), "node")
    if review["verdict"] == NO_PLAN:
        early = {TIME_OVER: " in the time", INTERRUPTED: " until the search was interrupted"}.get(review["endedBy"], "")
        return (
            f"No order in which all nodes can be drained was found{early}: {pluralize(drain['orders'], 'order')} tried."
        )
    held = "budgets hold and no pod stays Pending, in every scheduling order and with every tie-break"
    if not drain["proven"]:
        held = f"budgets held and no pod stayed Pending in {pluralize(drain['runs'], 'simulation')}, which is no proof"
    return f"{nodes} can be drained in this order: {held}."


def _describe_consolidation(review: PlanReview, drain: DrainPlan) -> str:
    nodes = pluralize(len(drain["nodes"]), "node")
    greedy, bound = drain["greedy"], drain["bound"]
    if not drain["nodes"]:
        if review["endedBy"]:
            when = "in the time" if review["endedBy"] == TIME_OVER else "until the search was interrupted"
            return f"No node that can be emptied was found {when}; no more than {bound} could be."
        return f"No node can be emptied; no more than {bound} could be."
    alone = "" if greedy is None else f" (`consolidate` alone empties {greedy})"
    proof = "no larger set exists" if len(drain["nodes"]) == bound else f"no set of more than {bound} exists"
    return f"{nodes} can be emptied{alone}; {proof}."


def describe_changes(kind: str, plan: Plan) -> str:
    """Return what a plan changes, such as `2 pods are moved`."""
    if kind == CHANGE:
        texts = list(dict.fromkeys(step["text"] for step in plan["steps"] if step["text"]))
        return pluralize(plan["changes"], "change") + (f" ({texts[0]})" if texts else "")
    counts = {step["kind"]: 0 for step in plan["steps"] if step["counted"]}
    for step in plan["steps"]:
        if step["counted"]:
            counts[step["kind"]] += len(step["nodes"]) or 1
    words = {
        "Move": ("pod is moved", "pods are moved"),
        "ScaleDown": ("workload is scaled down", "workloads are scaled down"),
        "Uncordon": ("node is uncordoned", "nodes are uncordoned"),
        "AddNodes": ("node is added", "nodes are added"),
        "SetRequest": ("request is lowered", "requests are lowered"),
    }
    return ", ".join(f"{count} {words[each][count > 1]}" for each, count in counts.items()) or kind


def describe_bound(bound: PlanBound) -> str:
    """Return the proof that no smaller plan of the kind exists, or why there is none."""
    if bound["changes"] is None:
        return f"No plan of this kind exists: {bound['reason']}."
    fewer = bound["changes"] - 1
    match bound["kind"]:
        case "Exhaustive" if bound["changes"] <= 1:
            return "No plan is smaller."
        case "Exhaustive":
            why = (
                f"all {bound['tried']:,} sets of changes were tried"
                if bound["tried"] > 1
                else "there is nothing to change"
            )
            return f"No plan of this kind with at most {pluralize(fewer, 'change')} exists: {why}."
        case "Relaxation":
            most = pluralize(fewer, "change")
            return f"No plan of this kind with at most {most} exists: {bound['reason']}."
    return f"That no smaller plan exists is not proven: {bound['reason']}."
