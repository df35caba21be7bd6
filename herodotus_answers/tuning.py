"""Declare the answer document `SimulationTuning`: a configuration that was searched for an objective on a trace.

Owns: its types, and the sentence above them. Does not own: the search and how the gain is measured
(`scheduler.offline.simulate.tuning`), screens. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers.declare import Document

KIND: Final = "SimulationTuning"


class TuningPart(TypedDict):
    """A half of the trace, with the objective's figure by both configurations."""

    firstArrivalS: Annotated[float, "First arrival, in seconds since the start of the trace."]
    lastArrivalS: Annotated[float, "Last arrival, in seconds since the start of the trace."]
    arrivals: Annotated[int, "Number of pods that arrive, without those that are there when the part begins."]
    present: Annotated[float, "The figure by the present configuration."]
    tuned: Annotated[float, "The figure by the configuration that was found."]


class TuningGain(TypedDict):
    """By how much the figure is better on the half that the search did not see; negative if it is worse."""

    value: Annotated[float, "Gain on this half as it was."]
    low: Annotated[float, "Lower end of the interval, which has the gain with 95 % confidence."]
    high: Annotated[float, "Upper end of the interval."]
    share: Annotated[float | None, "Gain by the present configuration's figure; null if that is 0."]
    samples: Annotated[int, "Number of random samples of this half's arrivals that the interval follows from."]


class TunedSetting(TypedDict):
    """A setting that differs from the present configuration."""

    setting: Annotated[str, "Name of the setting, such as NodeResourcesFit.type or ImageLocality.weight."]
    present: Annotated[int | str, "Value in the present configuration; a weight of 0 means that the score is disabled."]
    tuned: Annotated[int | str, "Value that was found."]


class SimulationTuning(Document):
    """A scheduler configuration that was searched on one half of a trace, and its gain on the other half."""

    kind: Literal["SimulationTuning"]
    headline: Annotated[str, "The gain on the unseen half, or that there is none."]
    trace: Annotated[str, "File of the trace."]
    missing: Annotated[list[str], "Sentences on what the source of the trace does not know."]
    removedNodes: Annotated[str, "Pattern of the names of nodes that were left out; empty if none was."]
    configuration: Annotated[str, "File of the present configuration; empty for the default profile."]
    kubernetesVersion: Annotated[str, "Version of kube-scheduler whose rules decide, such as v1.36.2."]
    figure: Annotated[str, "The figure of the objective."]
    direction: Annotated[Literal["minimize", "maximize"], "What the search did with the figure."]
    limits: Annotated[list[str], "Limits that the configuration keeps on both halves, such as waitedP99S<=60."]
    brokenLimits: Annotated[list[str], "Limits that it breaks on the unseen half."]
    seed: Annotated[int, "Seed of the search, and first seed of the choice between equally good nodes."]
    seeds: Annotated[int, "Number of runs of each configuration in the search."]
    tried: Annotated[int, "Number of configurations that were tried."]
    isComplete: Annotated[bool, "Whether the search ended by itself, and not by its time limit."]
    training: Annotated[TuningPart, "The half that the search saw: means over its seeds."]
    check: Annotated[TuningPart | None, "The half that it did not see; null if no other configuration was better."]
    gain: Annotated[TuningGain | None, "Gain on the unseen half; null if no other configuration was better."]
    hasGain: Annotated[bool, "Whether the whole interval is a gain and no limit is broken on the unseen half."]
    changes: Annotated[list[TunedSetting], "What differs from the present configuration; empty without a gain."]
    tunedConfiguration: Annotated[str, "The KubeSchedulerConfiguration that was found, as YAML; empty without a gain."]


def format_headline(figure: str, check: TuningPart | None, gain: TuningGain | None, broken: Sequence[str]) -> str:
    """Return the gain with its interval, or why there is none. `broken` are limits."""
    if check is None or gain is None:
        return f"No configuration that was tried is better for {figure}: keep the present one."
    if broken:
        return f"What was found breaks {', '.join(broken)} on the unseen half: keep the present configuration."
    interval = f"{gain['value']:.4g} ({gain['low']:.4g} to {gain['high']:.4g})"
    if gain["low"] <= 0:
        return f"No gain for {figure} on the unseen half, {interval}: keep the present configuration."
    share = "" if gain["share"] is None else f", {100 * gain['share']:.1f} %"
    instead = f"{figure} {check['tuned']:.4g} instead of {check['present']:.4g}"
    return f"{instead} on the unseen half: a gain of {interval}{share}."
