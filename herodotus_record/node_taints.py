"""Taints that state a node's condition, start, maintenance or removal, or reserve it, and what to do about each.

Owns: the one declaration of taints that no pod should be made to tolerate, and the form of a toleration. Does not own:
which nodes have them, the check of a suggestion (`scheduler.engine.suggestions`), sentences around an action
(`herodotus_answers`).

Operators name taints as they like. Two kinds are known by their words: those that speak of maintenance or removal, and
those that name a device of the node, such as nvidia.com/gpu or sku=gpu, which keep it for pods that request devices.

Sources: k8s.io/api/core/v1/well_known_taints.go, k8s.io/cloud-provider/api, cluster-autoscaler's utils/taints,
Karpenter's pkg/apis/v1/taints.go, and the documentation of the agents that remove a taint once they are ready.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final


class TaintKind(Enum):
    """What a declared taint says about its node."""

    CLEARS = auto()  # the node is starting or in trouble; whoever set the taint removes it when that is over
    MAINTAINED = auto()  # an operator works on the node, and removes the taint afterwards, as one uncordons a node
    LEAVES = auto()  # the node is about to be removed or replaced
    RESERVED = auto()  # the node is for other pods, such as those of the control plane, or of its architecture
    FOR_DEVICES = auto()  # the node is for pods that request its devices


@dataclass(frozen=True)
class NodeTaint:
    """A declared taint. `key` is its key, in which `*` stands for any characters; "" if words declare it.

    `action` is a sentence in the imperative that says what to do instead of tolerating the taint, with {node}.
    """

    key: str
    kind: TaintKind
    action: str

    def matches(self, key: str) -> bool:
        """Return whether `key` is a key of this taint, whose own key may contain `*`."""
        return fnmatchcase(key, self.key)


_CLEARS, _LEAVES, _RESERVED = TaintKind.CLEARS, TaintKind.LEAVES, TaintKind.RESERVED
_READY: Final = "wait until {agent} is ready on {{node}}, or repair it; if it is ready, restart its pod there"
_AGENT: Final = _READY.format(agent="the agent that removes this taint")
_REMOVED: Final = "wait for another node: {node} is being removed"
# Managed clusters set these, so that no pod gets a node that its image is not built for.
_BUILT_FOR: Final = "use {{node}} only with an image that is built for its {what}: select that, and tolerate the taint"
_OTHER_SYSTEM: Final = _BUILT_FOR.format(what="operating system")
_OTHER_ARCHITECTURE: Final = _BUILT_FOR.format(what="architecture")

# The first declaration that matches a key counts.
NODE_TAINTS: Final[tuple[NodeTaint, ...]] = (
    NodeTaint(
        "node.cloudprovider.kubernetes.io/uninitialized",
        _CLEARS,
        "let the cloud-controller-manager initialize {node}: it must run and know the node",
    ),
    NodeTaint("node.cloudprovider.kubernetes.io/shutdown", _CLEARS, "start the machine of {node}, which is shut down"),
    NodeTaint("node.cloudprovider.kubernetes.io/*", _CLEARS, "let the cloud-controller-manager repair {node}"),
    NodeTaint("node.kubernetes.io/not-ready", _CLEARS, "repair {node}: its kubelet does not report Ready"),
    NodeTaint(
        "node.kubernetes.io/unreachable",
        _CLEARS,
        "bring {node} back or delete it: its kubelet does not reach the API server",
    ),
    NodeTaint("node.kubernetes.io/memory-pressure", _CLEARS, "free memory on {node}, whose kubelet reports pressure"),
    NodeTaint(
        "node.kubernetes.io/disk-pressure", _CLEARS, "free disk space on {node}, whose kubelet reports disk pressure"
    ),
    NodeTaint("node.kubernetes.io/pid-pressure", _CLEARS, "end processes on {node}: its kubelet reports PID pressure"),
    NodeTaint(
        "node.kubernetes.io/network-unavailable",
        _CLEARS,
        "let the network plugin or the route controller set up the network of {node}",
    ),
    NodeTaint(  # set by hand or by an agent for the time of an outage, and removed by no controller of Kubernetes
        "node.kubernetes.io/out-of-service",
        TaintKind.MAINTAINED,
        "remove the taint of {node}, which nobody has removed since its outage",
    ),
    NodeTaint(
        "node.kubernetes.io/unschedulable",
        _CLEARS,
        "uncordon {node}; if it is not cordoned, see why kube-controller-manager has not removed the taint",
    ),
    NodeTaint("node.kubernetes.io/os", _RESERVED, _OTHER_SYSTEM),
    NodeTaint("kubernetes.io/os", _RESERVED, _OTHER_SYSTEM),
    NodeTaint("kubernetes.io/arch", _RESERVED, _OTHER_ARCHITECTURE),
    NodeTaint("node.kubernetes.io/*", _CLEARS, "repair {node}"),
    NodeTaint("node.cilium.io/*", _CLEARS, _READY.format(agent="Cilium's agent")),
    NodeTaint("cni.istio.io/not-ready", _CLEARS, _READY.format(agent="Istio's CNI agent")),
    NodeTaint("*.csi.*/agent-not-ready", _CLEARS, _READY.format(agent="the CSI driver that removes this taint")),
    NodeTaint("readiness.k8s.io/*", _CLEARS, "wait until {node} meets its readiness rule, or repair what it waits for"),
    NodeTaint("*/agent-not-ready", _CLEARS, _AGENT),
    NodeTaint("*/not-ready", _CLEARS, _AGENT),
    NodeTaint("startup-taint.cluster-autoscaler.kubernetes.io/*", _CLEARS, _AGENT),
    NodeTaint("ignore-taint.cluster-autoscaler.kubernetes.io/*", _CLEARS, _AGENT),
    NodeTaint("status-taint.cluster-autoscaler.kubernetes.io/*", _CLEARS, _AGENT),
    NodeTaint("NodeWithImpairedVolumes", _CLEARS, "repair the volumes of {node} that do not attach"),
    NodeTaint("karpenter.sh/unregistered", _CLEARS, "wait until Karpenter has registered {node}"),
    NodeTaint("karpenter.sh/*", _LEAVES, _REMOVED),
    NodeTaint("ToBeDeletedByClusterAutoscaler", _LEAVES, _REMOVED),
    NodeTaint("DeletionCandidateOfClusterAutoscaler", _LEAVES, _REMOVED),
    NodeTaint("cloud.google.com/impending-node-termination", _LEAVES, _REMOVED),
    NodeTaint("cloud.google.com/gke-quick-remove", _LEAVES, _REMOVED),
    NodeTaint("aws-node-termination-handler/*", _LEAVES, _REMOVED),
    NodeTaint("remediation.medik8s.io/*", _LEAVES, _REMOVED),
    NodeTaint("medik8s.io/*", _LEAVES, _REMOVED),
    NodeTaint("node-role.kubernetes.io/*", _RESERVED, "add a node for other pods: {node} is reserved for its role"),
    NodeTaint("CriticalAddonsOnly", _RESERVED, "add a node for other pods: {node} is reserved for add-ons"),
    NodeTaint(
        "components.gke.io/gke-managed-components",
        _RESERVED,
        "add a node for other pods: {node} is reserved for components of GKE",
    ),
)


# Words in the key or value of a taint that an operator made up.
_MAINTAINED_WORDS: Final = re.compile(
    r"maint|maintenance|maintain\w*|quarantine\w*|repair\w*|broken|faulty|unhealthy|reboot\w*|patching|outage"
)
_LEAVING_WORDS: Final = re.compile(r"drain\w*|decommission\w*|retir\w*|evacuat\w*|terminating|deprecated")
_MAINTAINED: Final = NodeTaint("", TaintKind.MAINTAINED, "end the maintenance of {node}, then remove its taint")
_LEAVING: Final = NodeTaint("", _LEAVES, _REMOVED)
_DOMAINS: Final = frozenset(("com", "io", "ai", "org", "net", "dev", "k8s", "kubernetes"))  # words that tell nothing


@lru_cache(maxsize=1024)
def find_node_taint(key: str, value: str = "") -> NodeTaint | None:
    """Return the declaration of a taint that no pod should be made to tolerate, or None for any other taint.

    The declaration says what to do instead of tolerating the taint.
    """
    declared = next((taint for taint in NODE_TAINTS if taint.matches(key)), None)
    if declared is not None:
        return declared
    words = _split_words(f"{key} {value}")
    if any(map(_LEAVING_WORDS.fullmatch, words)):
        return _LEAVING
    return _MAINTAINED if any(map(_MAINTAINED_WORDS.fullmatch, words)) else None


def find_taint_against(
    key: str, value: str, offered: Iterable[str], requested: Collection[str], *, claims_devices: bool = False
) -> NodeTaint | None:
    """Return the declaration of a taint for a pod that requests resources, on a node that offers some.

    A taint that names a device of the node reserves it for pods that request devices of this kind. `claims_devices` is
    whether the pod has resource claims, which may be for them.
    """
    declared = find_node_taint(key, value)
    if declared is not None or claims_devices:
        return declared
    words = _split_words(f"{key} {value}") - _DOMAINS
    for resource in offered:
        if "/" not in resource or not words & (_split_words(resource) - _DOMAINS):
            continue
        vendor = resource.partition("/")[0]
        if not any(each.partition("/")[0] == vendor for each in requested):
            action = f"add a node for other pods: {{node}} is reserved for pods that request {resource}"
            return NodeTaint("", TaintKind.FOR_DEVICES, action)
    return None


def _split_words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z][a-z0-9]+", text.lower()))


def build_toleration(key: str, value: str, effect: str) -> dict[str, str]:
    """Return the toleration of one taint, as a pod's spec has it. A taint without a value is tolerated by its key."""
    operator = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
    return {"key": key, **operator, "effect": effect}
