"""The choice of Pods and Nodes whose whole JSON is kept in memory, because an extender receives it.

Owns: that choice, and the form in which kube-scheduler would send them. Does not own: storing them (`Object.manifest`),
sending them (`client`).

A manifest uses its size in memory for as long as the object is known: 1 to 3 kB a pod, 5 to 20 kB a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from herodotus_record.typed_decoding import decode_json
from scheduler.config.extenders import ExtenderConfig
from scheduler.engine.objects.types import Node, Pod

_Members = dict[str, msgspec.Raw]


@dataclass(frozen=True)
class KeptManifests:
    """Which objects (pending pods, bound pods, nodes) are kept as whole JSON, because an extender receives them."""

    pending_pods: bool  # the pod of a request
    bound_pods: bool  # victims, where they are not sent by UID
    nodes: bool  # where they are not sent by name

    @classmethod
    def from_extenders(cls, extenders: Sequence[ExtenderConfig]) -> KeptManifests:
        """Return which kinds of objects must be kept as whole JSON for requests to these extenders."""
        whole = [e for e in extenders if not e.node_cache_capable]
        return cls(
            pending_pods=any(e.filter_verb or e.prioritize_verb or e.preempt_verb for e in extenders),
            bound_pods=any(e.preempt_verb for e in whole),
            nodes=any(e.filter_verb or e.prioritize_verb for e in whole),
        )

    def of_pod(self, pod: Pod, raw: msgspec.Raw) -> bytes:
        """Return the pod's JSON without managedFields, as kube-scheduler sends it.

        Return b"" if the pod is bound and no extender receives bound pods, or pending and none receives pending pods.
        """
        if not (self.bound_pods if pod.spec.node_name else self.pending_pods):
            return b""
        members = _typeless(raw)
        metadata = decode_json(members["metadata"], _Members)
        metadata.pop("managedFields", None)
        return msgspec.json.encode({**members, "metadata": metadata})

    def of_node(self, node: Node, raw: msgspec.Raw) -> bytes:
        """Return the node's JSON as kube-scheduler sends it, or b"" if nodes are not kept."""
        return msgspec.json.encode(_typeless(raw)) if self.nodes else b""


def _typeless(raw: msgspec.Raw) -> _Members:
    """Return the top-level members of an object's JSON without apiVersion and kind.

    The API server writes both in a watch; kube-scheduler, which encodes Go's typed objects, does not send them.
    """
    members = decode_json(raw, _Members)
    return {key: value for key, value in members.items() if key not in ("apiVersion", "kind")}
