"""Makes the changes that `--node X` proposes, by the words of each proposal.

Owns: the meaning of the sentences, parsed without our code; making a change and undoing it. Does not own: the proposals
(`questions`), the verdict (a stock kube-scheduler).
Invariant: `undo` restores the cluster.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.e2e.cluster import Cluster

Json = dict[str, Any]

_BINARY_UNITS = {f"{prefix}i": Fraction(1 << 10 * i) for i, prefix in enumerate("KMGT", 1)}
_UNITS = {"": Fraction(1), "m": Fraction(1, 1000), **_BINARY_UNITS}


class NotAboutThisClusterError(Exception):
    """The sentence proposes something outside the cluster's objects, such as another node."""


class Changes:
    """Changes for one pod and one node: to the cluster at once, to the pod in `pod`."""

    def __init__(self, api: Cluster, pod: Json, pods: list[Json]) -> None:
        """Take the pod to change; `pods` are the pods that have a node."""
        self._api, self._pods = api, pods
        self.pod = copy.deepcopy(pod)
        self._undo: list[Callable[[], object]] = []

    def make(self, sentence: str) -> str:
        """Make the change that a sentence proposes and return its kind; raise AssertionError if it is unknown."""
        for pattern, make in _SENTENCES.items():
            if match := re.fullmatch(pattern, sentence):
                make(self, *match.groups())
                return make.__name__.strip("_")
        raise AssertionError(f"what does this propose? {sentence}")

    def undo(self) -> None:
        """Undo all changes, the last one first."""
        for step in reversed(self._undo):
            step()

    # --- one method a sentence --------------------------------------------------------------------------------------

    def _free(self, amount: str, resource: str, node: str) -> None:
        wanted, freed = quantity(amount), Fraction(0)
        for pod in self._on(node):
            if freed >= wanted:
                return
            freed += sum(quantity(c["resources"]["requests"].get(resource, "0")) for c in pod["spec"]["containers"])
            self._delete(pod)
        assert freed >= wanted, f"{node} has no pods whose removal frees {amount} {resource}"

    def _request_less(self, amount: str, resource: str) -> None:
        self.pod["spec"]["containers"][0]["resources"]["requests"][resource] = amount

    def _another_node(self) -> None:
        raise NotAboutThisClusterError

    def _uncordon(self, node: str) -> None:
        path, taints = f"/api/v1/nodes/{node}", self._api.get(f"/api/v1/nodes/{node}")["spec"].get("taints")
        kept = [t for t in taints or () if t["key"] != "node.kubernetes.io/unschedulable"]
        self._api.patch(path, {"spec": {"unschedulable": None, "taints": kept or None}})
        self._undo.append(lambda: self._api.patch(path, {"spec": {"unschedulable": True, "taints": taints}}))

    def _tolerate(self, taints: str, _node: str) -> None:
        for taint in taints.split(" and "):
            key, _, effect = taint.rpartition(":")
            key, _, value = key.partition("=")
            toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
            self.pod["spec"].setdefault("tolerations", []).append(toleration)

    def _label(self, node: str, labels: str) -> None:
        path = f"/api/v1/nodes/{node}"
        before = self._api.get(path)["metadata"]["labels"]
        wanted = dict(part.split("=") for part in labels.split(", "))
        self._api.patch(path, {"metadata": {"labels": wanted}})
        undone = {key: before.get(key) for key in wanted}
        self._undo.append(lambda: self._api.patch(path, {"metadata": {"labels": undone}}))

    def _free_port(self, port: str, _protocol: str, node: str) -> None:
        for pod in self._on(node):
            ports = [p for c in pod["spec"]["containers"] for p in c.get("ports", ())]
            if any(p.get("hostPort") == int(port) for p in ports):
                self._delete(pod)

    def _move(self, pod: str, _key: str, _node: str) -> None:
        (found,) = [p for p in self._pods if f"{p['metadata']['namespace']}/{p['metadata']['name']}" == pod]
        self._delete(found)

    def _move_excluding(self, node: str) -> None:
        """Delete the pods on one host whose anti-affinity selects this pod."""
        labels = self.pod["metadata"]["labels"]
        for pod in self._on(node):
            rules = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
            wanted = [
                term["labelSelector"]["matchLabels"]
                for term in rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())
            ]
            if any(match.items() <= labels.items() for match in wanted):
                self._delete(pod)

    # --- what they share --------------------------------------------------------------------------------------------

    def _on(self, node: str) -> list[Json]:
        """Return the pods of a node, the largest first."""
        there = [p for p in self._pods if p["spec"]["nodeName"] == node]
        return sorted(there, key=lambda p: -quantity(p["spec"]["containers"][0]["resources"]["requests"]["cpu"]))

    def _delete(self, pod: Json) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        self._api.delete(f"{path}/{pod['metadata']['name']}")
        self._pods.remove(pod)
        self._undo.append(lambda: self._pods.append(self._api.create(path, fresh(pod))))


def fresh(pod: Json) -> Json:
    """Return a manifest like an existing pod's, bound at once if that pod is bound."""
    metadata = {key: pod["metadata"][key] for key in ("name", "labels", "ownerReferences") if key in pod["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(pod["spec"])}


def quantity(text: str) -> Fraction:
    """Return a quantity such as `500m`, `1.5Gi` or `2` as a number."""
    match = re.fullmatch(r"([\d.]+)(m|[KMGT]i)?", text)
    assert match, text
    return Fraction(match[1]) * _UNITS[match[2] or ""]


_SENTENCES: dict[str, Callable[..., None]] = {
    r"free (?!host port)(\S+) (\S+) on (\S+)": Changes._free,
    r"request at most (\S+) (\S+) \(.*": Changes._request_less,
    r"add (?:a|one more) node .*": Changes._another_node,
    r"uncordon (\S+)": Changes._uncordon,
    r"tolerate (.+) \((\S+)\)": Changes._tolerate,
    r"label (\S+) so that it matches (\S+=\S+)": Changes._label,
    r"change what the pod selects, or label (\S+) with (.+) if that is true of it": Changes._label,
    r"free host port (\d+)/(\w+) on (\S+)": Changes._free_port,
    r"move the pods that exclude this one out of the kubernetes.io/hostname of (\S+)": Changes._move_excluding,
    r"move (\S+) out of the (\S+) of (\S+)": Changes._move,
}
