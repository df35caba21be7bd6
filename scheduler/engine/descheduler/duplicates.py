"""The descheduler's plugin RemoveDuplicates: pods of one owner and with the same images on one node.

Source: sigs.k8s.io/descheduler v0.36.0, pkg/framework/plugins/removeduplicates.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from scheduler.engine.descheduler.cluster import SeenNode, matches_node, tolerates_all
from scheduler.engine.descheduler.eviction import Result
from scheduler.engine.descheduler.plugin_run import PluginRun
from scheduler.engine.descheduler.policy import RemoveDuplicatesArgs
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.taints import HARD_EFFECTS


class _Owner(NamedTuple):
    """An owner of pods; `images` are those of the pods' containers, sorted."""

    namespace: str
    kind: str
    name: str
    images: tuple[str, ...]


def remove_duplicates(plugin: PluginRun, args: RemoveDuplicatesArgs) -> None:
    """Evict pods of one owner from nodes that have more than the average of the nodes where they may run."""
    counts: Counter[_Owner] = Counter()
    duplicates: dict[_Owner, dict[str, list[PodInfo]]] = defaultdict(lambda: defaultdict(list))
    for node in plugin.nodes:
        seen: set[tuple[_Owner, ...]] = set()
        for pod in plugin.list_evictable(node, args.namespaces):
            owners = _list_owners(pod)
            if not owners:
                plugin.explain(pod, "it has no owner")
                continue
            if any(owner.kind in args.exclude_owner_kinds for owner in owners):
                plugin.explain(pod, "its owner's kind is left out")
                continue
            counts.update(owners)
            kind = tuple(sorted(owners))
            if kind not in seen:
                seen.add(kind)
                plugin.explain(pod, "it is not a duplicate: the first pod of its owner on its node stays")
                continue
            for owner in owners:
                duplicates[owner][node.name].append(pod)
    for owner in plugin.run.arrange(duplicates):
        by_node = duplicates[owner]
        targets = _count_targets(plugin.nodes, (pod for pods in by_node.values() for pod in pods))
        if targets < 2:
            _explain_all(plugin, by_node, "fewer than two nodes tolerate and match the pods of its owner")
            continue
        most = math.ceil(counts[owner] / targets)
        if not _evict_above(plugin, owner, by_node, most):
            return


def _evict_above(plugin: PluginRun, owner: _Owner, by_node: dict[str, list[PodInfo]], most: int) -> bool:
    """Evict the duplicates above `most` pods of a node; return False if the limit of the run ends the plugin."""
    for node in plugin.run.arrange(by_node):
        pods = by_node[node]
        for pod in pods[: most - 1]:
            plugin.explain(pod, f"its owner has {len(pods) + 1} pods on its node, and up to {most} may be on each")
        for pod in pods[most - 1 :]:
            reason = f"{len(pods) + 1} pods of {owner.kind}/{owner.name} are on its node, and {most} would do"
            result = plugin.evict(pod, node, reason)
            if result is Result.NODE_LIMIT:
                break
            if result is Result.TOTAL_LIMIT:
                return False
    return True


def _list_owners(pod: PodInfo) -> list[_Owner]:
    images = tuple(sorted(container.image for container in pod.pod.spec.containers or ()))
    references = pod.pod.metadata.owner_references or ()
    return [_Owner(pod.namespace, owner.kind, owner.name, images) for owner in references]


def _explain_all(plugin: PluginRun, by_node: dict[str, list[PodInfo]], why: str) -> None:
    for pods in by_node.values():
        for pod in pods:
            plugin.explain(pod, why)


def _count_targets(nodes: Iterable[SeenNode], pods: Iterable[PodInfo]) -> int:
    """Return on how many nodes one of the pods may run, by taints and labels alone.

    Nodes count only for pods that may run on more than one.
    """
    targets: set[str] = set()
    kinds: dict[bytes, PodInfo] = {}
    for pod in pods:
        affinity = pod.pod.spec.affinity and pod.pod.spec.affinity.node_affinity
        parts = (pod.pod.spec.tolerations, affinity and affinity.required, pod.pod.spec.node_selector)
        kinds.setdefault(msgspec.msgpack.encode(parts), pod)
    for pod in kinds.values():
        matching = {
            node.name
            for node in nodes
            if tolerates_all(pod.pod, node.taints, lambda taint: taint.effect in HARD_EFFECTS)
            and matches_node(pod.pod, node.node)
        }
        targets |= matching if len(matching) > 1 else set()
    return len(targets)
