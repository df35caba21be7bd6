"""The outcome of PreFilter: a rejection of the pod as a whole, plugins to skip, and the nodes to evaluate.

Owns: which verdict ends the phase. Does not own: which plugins need not run (`equivalence_cache`).
Source: pkg/scheduler/framework/runtime/framework.go v1.36, RunPreFilterPlugins.
"""

from __future__ import annotations

from herodotus_record.model import Code, PluginVerdict, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.errors import PluginError
from scheduler.engine.framework.interface import PreFilter
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import Trace
from scheduler.engine.framework.verdicts import PreFilterResult, error
from scheduler.engine.objects.pod import PodInfo


class PreFilterOutcome:
    """The outcome of the PreFilter phase. `names` holds the nodes to evaluate, None for all."""

    def __init__(self) -> None:
        self.rejection: PluginVerdict | None = None
        self.skip: set[str] = set()
        self.names: frozenset[str] | None = None
        self.narrowed_by: list[str] = []

    def add(self, plugin: str, result: PreFilterResult, trace: Trace) -> bool:
        """Add a plugin's result and return whether the phase continues. Raises PluginError if the plugin failed.

        UnschedulableAndUnresolvable ends the phase; after Unschedulable the other plugins still run.
        """
        code = result.verdict.code
        if code is Code.SKIP:
            self.skip.add(plugin)
        elif code is Code.SUCCESS:
            if result.node_names is not None:
                self.narrow(plugin, result.node_names)
        else:
            self.reject(PluginVerdict(plugin, result.verdict), trace)
            if code not in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                raise PluginError(f'running PreFilter plugin "{plugin}": {join_reasons(result.verdict)}')
            if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return False
        if self.names is None or self.names:
            return True
        self.reject(self._disjoint(), trace)
        return False

    def reject(self, rejection: PluginVerdict, trace: Trace) -> None:
        """Record a rejection of the pod as a whole."""
        self.rejection = rejection
        trace.pre_filters.append(rejection)

    def narrow(self, plugin: str, names: frozenset[str]) -> None:
        """Limit the nodes to evaluate to those that this plugin names too."""
        self.narrowed_by.append(plugin)
        self.names = names if self.names is None else self.names & names

    def _disjoint(self) -> PluginVerdict:
        """Return the rejection for when the plugins have no node in common."""
        plugins = sorted(self.narrowed_by)
        if len(plugins) == 1:
            reason = Reason("narrowed-empty", {"plugin": plugins[0]})
        else:
            reason = Reason("narrowed-disjoint", {"plugins": f"[{' '.join(plugins)}]"})
        return PluginVerdict(plugins[-1], Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,)))


def run_plugin_pre_filter(plugin: PreFilter, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
    """Run a plugin's PreFilter; return its result, or an error if it raises."""
    try:
        result = plugin.pre_filter(state, pod, nodes)
        return PreFilterResult(result.verdict, result.node_names)  # fails here if the result has another type
    except (Exception, SystemExit) as e:
        return PreFilterResult(error(str(e)))
