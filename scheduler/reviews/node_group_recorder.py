"""The thread that records which node groups would take a pod that no node takes (`--record-node-groups`).

Owns: which pods are examined and how often, the bounds, and counts of what was skipped. Does not own: the verdicts
(`engine.nodegroups`), the copy in which they are made (`forked_copies`), the record's form (`recorder`).

The scheduling loop only hands over the number of the record. Verdicts are made in a forked copy of the present state,
a moment after the attempt, and are stored with the time at which they were made.

Invariant: examining takes at most a part of one processor (REST_FACTOR), and at most MAX_WAITING attempts wait.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

import msgspec

from herodotus_answers.cluster_questions import ClusterQuestion, NodeGroupsQuestion
from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.node_groups import MAX_RECORDED_BYTES, RecordedNodeGroups, bound_node_groups
from herodotus_kube.http import ApiError
from herodotus_record import klog
from herodotus_record.lru import Lru
from scheduler.recorder.recorder import RecordedAttempt
from scheduler.reviews.forked_copies import ForkedCopyError, RefusedQuestionError

MAX_WAITING: Final = 256  # attempts; one more record of 20 kB for each of them is 5 MB
MAX_TEMPLATES: Final = 256  # whose latest verdicts are kept
INTERVAL_S: Final = 60.0  # during which the verdicts on one pod template are used again, as autoscalers act in minutes
DEADLINE_S: Final = 10.0  # 5,000 nodes in 60 groups take 0.2 s
REST_FACTOR: Final = 10.0  # an examination of 0.3 s is followed by a pause of 3 s
REST_S: Final = 0.5  # the shortest pause after an examination
NOT_READY_S: Final = 1.0

# What became of an attempt, as the metric counts it.
RECORDED: Final = "recorded"
SKIPPED_BUSY: Final = "skipped-busy"  # more attempts waited than MAX_WAITING
SKIPPED_FAILED: Final = "skipped-failed"  # no answer, or not within DEADLINE_S
SKIPPED_TOO_LARGE: Final = "skipped-too-large"
SKIPPED_NO_GROUPS: Final = "skipped-no-groups"
RESULTS: Final = (RECORDED, SKIPPED_BUSY, SKIPPED_FAILED, SKIPPED_TOO_LARGE, SKIPPED_NO_GROUPS)


class _Examined(NamedTuple):
    """The verdicts on a pod of a template, or the reason why there are none, and when they were made."""

    verdicts: RecordedNodeGroups | None
    result: str
    made_us: int
    made_s: float  # monotonic


class NodeGroupExaminer(Protocol):
    """A process that can answer questions about its cluster."""

    @property
    def is_ready(self) -> bool:
        """Whether this process may answer questions now."""

    def run_cluster_review(self, spec: ClusterQuestion, deadline_s: float) -> ClusterReviewStatus:
        """Return the answer to a question about the cluster.

        Raise ApiError, ForkedCopyError or RefusedQuestionError.
        """


class NodeGroupRecorder:
    """A thread that adds the verdicts of node groups to the records of attempts that found no node."""

    def __init__(self, examiner: NodeGroupExaminer, record: Callable[[RecordedAttempt, bytes, int], None]) -> None:
        """Prepare the thread without starting it.

        `record` writes verdicts: it gets the attempt, the verdicts as JSON, and the time at which they were made
        (microseconds).
        """
        self._examiner, self._record = examiner, record
        self._changed = threading.Condition()
        self._waiting: dict[str, RecordedAttempt] = {}  # by UID of the pod, in the order of their first attempt
        self._examined: Lru[Hashable, _Examined] = Lru(MAX_TEMPLATES)
        self._results = Counter(dict.fromkeys(RESULTS, 0))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-groups", daemon=True)

    @property
    def results(self) -> dict[str, int]:
        """The number of attempts by result: verdicts recorded, or why not. The keys are the texts of RESULTS."""
        return dict(self._results)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread without waiting for an examination in progress."""
        self._stop.set()
        with self._changed:
            self._changed.notify()

    def add(self, attempt: RecordedAttempt) -> None:
        """Queue an attempt, to whose record the thread adds verdicts, and return at once.

        A waiting attempt of the same pod is replaced. If MAX_WAITING pods wait already, the attempt is only counted.
        """
        with self._changed:
            if attempt.uid not in self._waiting and len(self._waiting) >= MAX_WAITING:
                self._results[SKIPPED_BUSY] += 1
                return
            self._waiting[attempt.uid] = attempt
            self._changed.notify()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                while not self._waiting and not self._stop.is_set():
                    self._changed.wait()
            if self._stop.is_set():
                return
            if not self._examiner.is_ready:
                self._stop.wait(NOT_READY_S)
                continue
            self._stop.wait(self.work())

    def work(self) -> float:
        """Add verdicts to the record of the pod that has waited longest. Return the seconds to pause afterwards.

        Verdicts on another pod of the same template are reused for INTERVAL_S seconds; then the pause is 0.
        """
        with self._changed:
            attempt = self._waiting.pop(next(iter(self._waiting)))
        examined, pause_s = self._examined.get(attempt.template), 0.0
        if examined is None or time.monotonic() - examined.made_s >= INTERVAL_S:
            began = time.monotonic()
            examined = self._examine(attempt)
            self._examined.put(attempt.template, examined)
            pause_s = max(REST_S, (time.monotonic() - began) * REST_FACTOR)
        self._write(attempt, examined)
        return pause_s

    def _examine(self, attempt: RecordedAttempt) -> _Examined:
        """Return the verdicts on the attempt's pod with the events of autoscalers about it, or why there are none."""
        made_us, made_s = time.time_ns() // 1000, time.monotonic()
        pod = f"{attempt.namespace}/{attempt.pod}"
        with suppress(ForkedCopyError, RefusedQuestionError, ApiError, msgspec.DecodeError):
            spec = ClusterQuestion(node_groups=NodeGroupsQuestion(pods=[pod]))
            status = self._examiner.run_cluster_review(spec, DEADLINE_S)
            review = status["nodeGroups"]
            if review is None or not review["groups"]:
                return _Examined(None, SKIPPED_NO_GROUPS, made_us, made_s)
            if review["pods"]:
                return _Examined(bound_node_groups(review, status["notes"]), RECORDED, made_us, made_s)
        klog.info(2, "Cannot record the verdicts of node groups", pod=pod)
        return _Examined(None, SKIPPED_FAILED, made_us, made_s)

    def _write(self, attempt: RecordedAttempt, examined: _Examined) -> None:
        """Write the verdicts for the attempt's pod, if there are any, and count the result.

        If another pod of the template was examined, the events of autoscalers, which are about that pod, are omitted.
        """
        result = examined.result
        if examined.verdicts is not None:
            recorded = examined.verdicts
            (pod,) = recorded["review"]["pods"]
            if pod["name"] != attempt.pod:
                pod = {**pod, "name": attempt.pod, "reports": []}
                recorded = {**recorded, "review": {**recorded["review"], "pods": [pod]}}
            encoded = msgspec.json.encode(recorded)
            if len(encoded) > MAX_RECORDED_BYTES:
                result = SKIPPED_TOO_LARGE
            else:
                self._record(attempt, encoded, examined.made_us)
        self._results[result] += 1
