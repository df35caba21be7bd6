"""Which attempts get the verdicts of node groups, how often they are made, and what is skipped and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from herodotus_answers.cluster_questions import ClusterQuestion
from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.node_groups import (
    MAX_RECORDED,
    EventReport,
    NodeGroup,
    NodeGroupReview,
    NodeGroupVerdict,
    PodVerdicts,
)
from scheduler.recorder.recorder import RecordedAttempt
from scheduler.reviews.forked_copies import ForkedCopyError
from scheduler.reviews.node_group_recorder import (
    INTERVAL_S,
    MAX_WAITING,
    RECORDED,
    REST_S,
    SKIPPED_BUSY,
    SKIPPED_FAILED,
    SKIPPED_NO_GROUPS,
    SKIPPED_TOO_LARGE,
    NodeGroupRecorder,
)
from tests.support.answers import a_status, fill

Json = dict[str, Any]


class Examiner:
    """A process whose cluster has as many node groups as `groups`; the last one fits."""

    is_ready = True

    def __init__(self, groups: int = 2) -> None:
        self.groups, self.asked, self.unknown = groups, list[str](), ""

    def run_cluster_review(self, spec: ClusterQuestion, deadline_s: float) -> ClusterReviewStatus:
        if self.groups < 0:
            raise ForkedCopyError("the process is too busy")
        assert spec.node_groups is not None
        assert deadline_s > 0
        (pod,) = spec.node_groups.pods
        self.asked.append(pod)
        names = [f"g{i}" for i in range(self.groups)]
        verdicts = [fill(NodeGroupVerdict, group=name, verdict="DoesNotFit", unknown=self.unknown) for name in names]
        for verdict in verdicts[-1:]:
            verdict["verdict"] = "Fits"
        report = fill(EventReport, component="ca", reason="NotTriggerScaleUp", message="m", at="", count=1)
        namespace, _, name = pod.partition("/")
        judged = fill(PodVerdicts, namespace=namespace, name=name, groups=verdicts, reports=[report])
        groups = [fill(NodeGroup, name=name, source="label", nodes=1, size=1, shape="Known") for name in names]
        return a_status(nodeGroups=fill(NodeGroupReview, groups=groups, pods=[judged]), notes=["a note"])


class Rig:
    def __init__(self, groups: int = 2) -> None:
        self.examiner, self.written = Examiner(groups), list[tuple[str, Json, int]]()
        self.recorder = NodeGroupRecorder(self.examiner, self._write)

    def _write(self, attempt: RecordedAttempt, verdicts: bytes, at_us: int) -> None:
        self.written.append((attempt.pod, json.loads(verdicts), at_us))

    def examine(self, name: str, template: str = "t") -> float:
        self.recorder.add(attempt(name, template))
        return self.recorder.work()


def attempt(name: str, template: str = "t") -> RecordedAttempt:
    return RecordedAttempt(f"decision-{name}", 1, "shop", name, f"uid-{name}", template)


def test_pods_of_a_template_share_the_verdicts_of_an_interval_but_not_their_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, now = Rig(), [1000.0]
    monkeypatch.setattr("scheduler.reviews.node_group_recorder.time.monotonic", lambda: now[0])
    assert rig.examine("a") == REST_S
    assert rig.examine("b") == 0.0
    assert rig.examine("c", "other") == REST_S
    now[0] += INTERVAL_S
    rig.examine("b")
    assert rig.examiner.asked == ["shop/a", "shop/c", "shop/b"]
    pods = [document["review"]["pods"][0] for _, document, _ in rig.written]
    assert [(pod["name"], len(pod["reports"])) for pod in pods] == [("a", 1), ("b", 0), ("c", 1), ("b", 1)]
    assert rig.written[0][2] == rig.written[1][2] < rig.written[3][2]
    assert rig.recorder.results[RECORDED] == 4


def test_a_record_has_room_for_some_groups_and_those_that_fit_come_first() -> None:
    rig = Rig(MAX_RECORDED + 5)
    rig.examine("a")
    ((_, document, _),) = rig.written
    verdicts = document["review"]["pods"][0]["groups"]
    assert (len(verdicts), len(document["review"]["groups"]), document["omitted"]) == (MAX_RECORDED, MAX_RECORDED, 5)
    assert (verdicts[0]["group"], verdicts[0]["verdict"]) == (f"g{MAX_RECORDED + 4}", "Fits")
    assert document["notes"] == ["a note"]


@pytest.mark.parametrize(
    ("groups", "unknown", "result"),
    [(-1, "", SKIPPED_FAILED), (0, "", SKIPPED_NO_GROUPS), (40, "x" * 2000, SKIPPED_TOO_LARGE)],
)
def test_what_is_not_recorded_is_counted(groups: int, unknown: str, result: str) -> None:
    rig = Rig(groups)
    rig.examiner.unknown = unknown
    rig.examine("a")
    assert (rig.written, rig.recorder.results[result]) == ([], 1)


def test_attempts_beyond_the_limit_are_counted_and_a_later_attempt_replaces_an_earlier_one() -> None:
    rig = Rig()
    for i in range(MAX_WAITING):
        rig.recorder.add(attempt(f"p{i}"))
    rig.recorder.add(attempt("p0"))
    assert rig.recorder.results[SKIPPED_BUSY] == 0
    rig.recorder.add(attempt("one-more"))
    assert rig.recorder.results[SKIPPED_BUSY] == 1
