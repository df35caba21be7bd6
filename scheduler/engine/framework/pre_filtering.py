"""The outcome of PreFilter: a rejection of the pod as a whole, plugins to skip, and the nodes to evaluate.

Source: pkg/scheduler/framework/runtime/framework.go v1.36, RunPreFilterPlugins.
"""

from __future__ import annotations

from herodotus_record.model import Code, PluginVerdict, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import PreFilter
from scheduler.engine.framework.plugin_results import PluginError, join_reasons
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import Trace
from scheduler.engine.framework.verdicts import PreFilterResult, error, unresolvable
from scheduler.engine.objects.pod import PodInfo


class PreFilterOutcome:
    """The outcome of the PreFilter phase: a rejection of the pod, or the nodes to evaluate and the filters to skip.

    `names` holds the names of the nodes to evaluate, or None for all nodes. `skip` names the plugins whose Filter does
    not run. `restricted_by` names the plugins that limited the nodes.
    """

    def __init__(self) -> None:
        self.rejection: PluginVerdict | None = None
        self.skip: set[str] = set()
        self.names: frozenset[str] | None = None
        self.restricted_by: list[str] = []

    def add(self, plugin: str, result: PreFilterResult, trace: Trace) -> bool:
        """Add a plugin's PreFilter result and return whether the next plugin runs.

        UnschedulableAndUnresolvable, or no node left to evaluate, ends the phase. After Unschedulable the other plugins
        still run. Raises PluginError if the plugin failed.
        """
        code = result.verdict.code
        if code is Code.SKIP:
            self.skip.add(plugin)
        elif code is Code.SUCCESS:
            if result.node_names is not None:
                self.narrow(plugin, result.node_names)
        else:
            verdict = result.verdict
            failed = code not in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            if failed:
                verdict = error(f'running PreFilter plugin "{plugin}": {join_reasons(verdict)}')
            self.reject(PluginVerdict(plugin, verdict), trace)
            if failed:
                raise PluginError(join_reasons(verdict))
            if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return False
        if self.names is None or self.names:
            return True
        self.reject(self._disjoint(), trace)
        return False

    def reject(self, rejection: PluginVerdict, trace: Trace) -> None:
        """Store, in this outcome and in the trace, a rejection of the pod on all nodes."""
        self.rejection = rejection
        trace.pre_filters.append(rejection)

    def narrow(self, plugin: str, names: frozenset[str]) -> None:
        """Limit the nodes to evaluate to those that are in `names` and in the sets of all earlier plugins."""
        self.restricted_by.append(plugin)
        self.names = names if self.names is None else self.names & names

    def _disjoint(self) -> PluginVerdict:
        """Return the rejection of a pod for which the plugins' sets of nodes have no node in common."""
        plugins = sorted(self.restricted_by)
        if len(plugins) == 1:
            reason = Reason("narrowed-empty", {"plugin": plugins[0]})
        else:
            reason = Reason("narrowed-disjoint", {"plugins": f"[{' '.join(plugins)}]"})
        return PluginVerdict(plugins[-1], Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,)))


def run_plugin_pre_filter(plugin: PreFilter, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
    """Run a plugin's PreFilter; return its result, or an error if it raises or returns another type."""
    try:
        result = plugin.pre_filter(state, pod, nodes)
        return PreFilterResult(result.verdict, result.node_names)  # fails here if the result has another type
    except (Exception, SystemExit) as e:
        return PreFilterResult(error(str(e)))


_GANG = PluginVerdict(
    "GangScheduling", unresolvable(Reason("not-built", {"feature": "gang scheduling", "plugin": "GangScheduling"}))
)


def find_unsupported_feature(pod: PodInfo, *, is_pod_group_cycle: bool = False) -> PluginVerdict | None:
    """Return a rejection of the pod if it belongs to a pod group but is decided alone; else None.

    Only the scheduling cycle of its group decides such a pod. A pod names its group in spec.schedulingGroup, in v1.35
    in spec.workloadRef. The API server drops the field unless the gate GenericWorkload is on.
    """
    belongs = pod.pod_group is not None and not is_pod_group_cycle
    return _GANG if belongs or pod.pod.spec.workload_ref else None
