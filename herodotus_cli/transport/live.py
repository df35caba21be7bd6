"""What no record knows and the API server does, asked beside or behind the question.

Whether the pod that exists now is the one that an answer is about: one that is created anew under its old name has no
decision at first, so the service answers with the old pod's. Which pods wait for their scheduling gates: no scheduler
tries them. In which zones nodes are: records hold no labels of nodes.

Owns: that second question and its time limit. Does not own: the first one (`kubectl`), what is printed.

Invariant: every failure means "not known"; nothing waits for this longer than a patience after the answer is there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from herodotus_cli.transport.begun import Process

_GENERATED = frozenset("bcdfghjklmnpqrstvwxz2456789")  # the API server's letters for generateName,
_LETTERS = 5  # and how many it takes
_PATIENCE_S = 0.25  # both start together and this one is answered by the API server alone
_LONG_PATIENCE_S = 2.0  # of a list
_ZONE = "topology.kubernetes.io/zone"


def comes_again(pod: str) -> bool:
    """Whether another pod may get this name: a StatefulSet's or a user's own; one with a random end is given once."""
    stem, _, end = pod.rpartition("-")
    return not (stem and len(end) == _LETTERS and _GENERATED.issuperset(end))


class Beside:
    """`kubectl get --raw` of the API server, under way: as fast as the question itself. No process: nobody is asked."""

    def __init__(self, process: Process | None = None) -> None:
        self._process = process

    def _document(self, patience_s: float) -> Any:
        """What is answered; None where nothing is, or too late."""
        import json  # here, because the question is put together before anything else

        if not self._process:
            return None
        try:
            code, body, _ = self._process.output(patience_s)
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

    def replaces(self, answer: dict[str, Any]) -> bool:
        """Whether the pod that exists is known to be another than the answer's."""
        found = self._document(_PATIENCE_S)
        try:
            uid, recorded = found["metadata"]["uid"], answer["metadata"]["uid"]
        except (KeyError, TypeError):
            return False
        return bool(uid and recorded) and uid != recorded


class GatedPods(Beside):
    """The pods that wait for their scheduling gates."""

    def pods(self) -> list[dict[str, Any]]:
        """Those that are known, as the API server has them."""
        found = self._document(_LONG_PATIENCE_S)
        try:
            return [pod for pod in found["items"] if pod["spec"].get("schedulingGates")]
        except (KeyError, TypeError, AttributeError):
            return []


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
