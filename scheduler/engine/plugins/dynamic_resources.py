"""DynamicResources: rejects pods with resource claims, which the scheduler cannot allocate yet.

For pods without claims the plugin behaves like kube-scheduler's: no verdict, no points, and its PostFilter message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ClusterEventWithHint
from scheduler.engine.framework.interface import DryRun, Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, DependsOn
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import (
    SKIPPED,
    PostFilterResult,
    PreFilterResult,
    Verdicts,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.engine.objects import times
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid

REFUSED = unresolvable(Reason("not-built", {"feature": "resource claims", "plugin": "DynamicResources"}))
NO_CLAIMS = unschedulable(Reason("no-claims"))


@dataclass(frozen=True)
class _Claims:
    """An empty state that PreFilter writes, by which PostFilter sees that PreFilter ran."""


class DynamicResourcesArgs(Args, frozen=True):
    """Arguments of DynamicResources: timeouts as Go durations, which are validated but have no effect yet."""

    filter_timeout: str = "10s"
    binding_timeout: str = "10m0s"

    def problems(self) -> Iterator[Problem]:
        yield from _too_short("filterTimeout", self.filter_timeout, 0, "must be zero or positive")
        yield from _too_short("bindingTimeout", self.binding_timeout, 1, "must be at least 1 second")


def _too_short(path: str, text: str, least_s: int, detail: str) -> Iterator[Problem]:
    try:
        if times.parse_seconds(text) < least_s:
            yield invalid(path, times.normalize(text), detail)
    except ValueError as e:
        yield invalid(path, text, str(e))


class DynamicResources(BasePlugin):
    """A plugin that skips pods without resource claims and rejects the others."""

    name = "DynamicResources"
    reads = frozenset()
    depends_on = DependsOn.NODE
    args_type = DynamicResourcesArgs
    fails_without: ClassVar = {"filter": ("preFilter", "not found")}
    idle_at = frozenset({"preEnqueue", "reserve", "preBind"})

    def events_to_register(self) -> Iterator[ClusterEventWithHint]:
        """Yield nothing: no event helps a pod with resource claims."""
        return iter(())

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Reject a pod with resource claims, and skip the filter for other pods."""
        state.write(_Claims())
        return PreFilterResult(REFUSED) if pod.pod.spec.resource_claims else SKIPPED

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Accept every node, since PreFilter skips or rejects every pod."""
        return Verdicts()

    def post_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8], dry_run: DryRun
    ) -> PostFilterResult:
        """Reject the pod with kube-scheduler's message, or with its error if this plugin's PreFilter did not run."""
        return PostFilterResult(NO_CLAIMS if state.find(_Claims) else error("not found"))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return 0 for every node, as no device is allocated."""
        return np.zeros(nodes.slots, np.int64)
