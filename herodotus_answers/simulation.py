"""Declare the answer document `Simulation`: what a trace would have led to with one or more configurations.

Owns: its types, and the sentence above them. Does not own: the simulation and how its figures are measured
(`scheduler.offline.simulate`), screens. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers.declare import Document
from herodotus_record.model import API_VERSION
from herodotus_record.units import pluralize

KIND: Final = "Simulation"


class SimulatedResource(TypedDict):
    """A resource of all nodes, as shares from 0 to 1."""

    mean: Annotated[float, "Requested share of the allocatable amount of all nodes, as a mean over time."]
    peak: Annotated[float, "Largest requested share of the allocatable amount of all nodes."]
    largestFree: Annotated[
        float,
        "Largest free amount on one node, as a share of the largest allocatable amount of a node; a mean over time.",
    ]
    fragmentation: Annotated[
        float, "Share of the free amount that a random pod of the trace cannot use, as a mean over moments."
    ]


class SimulatedMoment(TypedDict):
    """The cluster at one moment of a run. Amounts are sums over all nodes, in base units."""

    atS: Annotated[float, "Seconds since the start of the trace."]
    nodes: Annotated[int, "Number of nodes."]
    nodesInUse: Annotated[int, "Number of nodes with at least one pod."]
    waiting: Annotated[int, "Number of pods in the scheduling queue."]
    removableNodes: Annotated[int, "Number of nodes whose pods fit on the others by their requests; a lower bound."]
    requested: Annotated[dict[str, int], "Requested amounts by resource."]
    allocatable: Annotated[dict[str, int], "Allocatable amounts by resource."]
    fragmentation: Annotated[
        dict[str, float], "Share of the free amount that a random pod of the trace cannot use, by resource."
    ]
    skew: Annotated[dict[str, float], "Skew of controllers' pods, by node label."]


class SimulatedRun(TypedDict):
    """The figures of one run. Means are over the time from the first to the last arrival; times are in seconds."""

    seed: Annotated[int, "Seed of the choice between equally good nodes."]
    otherNode: Annotated[
        int, "Number of pods whose last node differs from that in the first variant's run with the same seed."
    ]
    arrived: Annotated[int, "Number of arrivals, those of evicted pods that their controller makes anew included."]
    placed: Annotated[int, "Number of arrivals that got a node."]
    neverPlaced: Annotated[int, "Number of arrivals that got no node until the end of the run."]
    attempts: Annotated[int, "Number of scheduling cycles."]
    preempted: Annotated[int, "Number of pods that were evicted to make room."]
    waitedP50S: Annotated[float, "Median time from arrival to binding of the pods that got a node."]
    waitedP99S: Annotated[float, "99th percentile of that time."]
    mostWaiting: Annotated[int, "Largest number of pods in the scheduling queue at once."]
    nodesInUse: Annotated[float, "Number of nodes with at least one pod, as a mean over time."]
    mostNodesInUse: Annotated[int, "Largest number of nodes with at least one pod."]
    cost: Annotated[float | None, "Price of all nodes from the first to the last arrival; null without prices."]
    costInUse: Annotated[float | None, "The same for the nodes with at least one pod."]
    removableNodes: Annotated[float, "Number of nodes that could be removed, as a mean over moments."]
    skew: Annotated[
        dict[str, float],
        "By node label: pods of a controller in the domain with the most, less those in the domain with the fewest; a"
        " mean over controllers and moments.",
    ]
    resources: Annotated[dict[str, SimulatedResource], "Resources by name."]
    moments: Annotated[list[SimulatedMoment], "The cluster at moments that are spread evenly over the arrivals."]


class SimulatedVariant(TypedDict):
    """The runs of one configuration with the rules of one version."""

    name: Annotated[str, "Name of the variant on screens: the file of the configuration, and the version if several."]
    configuration: Annotated[str, "File of the configuration; empty for the default profile."]
    kubernetesVersion: Annotated[str, "Version of kube-scheduler whose rules decide, such as v1.36.2."]
    runs: Annotated[list[SimulatedRun], "One run for each seed."]


class SimulatedDifference(TypedDict):
    """A pod that does not have the same node with each variant, in the runs with the first seed."""

    pod: Annotated[str, "The pod as NAMESPACE/NAME."]
    atS: Annotated[float, "Seconds since the start of the trace at which the first of the variants gave it that node."]
    nodes: Annotated[list[str | None], "Its last node with each variant; null if it got none."]


class Simulation(Document):
    """What a trace of arrivals and ends of pods would have led to with other configurations, on virtual time."""

    kind: Literal["Simulation"]
    headline: Annotated[str, "How many arrivals each variant placed."]
    trace: Annotated[str, "File of the trace."]
    missing: Annotated[list[str], "Sentences on what the source of the trace does not know."]
    removedNodes: Annotated[str, "Pattern of the names of nodes that were left out; empty if none was."]
    variants: Annotated[list[SimulatedVariant], "The variants in the order of the question."]
    differences: Annotated[
        list[SimulatedDifference],
        "The first pods on other nodes, and then further ones that got no node with one of the variants.",
    ]


def build_simulation(
    trace: str,
    missing: Sequence[str],
    removed_nodes: str,
    variants: Sequence[SimulatedVariant],
    differences: Sequence[SimulatedDifference],
) -> Simulation:
    """Return the document of a simulation. Each variant has at least one run."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {},
        "headline": _format_headline(variants),
        "trace": trace,
        "missing": list(missing),
        "removedNodes": removed_nodes,
        "variants": list(variants),
        "differences": list(differences),
    }


def _format_headline(variants: Sequence[SimulatedVariant]) -> str:
    """Return how many arrivals each variant places, on average over its seeds."""
    seeds = len(variants[0]["runs"])
    of_each = ", ".join(f"{variant['name']} {_format_placed(variant['runs'])}" for variant in variants)
    over = f", mean of {pluralize(seeds, 'seed')}" if seeds > 1 else ""
    return f"Arrivals that got a node{over}: {of_each}."


def _format_placed(runs: Sequence[SimulatedRun]) -> str:
    placed, arrived = (sum(run[key] for run in runs) / len(runs) for key in ("placed", "arrived"))
    return f"{placed:.0f} of {arrived:.0f}" if len(runs) == 1 else f"{placed:.1f} of {arrived:.1f}"
