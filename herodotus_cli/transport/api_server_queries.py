"""Requests to the API server that run beside the request to the decisions service, for facts that no record holds.

Whether the pod of an answer still exists, or another pod has its name now; which pods have no node (records do not
show deletions); which pods wait for scheduling gates (no scheduler tries them); the zones of nodes (records hold no
node labels).

Owns: these requests and their time limits. Does not own: the main request (`kubectl`), what is printed.

Invariant: every failure means "not known"; the answer waits for these requests no longer than their time limit.
"""

from __future__ import annotations

import json
import subprocess
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from herodotus_cli.transport.kubectl_command import kill_process

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on

    from herodotus_cli.errors import ServerError

_NO_SUCH_POD = b"Error from server (NotFound): pods "
# a line of `kubectl auth can-i --list`: resources, URLs, names of resources, verbs
_RULE = r"(\S+)\s+\[[^]]*\]\s+\[([^]]*)\]\s+\[([^]]*)\]"
_FORBIDDEN = b"Error from server (Forbidden)"
_TIMEOUT_S = 2.0  # it runs beside the main request, which usually takes longer
_ZONE = "topology.kubernetes.io/zone"


class PodLookup(NamedTuple):
    """The result of asking the API server for a pod.

    If `known` is False, it is not known whether the pod exists; `refusal` is the API server's, if it forbids to read
    it. If `known` is True, a `pod` of None means that it does not exist.
    """

    known: bool = False
    pod: dict[str, Any] | None = None
    refusal: ServerError | None = None


class ConcurrentQuery:
    """A request to the API server by `kubectl get --raw` that runs while other work is done.

    Without a process there is no result. The process is killed at the end of a `with` block.
    """

    def __init__(self, process: subprocess.Popen[bytes] | None = None) -> None:
        self._process = process
        self._error = b""

    def _document(self, timeout_s: float) -> Any:
        """Return the response document, or None if the request failed or was too slow."""
        if not self._process:
            return None
        try:
            body, self._error = self._process.communicate(timeout=timeout_s)
            return None if self._process.returncode else json.loads(body)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._process:
            kill_process(self._process)


class LivePodQuery(ConcurrentQuery):
    """A running request to the API server for the Pod object that has a given name now."""

    def lookup(self) -> PodLookup:
        """Return the Pod object, or that there is none. The result is unknown if the request failed."""
        pod = self._document(_TIMEOUT_S)
        if isinstance(pod, dict) and isinstance(pod.get("metadata"), dict):
            return PodLookup(True, pod)
        return PodLookup(known=self._error.startswith(_NO_SUCH_POD))


class UnassignedPodsQuery(ConcurrentQuery):
    """A running request to the API server for the pods without a node, with or without scheduling gates."""

    _was_read = False
    _pods: list[dict[str, Any]] | None = None
    _is_complete = False

    def uids(self) -> frozenset[str] | None:
        """Return the UIDs of all pods without a node, or None if the response is missing or incomplete."""
        pods = self.pods()
        return frozenset(pod["metadata"]["uid"] for pod in pods) if pods is not None and self._is_complete else None

    def pods(self) -> list[dict[str, Any]] | None:
        """Return the Pod objects, or None if the request failed."""
        if not self._was_read:
            self._was_read = True
            document = self._document(_TIMEOUT_S)
            try:
                pods = [pod for pod in document["items"] if pod["metadata"].get("uid") and pod["spec"] is not None]
                more = (document.get("metadata") or {}).get("continue")
                self._pods, self._is_complete = pods, not more and len(pods) == len(document["items"])
            except (KeyError, TypeError, AttributeError):
                pass
        return self._pods


class RefusedPodsQuery(ConcurrentQuery):
    """A running request to the API server for an event that a controller could not create a pod."""

    def may_exist(self) -> bool:
        """Return whether such events may exist: not if there are none, or if the user may not list events."""
        if not self._process:
            return False
        document = self._document(_TIMEOUT_S)
        if isinstance(document, dict):
            return bool(document.get("items"))
        return not self._error.startswith(_FORBIDDEN)


class NodePodsQuery(ConcurrentQuery):
    """A running request to the API server for the pods on a node."""

    def pods(self) -> list[dict[str, Any]] | None:
        """Return the Pod objects, or None if the request failed."""
        document = self._document(_TIMEOUT_S)
        try:
            return [pod for pod in document["items"] if pod["metadata"].get("namespace") and pod["spec"] is not None]
        except (KeyError, TypeError, AttributeError):
            return None

    @property
    def is_forbidden(self) -> bool:
        """Whether the request failed because the user may not list the pods of all namespaces."""
        return self._error.startswith(_FORBIDDEN)


class RightsQuery(ConcurrentQuery):
    """A running `kubectl auth can-i --list`: what the user may do in a namespace and, by cluster roles, outside it."""

    def find_missing(self, rights: list[dict[str, str]]) -> list[dict[str, str]]:
        """Return those of the rights (verb, resource) that the user lacks; [] if the list is unknown or incomplete."""
        import re  # here, because most screens need no rights

        if not self._process or not rights:
            return []
        try:
            body, error = self._process.communicate(timeout=_TIMEOUT_S)
            rules = [(rule[1], rule[3]) for rule in re.finditer(_RULE, body.decode())]
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return []
        if self._process.returncode or error.strip() or not rules:
            return []
        return [right for right in rights if not any(_allows(resource, verbs, right) for resource, verbs in rules)]


def _allows(resource: str, verbs: str, right: dict[str, str]) -> bool:
    """Return whether a rule may allow the right; a rule for certain names counts, because it may name the object."""
    group = right["resource"].partition(".")[2]
    resources = {right["resource"], "*.*", f"*.{group}" if group else "*"}
    return resource in resources and bool({"*", right["verb"]} & set(verbs.split()))


class NodeZonesQuery(ConcurrentQuery):
    """A running request to the API server for nodes, whose labels say in which zone they are."""

    def zones(self) -> dict[str, str]:
        """Return the zone of each node that has a zone label, by node name; {} if the request failed."""
        document = self._document(_TIMEOUT_S)
        try:
            labelled = [(item["metadata"]["name"], item["metadata"].get("labels") or {}) for item in document["items"]]
            return {name: labels[_ZONE] for name, labels in labelled if labels.get(_ZONE)}
        except (KeyError, TypeError, AttributeError):
            return {}
