"""Labels that state what a node is or has, so that setting them on another node would be a lie.

Owns: the one declaration of such labels, and which resources are hardware that a label may stand for. Roles are no such
labels: an administrator gives them to nodes, except that of the control plane. Does not own:
which nodes have a label, the check of a suggestion (`scheduler.engine.suggestions`), sentences.

Sources: the well-known labels of the Kubernetes documentation, and those that cloud providers, autoscalers and device
agents set (Karpenter, eksctl, GKE, AKS, DigitalOcean, Linode, GPU feature discovery, KubeVirt).
"""

from __future__ import annotations

import re
from typing import Final

_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "k8s.aws",
    "karpenter.sh",
    "amazonaws.com",
    "eksctl.io",
    "cloud.google.com",
    "kubernetes.azure.com",
    "digitalocean.com",
    "scaleway.com",
    "linode.com",
    "nvidia.com",
    "amd.com",
    "intel.com",
    "kubevirt.io",
    "hetzner.cloud",
    "oraclecloud.com",
    "alibabacloud.com",
    "yandex.cloud",
    "vmware.com",
)
_ROLE: Final = r"node-role\.[\w.-]+/(?!(control-?plane|master|etcd)\b)"
# Also in a text with several keys: a key begins after a space, a bracket or nothing.
_IDENTITY: Final = re.compile(
    rf"(?<![\w./-])(?!{_ROLE})([\w.-]+\.)?({'|'.join(map(re.escape, _DOMAINS))})/|(?<![\w./-])agentpool\b"
)


def names_identity(text: str) -> bool:
    """Return whether a label key, or a text with label keys, names a label that states what a node is."""
    return _IDENTITY.search(text) is not None


def names_role(key: str) -> bool:
    """Return whether a label key is a role that an administrator gives to nodes, such as node-role.example.com/edge."""
    return re.match(_ROLE, key) is not None


BUILT_FOR: Final = tuple(f"{domain}kubernetes.io/{what}" for what in ("os", "arch") for domain in ("", "beta."))
_SPELLINGS: Final = {  # what others call an architecture, by the name that kubelets give it
    "amd64": ("x86_64", "x86-64", "x64"),
    "arm64": ("aarch64", "armv8", "arm64v8", "arm64/v8"),
    "386": ("i386", "i686", "x86"),
    "windows": ("win", "win64"),
}


def is_same_platform(key: str, wanted: str, value: str) -> bool:
    """Return whether a value of a label of BUILT_FOR is meant by another spelling of it, such as x86_64 or Linux."""
    lower = wanted.lower()
    return key in BUILT_FOR and wanted != value and (lower == value or lower in _SPELLINGS.get(value, ()))


def is_hardware(resource: str) -> bool:
    """Return whether a resource is one that only some machines have, such as nvidia.com/gpu or hugepages-2Mi."""
    return "/" in resource or resource.startswith("hugepages-")
