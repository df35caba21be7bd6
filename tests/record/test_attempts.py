"""Records of one attempt are matched by outcome and time, in whichever order they arrived."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace
from itertools import permutations

import pytest

from herodotus_record.attempts import APART_US, SKEW_US, group_by_attempt

FULL, OTHER = "0/3 nodes are available: 3 Insufficient cpu.", "0/3 nodes are available: 3 node(s) were unschedulable."


@dataclass(frozen=True)
class Row:
    source: str
    at_s: float
    node: str | None = None
    message: str = ""
    uid: str = ""
    pod: str = "web"
    cluster: str = "c"
    namespace: str = "shop"
    part: int = 0

    @property
    def id(self) -> int:
        return int(self.at_s * 1000) + {"logged": 1 + self.part, "scheduler": 500}.get(self.source, 0)

    @property
    def started_us(self) -> int:
        return int(self.at_s * 1e6)

    @property
    def pod_uid(self) -> str:
        return self.uid or f"{self.namespace}/{self.pod}"


def seen(at_s: float, node: str | None = None, message: str = "", uid: str = "u1", pod: str = "web") -> Row:
    return Row("reconstructed", at_s, node, message, uid, pod)


def logged(at_s: float, node: str | None = None, message: str = "", pod: str = "web") -> Row:
    return Row("logged", at_s, node, message, "", pod)


def own(at_s: float, node: str | None = None, uid: str = "u1") -> Row:
    return Row("scheduler", at_s, node, "", uid, part=1)


def match_rows(*rows: Row) -> list[tuple[str, float, float | None]]:
    """Return for each attempt its UID, the start of its record, and that of the matched log record."""
    return [(a.uid, a.record.at_s, a.logged.at_s if a.logged else None) for a in group_by_attempt(rows)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([seen(10, "n1"), logged(9, "n1")], [("u1", 10, 9)], id="a placement"),
        pytest.param([seen(10, message=FULL), logged(9, message=FULL)], [("u1", 10, 9)], id="a rejection"),
        pytest.param([own(10, "n1"), seen(10.2, "n1")], [("u1", 10, None)], id="observer of our own scheduler"),
        pytest.param(
            [own(10), seen(10.1), own(11), seen(11.1), own(13, "n1"), seen(13.2, "n1")],
            [("u1", 10, None), ("u1", 11, None), ("u1", 13, None)],
            id="observer of our own scheduler, several attempts",
        ),
        pytest.param(
            [own(10, "n1"), seen(10.1, "n2"), seen(10.2, "n1", uid="u2"), seen(14, "n1")],
            [("u1", 10, None), ("u1", 10.1, None), ("u2", 10.2, None), ("u1", 14, None)],
            id="other nodes, pods and times are other attempts",
        ),
        pytest.param(
            [seen(10, "n1"), logged(9, "n2")], [("u1", 9, None), ("u1", 10, None)], id="another node is another attempt"
        ),
        pytest.param(
            [seen(10, message=FULL), logged(9, message=OTHER)],
            [("u1", 9, None), ("u1", 10, None)],
            id="other words are another attempt",
        ),
        pytest.param(
            [logged(1, message=FULL), logged(4, message=FULL), seen(2, message=FULL), seen(12, "n1"), logged(11, "n1")],
            [("u1", 2, 1), ("u1", 4, None), ("u1", 12, 11)],
            id="an attempt that changed nothing on the pod is the log's alone, and the pod's",
        ),
        pytest.param(
            [logged(1, message=FULL), logged(2, message=FULL), seen(3, message=FULL)],
            [("u1", 1, None), ("u1", 3, 2)],
            id="the last one before it was seen",
        ),
        pytest.param(
            [seen(10, "n1"), logged(10 + SKEW_US / 1e6, "n1")], [("u1", 10, 12)], id="clocks that differ a little"
        ),
        pytest.param(
            [seen(1000, "n1"), logged(1000 - APART_US / 1e6 - 1, "n1")],
            [("u1", 99, None), ("u1", 1000, None)],
            id="an hour earlier is another pod of that name",
        ),
        pytest.param(
            [seen(1, "n1", uid="u1"), logged(0, "n1"), seen(9, "n1", uid="u2"), logged(8, "n1")],
            [("u1", 1, 0), ("u2", 9, 8)],
            id="a StatefulSet's pods, one after the other",
        ),
        pytest.param(
            [seen(1, "n1", uid="u1"), logged(5, "n2")],
            [("u1", 1, None), ("shop/web", 5, None)],
            id="after a placement comes another pod",
        ),
        pytest.param(
            [seen(1, message=FULL), logged(5, "n2")],
            [("u1", 1, None), ("u1", 5, None)],
            id="after a rejection the same pod, whose binding was not seen",
        ),
        pytest.param([logged(1, "n1")], [("shop/web", 1, None)], id="a log alone"),
        pytest.param(
            [logged(1, "n1"), replace(logged(1, "n1"), part=1)],
            [("shop/web", 1, None)],
            id="parts of a log that overlap",
        ),
        pytest.param(
            [seen(2, "n1"), logged(1, "n1"), replace(logged(1, "n1"), part=1)],
            [("u1", 2, 1)],
            id="parts of a log that overlap, beside an observer",
        ),
        pytest.param(
            [Row("scheduler", 2, "n1", uid="u1"), logged(1, "n1")],
            [("u1", 1, None), ("u1", 2, None)],
            id="our own decisions are in no other scheduler's log",
        ),
        pytest.param(
            [seen(10, "n1"), logged(9, "n1", pod="api")],
            [("shop/api", 9, None), ("u1", 10, None)],
            id="pods of other names",
        ),
    ],
)
def test_records_of_one_attempt_are_matched_in_any_order(
    rows: list[Row], expected: list[tuple[str, float, float | None]]
) -> None:
    assert [match_rows(*order) for order in permutations(rows)] == [expected] * len(list(permutations(rows)))


@pytest.mark.parametrize(
    "sources",
    [("reconstructed",), ("scheduler", "reconstructed"), ("reconstructed", "logged"), ("logged",)],
    ids="-".join,
)
def test_time_to_match_follows_the_number_of_records(sources: tuple[str, ...]) -> None:
    """Ten times as many took a hundred times as long, and a pod in a loop has ten thousand within minutes."""

    def processor_time(count: int) -> float:
        records = [
            Row(sources[n % len(sources)], n // len(sources) * 0.007, message=FULL, uid="u1", part=n % 2)
            for n in range(count)
        ]
        gc.disable()  # a collection takes as long as all other tests have left objects
        try:
            began_s = time.process_time()
            group_by_attempt(records)
            return time.process_time() - began_s
        finally:
            gc.enable()

    few_s = min(processor_time(1_000) for _ in range(3))
    assert any(processor_time(10_000) < 30 * few_s for _ in range(3))
