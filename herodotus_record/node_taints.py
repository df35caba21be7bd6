"""Taints that a component sets and removes by itself: no pod should tolerate them to get a node.

Each states what a node lacks, or that it starts or goes. What helps is that the component does its part.

Source: k8s.io/api core/v1 well_known_taints, cluster-autoscaler utils/taints, Karpenter's v1 taints, and the documents
of Cilium, the AWS and GCP storage drivers and the node readiness controller.
"""

from __future__ import annotations

from typing import Final

_AGENT: Final = "wait until the agent that removes the taint {key} runs on {node}"
_AUTOSCALER: Final = "wait for another node: an autoscaler removes {node} ({key})"
# How a key begins, and what to do about it; the first that matches counts. Filled with the key and the node.
_REMEDIES: Final = (
    ("node.kubernetes.io/unschedulable", "uncordon {node}"),
    ("node.kubernetes.io/not-ready", "mend {node}: it is not ready ({key})"),
    ("node.kubernetes.io/unreachable", "mend {node}: its kubelet does not report ({key})"),
    ("node.kubernetes.io/memory-pressure", "free memory on {node} ({key})"),
    ("node.kubernetes.io/disk-pressure", "free disk space on {node} ({key})"),
    ("node.kubernetes.io/pid-pressure", "end processes on {node} ({key})"),
    ("node.kubernetes.io/network-unavailable", "see the network plugin of {node} ({key})"),
    ("node.kubernetes.io/", "mend {node}: {key}"),
    (
        "node.cloudprovider.kubernetes.io/uninitialized",
        "see whether the cloud-controller-manager runs, which initializes {node} ({key})",
    ),
    ("node.cloudprovider.kubernetes.io/", "see {node} at the cloud provider ({key})"),
    ("ToBeDeletedByClusterAutoscaler", _AUTOSCALER),
    ("DeletionCandidateOfClusterAutoscaler", _AUTOSCALER),
    ("karpenter.sh/disrupted", _AUTOSCALER),
    ("karpenter.sh/disruption", _AUTOSCALER),
    ("cloud.google.com/impending-node-termination", "wait for another node: {node} is about to end ({key})"),
    ("NodeWithImpairedVolumes", "mend the volumes of {node} ({key})"),
    ("karpenter.sh/unregistered", "wait until {node} has joined the cluster ({key})"),
    ("ignore-taint.cluster-autoscaler.kubernetes.io/", _AGENT),
    ("startup-taint.cluster-autoscaler.kubernetes.io/", _AGENT),
    ("status-taint.cluster-autoscaler.kubernetes.io/", _AGENT),
    ("readiness.k8s.io/", _AGENT),
)
_AGENT_SUFFIXES: Final = ("/agent-not-ready", "/not-ready", "/cni-not-ready", "/startup")


def find_taint_remedy(key: str) -> str | None:
    """Return what to do about a taint that its component removes, as a template of `key` and `node`, or None."""
    for beginning, remedy in _REMEDIES:
        if key.startswith(beginning):
            return remedy
    return _AGENT if key.endswith(_AGENT_SUFFIXES) else None
