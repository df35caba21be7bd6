"""Pods that ask for a feature which no plugin here has: refused, never placed as if they had not asked.

Owns: which fields of a pod those are, where the plugin itself is not in the tree (upstream has it behind an alpha gate,
and an API server drops the field unless the gate is on there). Does not own: claims, which DynamicResources refuses.
"""

from __future__ import annotations

from herodotus_record.model import PluginVerdict, Reason
from scheduler.framework.verdicts import unresolvable
from scheduler.objects.pod import PodInfo

_GANG = PluginVerdict(
    "GangScheduling", unresolvable(Reason("not-built", {"feature": "gang scheduling", "plugin": "GangScheduling"}))
)


def not_built(pod: PodInfo) -> PluginVerdict | None:
    """The refusal of a pod that belongs to a group (spec.schedulingGroup, in v1.35 spec.workloadRef); else None."""
    return _GANG if pod.pod.spec.scheduling_group or pod.pod.spec.workload_ref else None
