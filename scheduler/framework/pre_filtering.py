"""What PreFilter comes to: a rejection of the pod as a whole, plugins to skip, the nodes that are left to look at.

Owns: the rules of which verdict ends the phase. Does not own: who need not be asked (`recall`).
Source: pkg/scheduler/framework/runtime/framework.go v1.36, RunPreFilterPlugins.
"""

from __future__ import annotations

from herodotus_record.model import Code, PluginVerdict, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.answers import message_of
from scheduler.framework.errors import PluginError
from scheduler.framework.interface import PreFilter
from scheduler.framework.state import CycleState
from scheduler.framework.trace import Trace
from scheduler.framework.verdicts import PreFilterResult, error
from scheduler.objects.pod import PodInfo


class PreFilterOutcome:
    """What the PreFilter phase came to: a rejection, plugins to skip, and the nodes that are left (None: all)."""

    def __init__(self) -> None:
        self.rejection: PluginVerdict | None = None
        self.skip: set[str] = set()
        self.names: frozenset[str] | None = None
        self.narrowed_by: list[str] = []

    def take(self, plugin: str, said: PreFilterResult, trace: Trace) -> bool:
        """What a plugin says; whether the phase goes on. PluginError where it fails.

        UnschedulableAndUnresolvable ends the phase, Unschedulable only decides it.
        """
        code = said.verdict.code
        if code is Code.SKIP:
            self.skip.add(plugin)
        elif code is Code.SUCCESS:
            if said.node_names is not None:
                self.narrow(plugin, said.node_names)
        else:
            self.reject(PluginVerdict(plugin, said.verdict), trace)
            if code not in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                raise PluginError(f'running PreFilter plugin "{plugin}": {message_of(said.verdict)}')
            if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return False
        if self.names is None or self.names:
            return True
        self.reject(self._disjoint(), trace)
        return False

    def reject(self, rejection: PluginVerdict, trace: Trace) -> None:
        """The pod as a whole is rejected."""
        self.rejection = rejection
        trace.pre_filters.append(rejection)

    def narrow(self, plugin: str, names: frozenset[str]) -> None:
        """Keep only the nodes that this plugin names too."""
        self.narrowed_by.append(plugin)
        self.names = names if self.names is None else self.names & names

    def _disjoint(self) -> PluginVerdict:
        """The rejection when no node is left."""
        plugins = sorted(self.narrowed_by)
        if len(plugins) == 1:
            reason = Reason("narrowed-empty", {"plugin": plugins[0]})
        else:
            reason = Reason("narrowed-disjoint", {"plugins": f"[{' '.join(plugins)}]"})
        return PluginVerdict(plugins[-1], Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,)))


def pre_filtered(plugin: PreFilter, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
    """What a plugin says; an error where it raises."""
    try:
        said = plugin.pre_filter(state, pod, nodes)
        return PreFilterResult(said.verdict, said.node_names)  # whatever it answered, it has both
    except (Exception, SystemExit) as e:
        return PreFilterResult(error(str(e)))
