"""Whether the pod that exists now is the one that an answer is about, asked of the API server beside the question.

Owns: that second question and its time limit. Does not own: the first one (`kubectl`), what is printed.

A pod that is created anew under its old name has no decision at first, so the service answers with the old pod's.

Invariant: every failure means "not known"; nothing waits for this longer than `_PATIENCE_S` after the answer is there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from herodotus_cli.transport.begun import Process

_GENERATED = frozenset("bcdfghjklmnpqrstvwxz2456789")  # the API server's letters for generateName,
_LETTERS = 5  # and how many it takes
_PATIENCE_S = 0.25  # both start together and this one is answered by the API server alone


def comes_again(pod: str) -> bool:
    """Whether another pod may get this name: a StatefulSet's or a user's own; one with a random end is given once."""
    stem, _, end = pod.rpartition("-")
    return not (stem and len(end) == _LETTERS and _GENERATED.issuperset(end))


class LivePod:
    """`kubectl get --raw` of a pod: no discovery, so as fast as the question itself. No process: nobody is asked."""

    def __init__(self, process: Process | None = None) -> None:
        self._process = process

    def replaces(self, answer: dict[str, Any]) -> bool:
        """Whether the pod that exists is known to be another than the answer's."""
        uid = self._uid()
        try:
            recorded = answer["metadata"]["uid"]
        except (KeyError, TypeError):
            return False
        return bool(uid and recorded) and uid != recorded

    def _uid(self) -> str:
        if not self._process:
            return ""
        import json  # here, because the question is put together before anything else

        try:
            code, body, _ = self._process.output(_PATIENCE_S)
            return "" if code else str(json.loads(body)["metadata"]["uid"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def __enter__(self) -> LivePod:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._process:
            self._process.end()
