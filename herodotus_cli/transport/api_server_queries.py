"""Requests to the API server that run beside the request to the decisions service, for facts that no record holds.

Whether the pod of an answer still exists, or another pod has its name now; which pods have no node (records do not
show deletions); which pods wait for scheduling gates (no scheduler tries them); the zones of nodes (records hold no
node labels).

Owns: these requests and their time limits. Does not own: the main request (`kubectl`), what is printed.

Invariant: every failure means "not known"; the answer waits for these requests no longer than their time limit.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from herodotus_cli.transport.prefetched_processes import Process

DELETED, REPLACED = "deleted", "replaced"
_NO_SUCH_POD = b"Error from server (NotFound): pods "
_TIMEOUT_S = 0.25  # both requests start together, and this one needs the API server alone
_LIST_TIMEOUT_S = 2.0
_ZONE = "topology.kubernetes.io/zone"


class ConcurrentQuery:
    """A running `kubectl get --raw` of the API server. Without a process there is no result."""

    def __init__(self, process: Process | None = None) -> None:
        self._process = process
        self._error = b""

    def _document(self, timeout_s: float) -> Any:
        """Return the response document, or None if the request failed or was too slow."""
        import json  # here, because requests start before it is needed

        if not self._process:
            return None
        try:
            code, body, self._error = self._process.communicate(timeout_s)
            return None if code else json.loads(body)
        except (OSError, ValueError):
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._process:
            self._process.kill()


class LivePodQuery(ConcurrentQuery):
    """The request for the Pod object that has a name now."""

    def fate(self, answer: dict[str, Any]) -> str:
        """Return DELETED or REPLACED if the pod of the answer is known to be that, else ""."""
        found = self._document(_TIMEOUT_S)
        if self._error.startswith(_NO_SUCH_POD):
            return DELETED
        try:
            uid, recorded = found["metadata"]["uid"], answer["metadata"]["uid"]
        except (KeyError, TypeError):
            return ""
        return REPLACED if uid and recorded and uid != recorded else ""


class UnassignedPodsQuery(ConcurrentQuery):
    """The request for the pods without a node: schedulable and gated ones."""

    _found: list[dict[str, Any]] | None = None
    _is_complete = False

    def gated(self) -> list[dict[str, Any]]:
        """Return the known pods that wait for their scheduling gates, as Pod objects."""
        return [pod for pod in self._pods() if pod["spec"].get("schedulingGates")]

    def uids(self) -> frozenset[str] | None:
        """Return the UIDs of all pods without a node, or None if not all of them are known."""
        pods = self._pods()
        return frozenset(pod["metadata"]["uid"] for pod in pods) if self._is_complete else None

    def _pods(self) -> list[dict[str, Any]]:
        if self._found is None:
            found = self._document(_LIST_TIMEOUT_S)
            try:
                self._found = [pod for pod in found["items"] if pod["metadata"].get("uid") and pod["spec"] is not None]
                more = (found.get("metadata") or {}).get("continue")
                self._is_complete = not more and len(self._found) == len(found["items"])
            except (KeyError, TypeError, AttributeError):
                self._found = []
        return self._found


class NodeZonesQuery(ConcurrentQuery):
    """The request for the zones of nodes."""

    def zones(self) -> dict[str, str]:
        """Return the zone of each node that is known to have one."""
        found = self._document(_LIST_TIMEOUT_S)
        try:
            labelled = [(item["metadata"]["name"], item["metadata"].get("labels") or {}) for item in found["items"]]
            return {name: labels[_ZONE] for name, labels in labelled if labels.get(_ZONE)}
        except (KeyError, TypeError, AttributeError):
            return {}
