"""Node groups by the labels with which cloud providers and installers mark the nodes of a pool.

Owns: the keys of these labels. Talos and kubeadm set no label of their own; `label_keys` of a question names theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

# The first key that a node has names its group.
POOL_LABELS: Final = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",  # of AKS before 1.24
    "kops.k8s.io/instancegroup",
    "doks.digitalocean.com/node-pool",
    "k8s.scaleway.com/pool-name",
    "lke.linode.com/pool-id",
)


def find_label(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, str] | None:
    """Return the key and value of the first of these labels that a node has, or None."""
    for key in keys:
        value = labels.get(key)
        if value:
            return key, value
    return None
