"""What no record knows and the API server does, asked beside or behind the question.

Whether the pod that an answer is about still exists, and whether the one that exists is the same: one that is created
anew under its old name has no decision at first, so the service answers with the old pod's. Which pods wait for a node:
records do not know of deletions. Which wait for their scheduling gates: no scheduler tries them. In which zones nodes
are: records hold no labels of nodes.

Owns: that second question and its time limit. Does not own: the first one (`kubectl`), what is printed.

Invariant: every failure means "not known"; nothing waits for this longer than a patience after the answer is there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from herodotus_cli.transport.begun import Process

DELETED, REPLACED = "deleted", "replaced"
_NO_SUCH_POD = b"Error from server (NotFound): pods "
_PATIENCE_S = 0.25  # both start together and this one is answered by the API server alone
_LONG_PATIENCE_S = 2.0  # of a list
_ZONE = "topology.kubernetes.io/zone"


class Beside:
    """`kubectl get --raw` of the API server, under way: as fast as the question itself. No process: nobody is asked."""

    def __init__(self, process: Process | None = None) -> None:
        self._process = process
        self._error = b""

    def _document(self, patience_s: float) -> Any:
        """What is answered; None where nothing is, or too late."""
        import json  # here, because the question is put together before anything else

        if not self._process:
            return None
        try:
            code, body, self._error = self._process.output(patience_s)
            return None if code else json.loads(body)
        except (OSError, ValueError):
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._process:
            self._process.end()


class LivePod(Beside):
    """The pod of a name that exists."""

    def fate(self, answer: dict[str, Any]) -> str:
        """Return DELETED or REPLACED where the answer's pod is known to be that, else ""."""
        found = self._document(_PATIENCE_S)
        if self._error.startswith(_NO_SUCH_POD):
            return DELETED
        try:
            uid, recorded = found["metadata"]["uid"], answer["metadata"]["uid"]
        except (KeyError, TypeError):
            return ""
        return REPLACED if uid and recorded and uid != recorded else ""


class UnassignedPods(Beside):
    """The pods without a node: those that schedulers try, and those that wait for their scheduling gates."""

    _found: list[dict[str, Any]] | None = None
    _is_complete = False

    def gated(self) -> list[dict[str, Any]]:
        """Those that are known, as the API server has them."""
        return [pod for pod in self._pods() if pod["spec"].get("schedulingGates")]

    def uids(self) -> frozenset[str] | None:
        """Return the UIDs of all pods without a node; None where not all of them are known."""
        pods = self._pods()
        return frozenset(pod["metadata"]["uid"] for pod in pods) if self._is_complete else None

    def _pods(self) -> list[dict[str, Any]]:
        if self._found is None:
            found = self._document(_LONG_PATIENCE_S)
            try:
                self._found = [pod for pod in found["items"] if pod["metadata"].get("uid") and pod["spec"] is not None]
                more = (found.get("metadata") or {}).get("continue")
                self._is_complete = not more and len(self._found) == len(found["items"])
            except (KeyError, TypeError, AttributeError):
                self._found = []
        return self._found


class NodeZones(Beside):
    """The zones of nodes."""

    def zones(self) -> dict[str, str]:
        """Node to zone, of those that are known to have one."""
        found = self._document(_LONG_PATIENCE_S)
        try:
            labelled = [(item["metadata"]["name"], item["metadata"].get("labels") or {}) for item in found["items"]]
            return {name: labels[_ZONE] for name, labels in labelled if labels.get(_ZONE)}
        except (KeyError, TypeError, AttributeError):
            return {}
