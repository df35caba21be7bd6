"""Plugins that say what the test wants them to say, and profiles of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from herodotus_record.model import SUCCESS, Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.verdicts import PostFilterResult, PreFilterResult, Verdicts
from scheduler.engine.objects.pod import PodInfo
from tests.scheduler.builders import make_pod

Said = Verdict | Exception
T = TypeVar("T")


def text(words: str, code: Code = Code.UNSCHEDULABLE) -> Verdict:
    return Verdict(code, (Reason("text", {"text": words}),))


def answer(result: T | Exception) -> T:
    """Return the result, or raise it if it is an exception."""
    if isinstance(result, Exception):
        raise result
    return result


class Named:
    """Something with a name and a list of the calls it got, which several plugins may share."""

    def __init__(self, name: str, calls: list[str] | None = None) -> None:
        self.name = name
        self.calls = calls if calls is not None else []


class PreFilters(Named):
    def __init__(self, name: str, said: Said = SUCCESS, names: set[str] | None = None) -> None:
        super().__init__(name)
        self._said, self._names = said, names

    def pre_filter(self, state: Any, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        self.calls.append("preFilter")
        return PreFilterResult(answer(self._said), None if self._names is None else frozenset(self._names))

    def filter(self, state: Any, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        self.calls.append("filter")
        return Verdicts()


class Filters(Named):
    """`says`: node name -> verdict; Success where not given. Or an exception, or a column as it is."""

    def __init__(self, name: str, says: Mapping[str, Verdict] | Exception | Verdicts) -> None:
        super().__init__(name)
        self._says = says

    def filter(self, state: Any, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        self.calls.append("filter")
        says = self._says
        if isinstance(says, Exception):
            raise says
        if isinstance(says, Verdicts):
            return says
        table = [SUCCESS, *says.values()]
        numbers = {name: i for i, name in enumerate(says, 1)}
        return Verdicts(tuple(table), np.array([numbers.get(name, 0) for name in nodes.names], np.uint8))


class PostFilters(Named):
    def __init__(self, name: str, said: Said) -> None:
        super().__init__(name)
        self._said = said
        self.codes: list[int] = []

    def post_filter(self, state: Any, pod: PodInfo, nodes: NodeColumns, codes: Any, dry_run: Any) -> PostFilterResult:
        self.calls.append("postFilter")
        self.codes = codes.tolist()
        return PostFilterResult(answer(self._said))


class Scores(Named):
    """`points`: node name -> raw points, 0 where not given; or an array as it is, or an exception."""

    def __init__(self, name: str, points: Any, pre_score: Said = SUCCESS) -> None:
        super().__init__(name)
        self._points, self._pre_score = points, pre_score

    def pre_score(self, state: Any, pod: PodInfo, nodes: NodeColumns, feasible: Any) -> Verdict:
        self.calls.append("preScore")
        return answer(self._pre_score)

    def score(self, state: Any, pod: PodInfo, nodes: NodeColumns, feasible: Any) -> Any:
        self.calls.append("score")
        points = answer(self._points)
        if isinstance(points, Mapping):
            return np.array([points.get(name, 0) for name in nodes.names], np.int64)
        return points


class Normalized(Scores):
    def __init__(self, name: str, points: Any, normalize: Callable[[Any], Any]) -> None:
        super().__init__(name, points)
        self._normalize = normalize

    def normalize(self, state: Any, pod: PodInfo, raw: Any, feasible: Any) -> Any:
        return self._normalize(raw)


class Reserves(Named):
    def __init__(self, name: str, calls: list[str], said: Said = SUCCESS, unreserve: Said = SUCCESS) -> None:
        super().__init__(name, calls)
        self._said, self._unreserve = said, unreserve

    def reserve(self, state: Any, pod: PodInfo, node: str) -> Verdict:
        self.calls.append(f"reserve {self.name}")
        return answer(self._said)

    def unreserve(self, state: Any, pod: PodInfo, node: str) -> None:
        self.calls.append(f"unreserve {self.name}")
        answer(self._unreserve)


def framework(
    *,
    pre_filter: tuple[Any, ...] = (),
    filter: tuple[Any, ...] = (),
    score: tuple[Any, ...] = (),
    weights: Mapping[str, int] | None = None,
    percentage: int = 0,
    **points: Any,
) -> Framework:
    """Return a framework of these plugins; PreFilter plugins also filter, and score plugins also run at PreScore."""
    given = dict.fromkeys((p.name for p in score), 1) | dict(weights or {})
    return Framework(
        Profile(
            "test",
            weights=given,
            percentage_of_nodes_to_score=percentage,
            pre_filter=pre_filter,
            filter=(*(p for p in pre_filter if hasattr(p, "filter")), *filter),
            pre_score=tuple(p for p in score if hasattr(p, "pre_score")),
            score=score,
            **points,
        ),
        clock=lambda: 0.0,
    )


def run(
    made: Framework, columns: NodeColumns, pod: PodInfo | None = None, seed: int = 0, start: int = 0
) -> CycleResult:
    return schedule(made, pod or make_pod().info(), Snapshot.from_columns(columns), seed, start)
