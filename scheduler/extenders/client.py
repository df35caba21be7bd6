"""The client of an HTTP extender: builds requests and validates responses.

Owns: the content of each request, and the rules for a valid response. Does not own: the message format (`wire`), HTTP
(`transport`), the effect of a response on the attempt (`framework.extenders`).

Source: pkg/scheduler/extender.go v1.36. It differs on purpose in one thing: a node in a response that was not in the
request is an error even if whole nodes are exchanged (docs/parity.md).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.typed_decoding import decode_json
from scheduler.config.extenders import ExtenderConfig as ExtenderConfig
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.framework.extender import (
    ExtenderError,
    ExtenderVictims,
    FilteredNodes,
    HostPriorities,
    PreemptionCandidate,
)
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Object
from scheduler.extenders import wire
from scheduler.extenders.transport import ExtenderTransport, redact_password

_ACCEPT: Final = f"{wire.EXPLAINED}, {wire.JSON};q=0.9, */*;q=0.8"

T = TypeVar("T")


def build_extenders(configs: Sequence[ExtenderConfig]) -> list[HttpExtender]:
    """Return one client per configured extender, named by its URL. A repeated URL gets a number, such as "URL (2)"."""
    extenders: list[HttpExtender] = []
    seen: Counter[str] = Counter()
    for i, config in enumerate(configs):
        url = redact_password(config.url_prefix) or f"extenders[{i}]"
        seen[url] += 1
        name = url if seen[url] == 1 else f"{url} ({seen[url]})"
        extenders.append(HttpExtender(config, name, ExtenderTransport(config)))
    return extenders


class HttpExtender:
    """Client of one HTTP extender; implements the `framework.extender.Extender` protocol."""

    def __init__(self, config: ExtenderConfig, name: str, transport: ExtenderTransport) -> None:
        self.name = name
        self.weight = config.weight
        self.ignorable = config.ignorable
        self.filters = bool(config.filter_verb)
        self.prioritizes = bool(config.prioritize_verb)
        self.binds = bool(config.bind_verb)
        self.preempts = bool(config.preempt_verb)
        self._config = config
        self._url = redact_password(config.url_prefix)
        self._managed = {resource.name for resource in config.managed_resources}
        self._transport = transport

    def close(self) -> None:
        """Close the connections to the extender. Later requests fail."""
        self._transport.close()

    def interested(self, pod: PodInfo) -> bool:
        """Return whether the extender takes part in scheduling the pod.

        Without managed resources it does for every pod; otherwise a container has to request one of them.
        """
        if not self._managed:
            return True
        amounts = (c.resources for c in pod.containers if c.resources is not None)
        return any(self._managed & {*(a.requests or ()), *(a.limits or ())} for a in amounts)

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> FilteredNodes:
        """Send the nodes to the extender's filter verb; return the remaining nodes and a message for each rejected one.

        If the response lists no nodes, none remain. Raise ExtenderError if the request fails or the response is
        invalid.
        """
        answer, inputs = self._explained(self._config.filter_verb, self._args(pod, nodes), wire.ExtenderFilterResult)
        if answer.error:
            raise ExtenderError(answer.error)
        names: Sequence[str] = ()
        if self._config.node_cache_capable and answer.node_names is not None:
            names = answer.node_names
        elif answer.nodes is not None:
            names = [_name(item) for item in answer.nodes.items or ()]
        sent = {node.metadata.name for node in nodes}
        for name in names:
            if name not in sent:
                raise ExtenderError(
                    f"extender {json.dumps(self._url)} claims a filtered node {json.dumps(name)}"
                    " which is not found in the input node list"
                )
        unresolvable = answer.failed_and_unresolvable_nodes or {}
        return FilteredNodes(frozenset(names), answer.failed_nodes or {}, unresolvable, inputs)

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> HostPriorities:
        """Send the nodes to the extender's prioritize verb and return their scores by node name.

        If the response scores a node several times, the scores are added. Raise ExtenderError if the request fails.
        """
        answer, inputs = self._explained(self._config.prioritize_verb, self._args(pod, nodes), list[wire.HostPriority])
        points: Counter[str] = Counter()
        for entry in answer:
            points[entry.host] += entry.score
        return HostPriorities(points, inputs)

    def bind(self, pod: PodInfo, node: str) -> None:
        """Ask the extender to bind the pod to the node itself.

        Raise ExtenderError if the request or the binding fails.
        """
        args = wire.ExtenderBindingArgs(pod_name=pod.name, pod_namespace=pod.namespace, pod_uid=pod.uid, node=node)
        answer = self._ask(self._config.bind_verb, args, wire.ExtenderBindingResult)
        if answer.error:
            raise ExtenderError(answer.error)

    def preempt(self, pod: PodInfo, candidates: Sequence[PreemptionCandidate]) -> Mapping[str, ExtenderVictims]:
        """Send the candidate nodes with their victims to the preempt verb, and return the response's victims by node.

        The response names victims by UID, whether the request holds whole pods or UIDs. Raise ExtenderError if the
        request fails or the response is invalid.
        """
        by_node = sorted(candidates, key=lambda c: c.node)  # as Go writes maps
        if self._config.node_cache_capable:
            args = wire.ExtenderPreemptionArgs(
                pod=_whole(pod.pod), node_name_to_meta_victims={c.node: _meta_victims(c) for c in by_node}
            )
        else:
            args = wire.ExtenderPreemptionArgs(
                pod=_whole(pod.pod), node_name_to_victims={c.node: _victims(c) for c in by_node}
            )
        answer = self._ask(self._config.preempt_verb, args, wire.ExtenderPreemptionResult)
        return {
            node: ExtenderVictims(tuple(p.uid for p in victims.pods or ()), victims.num_pdb_violations)
            if victims is not None
            else ExtenderVictims((), 0)
            for node, victims in (answer.node_name_to_meta_victims or {}).items()
        }

    def _args(self, pod: PodInfo, nodes: Sequence[Node]) -> wire.ExtenderArgs:
        if self._config.node_cache_capable:
            return wire.ExtenderArgs(pod=_whole(pod.pod), node_names=[node.metadata.name for node in nodes])
        return wire.ExtenderArgs(pod=_whole(pod.pod), nodes=wire.NodeList(items=[_whole(node) for node in nodes]))

    def _ask(self, verb: str, args: object, kind: type[T]) -> T:
        return self._read(verb, kind, self._transport.post(verb, wire.encode(args)).content)

    def _explained(self, verb: str, args: object, kind: type[T]) -> tuple[T, tuple[NodeInputs, ...]]:
        """Send a request, and return the response decoded as `kind` with the measurements that the extender used.

        There are no measurements from an extender that does not support the media type `wire.EXPLAINED`.
        """
        body = self._transport.post(verb, wire.encode(args), _ACCEPT)
        if body.media_type != wire.EXPLAINED:
            return self._read(verb, kind, body.content), ()
        explained = self._read(verb, wire.ExplainedAnswer, body.content)
        return self._read(verb, kind, bytes(explained.answer)), tuple(map(_inputs, explained.inputs or ()))

    def _read(self, verb: str, kind: type[T], body: bytes) -> T:
        try:
            return wire.decode(kind, body)
        except wire.WireError as e:
            raise ExtenderError(f"invalid answer to {verb} from extender at URL {self._url}: {e}") from e


def _whole(obj: Object) -> msgspec.Raw:
    if not obj.manifest:
        raise ExtenderError(f"{type(obj).__name__} {obj.metadata.name} is not known as a whole")
    return msgspec.Raw(obj.manifest)


def _victims(candidate: PreemptionCandidate) -> wire.Victims:
    return wire.Victims(pods=[_whole(p.pod) for p in candidate.pods], num_pdb_violations=candidate.pdb_violations)


def _meta_victims(candidate: PreemptionCandidate) -> wire.MetaVictims:
    pods = [wire.MetaPod(uid=p.uid) for p in candidate.pods]
    return wire.MetaVictims(pods=pods, num_pdb_violations=candidate.pdb_violations)


def _inputs(explained: wire.ExplainedInputs) -> NodeInputs:
    numbers = tuple(NodeInputColumn(n.name, _floats(n.values or ()), n.unit, n.digits) for n in explained.numbers or ())
    measured_s = None if explained.measured is None else _floats(explained.measured)
    return NodeInputs(
        explained.source, numbers, measured_s, None if explained.stale is None else np.array(explained.stale, np.bool_)
    )


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array(values, np.float64)  # None becomes NaN


def _name(node: msgspec.Raw) -> str:
    try:
        return decode_json(node, Object).metadata.name
    except msgspec.MsgspecError as e:
        raise ExtenderError(f"an answer holds what is no Node: {e}") from e
