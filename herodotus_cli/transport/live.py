"""Whether the pod that exists now is the one that an answer is about, asked of the API server beside the question.

Owns: that second question and its time limit. Does not own: the first one (`kubectl`), what is printed.

A pod that is created anew under its old name has no decision at first, so the service answers with the old pod's.

Invariant: every failure means "not known"; nothing waits for this longer than `_PATIENCE_S` after the answer is there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

_PATIENCE_S = 0.25  # both start together and this one is answered by the API server alone


class LivePod:
    """`kubectl get --raw` of a pod: no discovery, so as fast as the question itself. An empty command asks nobody."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if command:
            import subprocess  # here, because commands that ask nobody need not wait for it

            with suppress(OSError):  # the question itself says what is wrong with kubectl
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )

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
        from subprocess import TimeoutExpired

        try:
            body, _ = self._process.communicate(timeout=_PATIENCE_S)
            return str(json.loads(body)["metadata"]["uid"]) if not self._process.returncode else ""
        except (TimeoutExpired, OSError, ValueError, KeyError, TypeError):
            return ""

    def __enter__(self) -> LivePod:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._process:
            self._process.kill()
            if self._process.stdout:
                self._process.stdout.close()  # not read to its end: a child of kubectl may hold it open
            self._process.wait()
