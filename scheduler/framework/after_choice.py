"""Runs a profile's plugins at the extension points after the choice: Reserve, Permit, PreBind, Bind, PostBind.

Owns: order, and which answer ends a point. Does not own: what a failure undoes, waiting, threads (`binding_cycle`,
`binding`). Source: pkg/scheduler/framework/runtime/framework.go v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from herodotus_record.model import Code, PluginVerdict, Verdict
from scheduler import klog
from scheduler.framework.answers import safely
from scheduler.framework.errors import PluginError
from scheduler.framework.extenders import Extenders
from scheduler.framework.interface import BindAtOnce, PreBindPreFlight
from scheduler.framework.profile import Profile
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Deferred, Pending, Wait, error
from scheduler.objects.pod import PodInfo


class AfterChoice:
    """One profile's plugins, ready to carry a choice out."""

    def __init__(self, profile: Profile, extenders: Extenders) -> None:
        self.profile = profile
        self.extenders = extenders
        self._binds_at_once = all(isinstance(b, BindAtOnce) and b.binds_at_once for b in profile.bind)

    def run_reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | None:
        """Every Reserve in order; the first that fails, or None. What was reserved stays: see `run_unreserve`."""
        return self._until_failure(self.profile.reserve, lambda p: p.reserve(state, pod, node))

    def run_unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo every reservation, in reverse order; one that raises does not keep the others from it."""
        for plugin in reversed(self.profile.reserve):
            try:
                plugin.unreserve(state, pod, node)
            except (Exception, SystemExit) as e:
                klog.error(e, "Unreserve failed", plugin=plugin.name, pod=pod.full_name, node=node)

    def run_permit(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | dict[str, float]:
        """Every Permit in order; the first that refuses, or how long each of those that ask to wait will wait."""
        waits: dict[str, float] = {}
        for plugin in self.profile.permit:
            said = safely(lambda plugin=plugin: plugin.permit(state, pod, node))  # type: ignore[misc]
            if isinstance(said, Wait):
                waits[plugin.name] = said.timeout_s
            elif said.code is Code.WAIT:
                return PluginVerdict(plugin.name, error("said Wait without a time-out"))
            elif said.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, said)
        return waits

    def run_pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Whether some PreBind will have something to do."""
        for plugin in self.profile.pre_bind:
            if not isinstance(plugin, PreBindPreFlight):
                return True
            said = safely(lambda plugin=plugin: plugin.pre_bind_pre_flight(state, pod, node))  # type: ignore[misc]
            if said.code is not Code.SKIP:
                return True
        return False

    def run_pre_bind(
        self, state: CycleState, pod: PodInfo, node: str, done: int = 0
    ) -> PluginVerdict | tuple[int, Pending] | None:
        """Every PreBind but the first `done`, in order, until one fails.

        None when all are through; where one is pending, its number and what it waits for.
        """
        for number, plugin in enumerate(self.profile.pre_bind[done:], done):
            said = safely(lambda plugin=plugin: plugin.pre_bind(state, pod, node))  # type: ignore[misc]
            if isinstance(said, Pending):
                return number, said
            if said.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, said)
        return None

    def binds_at_once(self, pod: PodInfo) -> bool:
        """Whether `run_bind` only sends a request, and so needs no thread to wait in."""
        return self._binds_at_once and not self.extenders.binds(pod)

    def run_bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | Deferring | None:
        """The extender that binds such pods, else Bind plugins until one does not Skip; the failure, or None."""
        by_extender = self.extenders.run_bind(pod, node)
        if by_extender.verdict.code is not Code.SKIP:
            return None if by_extender.verdict.code is Code.SUCCESS else by_extender
        for plugin in self.profile.bind:
            said = safely(lambda plugin=plugin: plugin.bind(state, pod, node))  # type: ignore[misc]
            if isinstance(said, Deferred):
                return Deferring(plugin.name, said)
            if said.code is not Code.SKIP:
                return None if said.code is Code.SUCCESS else PluginVerdict(plugin.name, said)
        raise PluginError("no Bind plugin took the pod")

    def run_post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Every PostBind."""
        for plugin in self.profile.post_bind:
            plugin.post_bind(state, pod, node)

    @staticmethod
    def _until_failure(plugins: tuple[Any, ...], call: Callable[[Any], Verdict]) -> PluginVerdict | None:
        for plugin in plugins:
            verdict = safely(lambda plugin=plugin: call(plugin))  # type: ignore[misc]
            if verdict.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, verdict)
        return None


@dataclass(frozen=True)
class Deferring:
    """A Bind plugin, and its request that nobody waits for."""

    plugin: str
    deferred: Deferred

    def begin(self, done: Callable[[PluginVerdict | None], None]) -> None:
        """Send it. `done` is told the failure, or None."""
        plugin = self.plugin
        self.deferred.begin(lambda said: done(None if said.code is Code.SUCCESS else PluginVerdict(plugin, said)))
