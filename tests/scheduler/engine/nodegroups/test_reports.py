"""The status of cluster-autoscaler in its ConfigMap, in the form of each version."""

from __future__ import annotations

from scheduler.engine.nodegroups.reports import AutoscalerStatus
from tests.scheduler.engine.nodegroups.objects import ask
from tests.scheduler.engine.whatif.clusters import a_node

YAML = """
time: 2026-01-01 00:00:00 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health: {status: Healthy, nodeCounts: {registered: {total: 3}}}
  scaleUp: {status: NoActivity}
  scaleDown: {status: CandidatesPresent, candidates: 1}
nodeGroups:
- name: MachineDeployment/capi/md-0
  health: {status: Healthy, cloudProviderTarget: 2, minSize: 1, maxSize: 5}
  scaleUp:
    status: Backoff
    backoffInfo: {errorCode: QuotaExceeded, errorMessage: no quota}
  scaleDown: {status: NoCandidates}
- name: eks-blue-1234
  health: {status: Unhealthy, minSize: 0, maxSize: 9}
"""


def test_conditions_and_sizes_are_read() -> None:
    status = AutoscalerStatus.parse(YAML)
    assert [(c["object"], c["type"], c["status"]) for c in status.conditions] == [
        ("cluster-autoscaler", "Health", "Healthy"),
        ("cluster-autoscaler", "ScaleUp", "NoActivity"),
        ("cluster-autoscaler", "ScaleDown", "CandidatesPresent"),
    ]
    group = status.groups["MachineDeployment/capi/md-0"]
    assert (group.min_size, group.max_size, group.target) == (1, 5, 2)
    assert [(c["type"], c["status"], c["reason"], c["message"]) for c in group.conditions] == [
        ("Health", "Healthy", "", ""),
        ("ScaleUp", "Backoff", "QuotaExceeded", "no quota"),
        ("ScaleDown", "NoCandidates", "", ""),
    ]


def test_a_group_without_the_same_name_here_keeps_its_conditions() -> None:
    config_map = {
        "kind": "ConfigMap",
        "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
        "data": {"status": YAML},
    }
    review = ask([a_node("n0"), config_map])
    assert ("node group eks-blue-1234", "Health", "Unhealthy") in [
        (c["object"], c["type"], c["status"]) for c in review["conditions"]
    ]


def test_the_text_of_earlier_versions_is_passed_on() -> None:
    text = "Cluster-autoscaler status at 2023-01-01:\nCluster-wide:\n  Health: Healthy (ready=3)\n"
    (condition,) = AutoscalerStatus.parse(text).conditions
    assert condition["message"] == text.strip()
    assert AutoscalerStatus.parse(": : broken").groups == {}
