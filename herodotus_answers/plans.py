"""Plans: the steps after which pods fit, a drain is through, nodes are empty or a workload is spread again.

Owns: their types, with what each field discloses, and the sentence above them. Does not own: the search
(`scheduler.engine.plans`), masking, screens.
"""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from herodotus_answers.node_results import pluralize
from herodotus_record.discloses import Discloses

FIT, DRAIN, CONSOLIDATE, SPREAD = "Fit", "Drain", "Consolidate", "Spread"
# Verdicts of a plan review.
DONE, PLANNED, NO_PLAN, PREEMPTING = "NothingToDo", "Planned", "NoPlan", "Preempting"
KINDS: Final = ("move", "evict", "nodes", "request")
MIXED: Final = "mixed"
MAX_CHANGES: Final = 10


class PlanStep(TypedDict):
    """A step of a plan. It is over when the pods that it displaces are Ready."""

    kind: Annotated[
        str,
        "Cordon, Uncordon, Move (the pod is deleted, and its controller makes it anew), ScaleDown (its workload has one"
        " pod less), AddNodes, SetRequest, Create or Drain.",
        Discloses.NOTHING,
    ]
    counted: Annotated[
        bool, "Whether it is a change of the plan; otherwise it only forces where pods land.", Discloses.NOTHING
    ]
    namespace: Annotated[str | None, "Namespace of the pod; null for a step about nodes.", Discloses.NAMESPACE]
    pod: Annotated[str, "Name of the pod; empty for a step about nodes.", Discloses.THIS_POD]
    owner: Annotated[str, "Owner of the pod as KIND/NAME.", Discloses.THIS_POD]
    request: Annotated[str, "New request as CONTAINER:RESOURCE=AMOUNT; empty for other steps.", Discloses.THIS_POD]
    node: Annotated[str, "Node that the pod leaves, or that is copied.", Discloses.NODES]
    nodes: Annotated[list[str], "Nodes that are cordoned, uncordoned, drained or added.", Discloses.NODES]
    landsOn: Annotated[
        list[str], "Nodes on which the pod's successor may land, whatever the scheduler draws.", Discloses.NODES
    ]
    command: Annotated[str, "Shell command of the step; empty if no command of kubectl does it.", Discloses.THIS_POD]


class PlacedTarget(TypedDict):
    """A pod that fits after the plan."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    landsOn: Annotated[list[str], "Nodes on which it may land.", Discloses.NODES]


class PlanDisruption(TypedDict):
    """What a plan disturbs."""

    pods: Annotated[int, "Number of pods that are deleted.", Discloses.NOTHING]
    budgets: Annotated[list[str], "PodDisruptionBudgets as NAMESPACE/NAME that allow these evictions.", Discloses.PODS]
    volumes: Annotated[int, "Number of persistent volumes that are detached.", Discloses.NOTHING]
    localData: Annotated[int, "Number of pods that lose the data of emptyDir volumes.", Discloses.NOTHING]
    newNodes: Annotated[int, "Number of nodes that are added.", Discloses.NOTHING]


class Plan(TypedDict):
    """A plan that was carried out on a copy of the cluster for every order and draw."""

    changes: Annotated[int, "Number of changes; steps that only force where pods land do not count.", Discloses.NOTHING]
    steps: Annotated[list[PlanStep], "The steps in order.", Discloses.PARTS]
    targets: Annotated[list[PlacedTarget], "Pods that fit afterwards.", Discloses.PARTS]
    disruption: Annotated[PlanDisruption, "What it disturbs.", Discloses.PARTS]
    states: Annotated[int, "Number of states of the copy that its proof went through.", Discloses.NOTHING]


class PlanBound(TypedDict):
    """What is known about plans of this kind with fewer changes."""

    kind: Annotated[
        str,
        "Exhaustive (all smaller sets of changes were tried, each pod moved at most once), Relaxation (fewer changes"
        " free too little on every node) or NotProven.",
        Discloses.NOTHING,
    ]
    changes: Annotated[int, "No plan has fewer changes than this, unless it is not proven.", Discloses.NOTHING]
    tried: Annotated[int, "Number of sets of changes.", Discloses.NOTHING]
    reason: Annotated[str, "Why it is not proven; empty otherwise.", Discloses.NOTHING]


class PlansOfKind(TypedDict):
    """The plans of one kind."""

    kind: Annotated[str, "move, evict, nodes, request, or mixed.", Discloses.NOTHING]
    plans: Annotated[list[Plan], "Plans with the fewest changes, the least disruptive first.", Discloses.PARTS]
    bound: Annotated[PlanBound, "What is known about plans with fewer changes.", Discloses.PARTS]
    failures: Annotated[
        dict[str, int],
        "Number of sequences that fit on paper and were dropped, by what went wrong in one of their runs.",
        Discloses.NOTHING,
    ]


class PlanReview(TypedDict):
    """The answer to a question for a plan."""

    goal: Annotated[str, "Fit, Drain, Consolidate or Spread.", Discloses.NOTHING]
    verdict: Annotated[
        str, "NothingToDo, Planned, NoPlan, or Preempting (the pods evict others by themselves).", Discloses.NOTHING
    ]
    pods: Annotated[int, "Number of pods that the plan is for.", Discloses.NOTHING]
    maxChanges: Annotated[int, "Number of changes that a plan may have.", Discloses.NOTHING]
    kinds: Annotated[list[PlansOfKind], "The plans by kind, those with the fewest changes first.", Discloses.PARTS]
    decided: Annotated[int, "Number of decisions of the engine.", Discloses.NOTHING]
    seconds: Annotated[float, "Time that the search took.", Discloses.NOTHING]
    timeLimitSeconds: Annotated[float, "Time that it had.", Discloses.NOTHING]


def format_plan_headline(review: PlanReview) -> str:
    """Return the answer in one sentence."""
    pods = "The pod" if review["pods"] == 1 else f"All {review['pods']} pods"
    fit = "fits" if review["pods"] == 1 else "fit"
    match review["verdict"]:
        case "NothingToDo":
            return f"{pods} {fit} as the cluster is: no plan is needed."
        case "Preempting":
            return f"{pods} {fit} by preemption: the scheduler evicts less important pods by itself."
        case "NoPlan":
            needs = "needs" if review["pods"] == 1 else "need"
            proven = all(of_kind["bound"]["kind"] != "NotProven" for of_kind in review["kinds"])
            most = pluralize(review["maxChanges"], "change")
            if proven:
                return f"No plan of at most {most} exists: {pods[:1].lower()}{pods[1:]} {needs} more."
            return f"No plan of at most {most} was found; that there is none is not proven."
    best = min((p for k in review["kinds"] for p in k["plans"]), key=lambda plan: plan["changes"])
    first = next(kind for kind in review["kinds"] if best in kind["plans"])
    proof = describe_bound(first["bound"])
    return f"{pods} {fit} after {describe_changes(first['kind'], best)}. {proof}"


def describe_changes(kind: str, plan: Plan) -> str:
    """Return what a plan changes, such as `2 pods are moved`."""
    counts = {step["kind"]: 0 for step in plan["steps"] if step["counted"]}
    for step in plan["steps"]:
        if step["counted"]:
            counts[step["kind"]] += len(step["nodes"]) or 1
    words = {
        "Move": ("pod is moved", "pods are moved"),
        "ScaleDown": ("pod is given up", "pods are given up"),
        "Uncordon": ("node is uncordoned", "nodes are uncordoned"),
        "AddNodes": ("node is added", "nodes are added"),
        "SetRequest": ("request is lowered", "requests are lowered"),
    }
    return ", ".join(f"{count} {words[each][count > 1]}" for each, count in counts.items()) or kind


def describe_bound(bound: PlanBound) -> str:
    """Return the proof that no smaller plan of the kind exists, or why there is none."""
    fewer = bound["changes"] - 1
    match bound["kind"]:
        case "Exhaustive" if bound["changes"] <= 1:
            return "No plan is smaller."
        case "Exhaustive":
            sets = f"{bound['tried']:,}"
            return f"No plan of this kind with {fewer} or fewer exists: all {sets} sets of changes were tried."
        case "Relaxation":
            return f"No plan of this kind with {fewer} or fewer exists: that frees too little on every node."
    return f"That no smaller plan exists is not proven: {bound['reason']}."
