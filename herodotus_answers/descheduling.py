"""What the descheduler would do: the pods that it would evict by a policy, and where their successors land.

Owns: the types, with what each field discloses, and the sentence above them. Does not own: the descheduler's rules and
the landing (`scheduler.engine.descheduler`), masking, screens.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final, TypedDict

from herodotus_record.discloses import Discloses
from herodotus_record.units import pluralize

MOVES, RETURNS, STAYS_PENDING, ENDS = "Moves", "Returns", "StaysPending", "Ends"
REFUSED, UNKNOWN = "Refused", "Unknown"
POINTLESS: Final = (RETURNS, STAYS_PENDING)  # outcomes of evictions that help nobody
_NodeUtilization = TypedDict(
    "_NodeUtilization",
    {"class": Annotated[str, "Underutilized, Overutilized or Appropriate.", Discloses.NOTHING]},
)


class NodeUtilization(_NodeUtilization):
    """How a plugin for node utilization classes a node, by the requests on it."""

    node: Annotated[str, "Name of the node.", Discloses.NODES]
    percentages: Annotated[
        dict[str, float], "Requests in percent of what the node has, by resource.", Discloses.NOTHING
    ]


class DeschedulePlugin(TypedDict):
    """A plugin that a profile of the policy enables."""

    profile: Annotated[str, "Name of the profile.", Discloses.NOTHING]
    plugin: Annotated[str, "Name of the plugin.", Discloses.NOTHING]
    evaluated: Annotated[bool, "Whether Herodotus knows its rules; `notes` say why not.", Discloses.NOTHING]
    evicted: Annotated[int, "Number of pods that it evicts.", Discloses.NOTHING]
    refused: Annotated[int, "Number of its evictions that are refused.", Discloses.NOTHING]
    summary: Annotated[str, "Why it does nothing; may be empty.", Discloses.NOTHING]
    utilization: Annotated[
        list[NodeUtilization], "The nodes, for LowNodeUtilization and HighNodeUtilization.", Discloses.PARTS
    ]


class DescheduledPod(TypedDict):
    """A pod that a plugin evicts or tries to evict."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    owner: Annotated[str, "Owner of the pod as KIND/NAME; empty if it has none.", Discloses.THIS_POD]
    node: Annotated[str, "Node of the pod.", Discloses.NODES]
    profile: Annotated[str, "Name of the profile.", Discloses.NOTHING]
    plugin: Annotated[str, "Plugin that evicts it.", Discloses.NOTHING]
    reason: Annotated[str, "By which rule.", Discloses.THIS_POD]
    outcome: Annotated[
        str,
        "Moves, Returns (its successor gets the same node again), StaysPending, Ends (no controller replaces it),"
        " Refused, or Unknown (the time was over).",
        Discloses.NOTHING,
    ]
    refusal: Annotated[
        str, "Why the eviction is refused, in the API server's words or as a limit of the policy.", Discloses.THIS_POD
    ]
    budget: Annotated[str, "Name of the PodDisruptionBudget that refuses it; may be empty.", Discloses.THIS_POD]
    landsOn: Annotated[str, "Node on which its successor lands; empty for other outcomes.", Discloses.NODES]
    message: Annotated[str, "kube-scheduler's message if the successor stays pending.", Discloses.MESSAGE]
    runs: Annotated[
        int, "In how many of the runs it was evicted: runs differ in the order of equal pods.", Discloses.NOTHING
    ]


class NonEviction(TypedDict):
    """Why a plugin does not evict a pod."""

    profile: Annotated[str, "Name of the profile.", Discloses.NOTHING]
    plugin: Annotated[str, "Name of the plugin.", Discloses.NOTHING]
    reason: Annotated[str, "Why not.", Discloses.THIS_POD]


class EvictionVerdict(TypedDict):
    """A pod of the question."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    node: Annotated[str, "Node of the pod.", Discloses.NODES]
    runs: Annotated[int, "In how many of the runs it was evicted.", Discloses.NOTHING]
    reasons: Annotated[
        list[NonEviction], "Why the plugins do not evict it in the first run, in their order.", Discloses.PARTS
    ]


class DescheduleReview(TypedDict):
    """What a run of the descheduler would do now."""

    version: Annotated[str, "Version of the descheduler whose rules were followed.", Discloses.NOTHING]
    plugins: Annotated[list[DeschedulePlugin], "Plugins in the order in which they run.", Discloses.PARTS]
    evictions: Annotated[list[DescheduledPod], "Evictions of the first run, in order.", Discloses.PARTS]
    pods: Annotated[list[EvictionVerdict], "Pods of the question.", Discloses.PARTS]
    runs: Annotated[int, "Number of runs, each with another order of equal pods and nodes.", Discloses.NOTHING]
    others: Annotated[int, "Number of further pods that were evicted in some of the runs.", Discloses.NOTHING]
    seconds: Annotated[float, "Time that the answer took.", Discloses.NOTHING]
    endedBy: Annotated[
        str, "What ended the runs early: TimeOver, Interrupted (by the user), or empty.", Discloses.NOTHING
    ]


_OUTCOMES: Final = {
    MOVES: ("lands on another node", "land on other nodes"),
    RETURNS: ("comes back to its node", "come back to their nodes"),
    STAYS_PENDING: ("stays Pending", "stay Pending"),
    ENDS: ("is not replaced", "are not replaced"),
    UNKNOWN: ("was not followed", "were not followed"),
}


def format_deschedule_headline(review: DescheduleReview) -> str:
    """Return the answer in one sentence: of the pod of the question, or of all evictions."""
    if len(review["pods"]) == 1:
        return _describe_pod(review, review["pods"][0])
    counts = Counter(each["outcome"] for each in review["evictions"])
    refused = counts.pop(REFUSED, 0)
    evicted = counts.total()
    refusals = f"{pluralize(refused, 'eviction')} {'is' if refused == 1 else 'are'} refused"
    if not evicted:
        return f"No pod would be evicted; {refusals}." if refused else "No pod would be evicted."
    outcomes = [f"{counts[each]} {words[counts[each] > 1]}" for each, words in _OUTCOMES.items() if counts[each]]
    if len(outcomes) == 1:
        words = next(words for each, words in _OUTCOMES.items() if counts[each])
        outcomes = [words[0] if evicted == 1 else f"all {words[1]}"]
    more = f" {refusals}." if refused else ""
    return f"{pluralize(evicted, 'pod')} would be evicted: {', '.join(outcomes)}.{more}"


def _describe_pod(review: DescheduleReview, pod: EvictionVerdict) -> str:
    name, runs = f"{pod['namespace']}/{pod['name']}", review["runs"]
    own = [each for each in review["evictions"] if (each["namespace"], each["name"]) == (pod["namespace"], pod["name"])]
    evicted = next((each for each in own if each["outcome"] != REFUSED), None)
    sometimes = (
        f" (in {pod['runs']} of {runs} runs, which differ in the order of equal pods)" if 0 < pod["runs"] < runs else ""
    )
    if evicted is not None:
        ends = {
            MOVES: f"its successor lands on {evicted['landsOn'] or 'another node'}",
            RETURNS: f"its successor comes back to {evicted['node'] or 'its node'}",
            STAYS_PENDING: "its successor stays Pending",
            ENDS: "nothing replaces it",
            UNKNOWN: "where its successor lands is unknown",
        }[evicted["outcome"]]
        return f"{name} would be evicted by {evicted['plugin']}{sometimes}: {ends}."
    if own:
        return f"{name} would not be evicted: {own[0]['plugin']} tries it, and the eviction is refused."
    if sometimes:
        return f"{name} may be evicted{sometimes}."
    return f"{name} would not be evicted."
