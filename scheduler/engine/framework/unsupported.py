"""Rejection of pods that use a feature which is not built, so that the scheduler never ignores the feature.

Upstream has these features behind an alpha gate, and the API server drops the field unless the gate is on. The
DynamicResources plugin rejects resource claims.
"""

from __future__ import annotations

from herodotus_record.model import PluginVerdict, Reason
from scheduler.engine.framework.verdicts import unresolvable
from scheduler.engine.objects.pod import PodInfo

_GANG = PluginVerdict(
    "GangScheduling", unresolvable(Reason("not-built", {"feature": "gang scheduling", "plugin": "GangScheduling"}))
)


def find_unsupported_feature(pod: PodInfo) -> PluginVerdict | None:
    """Return a rejection of the pod if it belongs to a pod group, which this scheduler does not support; else None.

    A pod names its group in spec.schedulingGroup, in v1.35 in spec.workloadRef.
    """
    return _GANG if pod.pod.spec.scheduling_group or pod.pod.spec.workload_ref else None
