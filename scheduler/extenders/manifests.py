"""Which Pods and Nodes are kept as whole JSON, because some extender is sent them.

Owns: that choice, and the form in which kube-scheduler would send them. Does not own: where they are kept (on the
objects themselves, `Object.manifest`), sending them (`client`).

A manifest costs its bytes in memory for as long as the object is known: 1 to 3 kB a pod, 5 to 20 kB a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from scheduler.config.extenders import Extender
from scheduler.objects.types import Node, Pod

_Members = dict[str, msgspec.Raw]


@dataclass(frozen=True)
class Manifests:
    """What is kept whole of which objects."""

    pending_pods: bool  # the pod of a request
    bound_pods: bool  # victims, where they are not sent by UID
    nodes: bool  # where they are not sent by name

    @classmethod
    def of(cls, extenders: Sequence[Extender]) -> Manifests:
        """What these extenders are sent."""
        whole = [e for e in extenders if not e.node_cache_capable]
        return cls(
            pending_pods=any(e.filter_verb or e.prioritize_verb or e.preempt_verb for e in extenders),
            bound_pods=any(e.preempt_verb for e in whole),
            nodes=any(e.filter_verb or e.prioritize_verb for e in whole),
        )

    def of_pod(self, pod: Pod, raw: msgspec.Raw) -> bytes:
        """Without metadata.managedFields, which kube-scheduler does not keep of pods; b"" where it is not needed."""
        if not (self.bound_pods if pod.spec.node_name else self.pending_pods):
            return b""
        members = _typeless(raw)
        metadata = msgspec.json.decode(members["metadata"], type=_Members)
        metadata.pop("managedFields", None)
        return msgspec.json.encode({**members, "metadata": metadata})

    def of_node(self, node: Node, raw: msgspec.Raw) -> bytes:
        """With everything; b"" where it is not needed."""
        return msgspec.json.encode(_typeless(raw)) if self.nodes else b""


def _typeless(raw: msgspec.Raw) -> _Members:
    """Without apiVersion and kind: the watch writes them, and Go's typed objects do not carry them."""
    members = msgspec.json.decode(raw, type=_Members)
    return {key: value for key, value in members.items() if key not in ("apiVersion", "kind")}
