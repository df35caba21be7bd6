"""Plugins at the extension points after a node is chosen: Reserve, Permit, PreBind, Bind, PostBind.

The caller (`binding_cycle`) waits, and undoes what a failure leaves. Source:
pkg/scheduler/framework/runtime/framework.go v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from herodotus_record import klog
from herodotus_record.model import Code, PluginVerdict, Verdict
from scheduler.engine.framework.extenders import Extenders
from scheduler.engine.framework.interface import BindAtOnce
from scheduler.engine.framework.plugin_results import PluginError, call_plugin, join_reasons
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Deferred, Pending, Wait, error
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.rules.feature_gates import NOMINATION_FOR_EXPECTATION


class ReserveAndBindPlugins:
    """The part of a profile's framework that runs plugins and extenders from Reserve to PostBind."""

    def __init__(self, profile: Profile, extenders: Extenders) -> None:
        self.profile = profile
        self.extenders = extenders
        self._binds_at_once = all(isinstance(b, BindAtOnce) and b.binds_at_once for b in profile.bind)

    def run_reserve(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | None:
        """Run the Reserve plugins in order; return the first that fails, with its verdict, or None if all succeed.

        After a failure the caller must call `run_unreserve`.
        """
        return self._until_failure(self.profile.reserve, lambda p: p.reserve(state, pod, node))

    def run_unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo the reservations of all plugins in reverse order, even if one of them raises."""
        for plugin in reversed(self.profile.reserve):
            try:
                plugin.unreserve(state, pod, node)
            except (Exception, SystemExit) as e:
                klog.error(e, "Unreserve failed", plugin=plugin.name, pod=pod.full_name, node=node)

    def run_permit(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | dict[str, Wait]:
        """Run the Permit plugins in order; return the first plugin that rejects the pod, with its verdict.

        If none rejects it, returns the result of each plugin that returned Wait, by plugin name.
        """
        waits: dict[str, Wait] = {}
        for plugin in self.profile.permit:
            result = call_plugin(lambda plugin=plugin: plugin.permit(state, pod, node))  # type: ignore[misc]
            if isinstance(result, Wait):
                waits[plugin.name] = result
            elif result.code is Code.WAIT:
                return PluginVerdict(plugin.name, error("said Wait without a time-out"))
            elif result.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, result)
        return waits

    def run_pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool | PluginVerdict:
        """Return whether a PreBind plugin has work to do for this pod, or the error of a PreBindPreFlight that fails.

        Without the gate NominatedNodeNameForExpectation, a plugin whose PreBindPreFlight fails counts as having work.
        """
        asks, works = self.profile.rules.enabled(NOMINATION_FOR_EXPECTATION), False
        for plugin in self.profile.pre_bind:
            # Not isinstance with `PreBindPreFlight`: that takes 5 µs for each plugin and pod.
            pre_flight = getattr(plugin, "pre_bind_pre_flight", None)
            if pre_flight is None:
                works = True
                continue
            result = call_plugin(lambda run=pre_flight: run(state, pod, node))  # type: ignore[misc]
            if result.code is Code.ERROR and asks:
                message = f'running PreBindPreFlight "{plugin.name}": {join_reasons(result)}'
                return PluginVerdict("", error(message))
            works |= result.code is not Code.SKIP
        return works

    def run_pre_bind(
        self, state: CycleState, pod: PodInfo, node: str, first: int = 0
    ) -> PluginVerdict | tuple[int, Pending] | None:
        """Run the PreBind plugins from position `first` on, in order, until one fails or is pending.

        Returns None if all succeeded, the plugin that failed with its verdict, or the position and result of the plugin
        that returned Pending.
        """
        for number, plugin in enumerate(self.profile.pre_bind[first:], first):
            result = call_plugin(lambda plugin=plugin: plugin.pre_bind(state, pod, node))  # type: ignore[misc]
            if isinstance(result, Pending):
                return number, result
            if result.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, result)
        return None

    def binds_at_once(self, pod: PodInfo) -> bool:
        """Return whether `run_bind` never blocks for this pod, so that the scheduling loop's thread may call it."""
        return self._binds_at_once and not self.extenders.binds(pod)

    def run_bind(self, state: CycleState, pod: PodInfo, node: str) -> PluginVerdict | DeferredBind | None:
        """Bind the pod through an extender, or else through the first Bind plugin that does not return Skip.

        Returns the failure, None after success, or a `DeferredBind` that the caller must begin. Raises PluginError if
        all plugins return Skip.
        """
        by_extender = self.extenders.run_bind(pod, node)
        if by_extender.verdict.code is not Code.SKIP:
            return None if by_extender.verdict.code is Code.SUCCESS else by_extender
        for plugin in self.profile.bind:
            result = call_plugin(lambda plugin=plugin: plugin.bind(state, pod, node))  # type: ignore[misc]
            if isinstance(result, Deferred):
                return DeferredBind(plugin.name, result)
            if result.code is not Code.SKIP:
                return None if result.code is Code.SUCCESS else PluginVerdict(plugin.name, result)
        raise PluginError("no Bind plugin took the pod")

    def run_post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Run the PostBind plugins in order."""
        for plugin in self.profile.post_bind:
            plugin.post_bind(state, pod, node)

    @staticmethod
    def _until_failure(plugins: tuple[Any, ...], call: Callable[[Any], Verdict]) -> PluginVerdict | None:
        for plugin in plugins:
            verdict = call_plugin(lambda plugin=plugin: call(plugin))  # type: ignore[misc]
            if verdict.code is not Code.SUCCESS:
                return PluginVerdict(plugin.name, verdict)
        return None


@dataclass(frozen=True)
class DeferredBind:
    """A binding that a Bind plugin performs asynchronously, once `begin` is called."""

    plugin: str
    deferred: Deferred

    def begin(self, done: Callable[[PluginVerdict | None], None]) -> None:
        """Send the binding request; `done` is called later, with the failure or, after success, with None."""
        plugin = self.plugin
        self.deferred.begin(
            lambda verdict: done(None if verdict.code is Code.SUCCESS else PluginVerdict(plugin, verdict))
        )
