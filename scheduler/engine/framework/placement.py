"""Placements: the sets of nodes among which the scheduling cycle of a pod group chooses, and the runs of their plugins.

    PlacementGenerate  ->  placements  ->  the group is tried in each  ->  PlacementScore  ->  the best placement

Owns: these values, and calling the plugins. Does not own: trying a group in a placement
(`scheduler.backend.pod_groups.placing`), what a plugin generates or scores.

Source: pkg/scheduler/framework/runtime/framework.go v1.36 (RunPlacementGeneratePlugins, RunPlacementScorePlugins).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.verdicts import error, unschedulable
from scheduler.engine.objects.pod import PodGroupKey

NO_PLACEMENT: Final = unschedulable(Reason("no-placements"))


@dataclass(frozen=True, eq=False)
class GroupPlacement:
    """A named set of nodes: `mask` tells for each node slot whether the node is in it. The name may be empty."""

    name: str
    mask: NDArray[np.bool_]


@dataclass(frozen=True)
class ProposedPlacement:
    """A placement in which a group can be scheduled, with the number of its pods that would be placed."""

    placement: GroupPlacement
    placed: int


def generate_placements(profile: Profile, group: PodGroupKey, nodes: NodeColumns) -> Sequence[GroupPlacement] | Verdict:
    """Return the placements for a group, which is one placement of all nodes if the profile has no plugin for that.

    Returns Unschedulable if the plugin generates none, and an error if it fails.
    """
    every = GroupPlacement("", nodes.live.copy())
    if not profile.placement_generate:
        return (every,)
    try:
        placements = profile.placement_generate[0].generate_placements(group, every, nodes)
    except (Exception, SystemExit) as e:
        return error(str(e))
    if isinstance(placements, Verdict) and placements.code is not Code.SUCCESS:
        return placements
    return placements or NO_PLACEMENT


def score_placements(profile: Profile, group: PodGroupKey, proposed: Sequence[ProposedPlacement]) -> list[int]:
    """Return, for each placement, the sum of the plugins' normalized scores, multiplied by their weights."""
    totals = [0] * len(proposed)
    for plugin in profile.placement_score:
        raw = [plugin.score_placement(group, each) for each in proposed]
        weight = profile.placement_weights[plugin.name]
        totals = [total + weight * score for total, score in zip(totals, plugin.normalize_placements(raw), strict=True)]
    return totals
