"""The plain plugin form: one node at a time, recorded like all others, asked no more than kube-scheduler asks."""

from __future__ import annotations

from typing import Any

import pytest

from herodotus_record.model import NOT_RUN, SUCCESS, Code, DecisionPath, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.per_node import NodeInfo, PerNodePlugin, adapt_filter, adapt_score
from scheduler.engine.framework.plugin import NoArgs
from scheduler.engine.objects.pod import PodInfo
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Filters, framework, run, text

FULL, TIRED = text("full"), text("tired")
NO_HANDLE: Any = None  # these plugins ask nothing of the scheduler


class Rests(PerNodePlugin):
    """Turns nodes away that carry the label `tired`, and remembers whom it was asked about."""

    name = "Rests"

    def __init__(self) -> None:
        super().__init__(NoArgs(), NO_HANDLE)
        self.asked: list[str] = []

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Verdict | None:
        self.asked.append(node.name)
        return TIRED if "tired" in node.labels else None


class PureRests(Rests):
    pure = True


class FewPods(PerNodePlugin):
    name = "FewPods"

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return 100 - 10 * len(node.pods)


class Free(PerNodePlugin):
    """Free CPU, brought to 0..100."""

    name = "Free"

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> int:
        return node.allocatable("cpu") - node.requested("cpu")

    def normalize(self, state: Any, pod: PodInfo, raw: Any, feasible: Any) -> Any:
        return raw * 100 // max(1, int(raw[feasible].max()))


class Answers(PerNodePlugin):
    name = "Answers"
    answer: Any = None

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return self.answer

    def score(self, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return self.answer


def made(kind: type[PerNodePlugin]) -> Any:
    return kind(NoArgs(), NO_HANDLE)


def cluster() -> NodeColumns:
    return columns_of([make_node("a"), make_node("b").label("tired", "yes"), make_node("c")])


@pytest.mark.parametrize(
    ("plugin", "asked", "said"),
    [
        pytest.param(Rests(), ["b", "c"], [NOT_RUN, TIRED, SUCCESS], id="only the nodes that are left"),
        pytest.param(PureRests(), ["a", "b", "c"], [SUCCESS, TIRED, SUCCESS], id="all of them, being pure"),
    ],
)
def test_filter_runs_on_nodes_that_no_earlier_filter_rejected(
    plugin: Rests, asked: list[str], said: list[Verdict]
) -> None:
    result = run(framework(filter=(Filters("Fit", {"a": FULL}), adapt_filter(plugin))), cluster())
    assert plugin.asked == asked
    assert [result.trace.filters[1].verdicts.verdict_at(slot) for slot in range(3)] == said
    assert (result.path, result.chosen) == (DecisionPath.ONLY_FEASIBLE, 2)


def test_unrequested_node_keeps_its_reason() -> None:
    result = run(framework(filter=(Filters("Fit", {"a": FULL, "c": FULL}), adapt_filter(Rests()))), cluster())
    assert result.message == "0/3 nodes are available: 1 tired, 2 full."
    assert result.rejectors == {"Fit", "Rests"}


def test_points_of_feasible_nodes_become_a_column() -> None:
    columns = cluster()
    columns.add_pod(make_pod("here").info(), "a")
    result = run(framework(score=(adapt_score(made(FewPods)),)), columns)
    assert result.trace.totals is not None
    assert (result.trace.totals.tolist(), result.path) == ([90, 100, 100], DecisionPath.SCORED)


def test_a_plugin_may_normalize_its_points_itself() -> None:
    columns = columns_of([make_node("a").allocatable(cpu="4"), make_node("b").allocatable(cpu="2")])
    result = run(framework(score=(adapt_score(made(Free)),)), columns)
    assert result.trace.totals is not None
    assert result.trace.totals.tolist() == [100, 50]


@pytest.mark.parametrize("answer", [True, "no", Code.UNSCHEDULABLE], ids=repr)
def test_an_answer_that_is_none_fails_the_attempt_with_the_plugin_named(answer: Any) -> None:
    plugin = made(Answers)
    plugin.answer = answer
    result = run(framework(filter=(adapt_filter(plugin),)), cluster())
    assert result.path is DecisionPath.ERROR
    assert result.message == f'running "Answers" filter plugin: returned {answer!r} for node a, which is no Verdict'


class FailsOnB(PerNodePlugin):
    name = "FailsOnB"

    def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Verdict | None:
        if node.name == "b":
            raise LookupError("no such shift")
        return TIRED


def test_an_exception_is_an_error_of_its_node_alone() -> None:
    fit = Filters("Fit", {"b": FULL})
    result = run(framework(filter=(fit, adapt_filter(FailsOnB(NoArgs(), NO_HANDLE)))), cluster())
    assert (result.path, result.message) == (DecisionPath.NONE, "0/3 nodes are available: 1 full, 2 tired.")
    result = run(framework(filter=(adapt_filter(FailsOnB(NoArgs(), NO_HANDLE)),)), cluster())
    assert (result.path, result.message) == (DecisionPath.ERROR, 'running "FailsOnB" filter plugin: no such shift')


@pytest.mark.parametrize("answer", [None, 1.5, True], ids=repr)
def test_points_are_whole_numbers(answer: Any) -> None:
    plugin = made(Answers)
    plugin.answer = answer
    result = run(framework(score=(adapt_score(plugin),)), cluster())
    assert result.path is DecisionPath.ERROR
    assert "returned" in result.message
    assert "which is no int" in result.message


def test_vectorised_plugins_stay_as_they_are() -> None:
    plugin = Filters("Fit", {})
    assert adapt_filter(plugin) is plugin


def test_verdicts_of_one_reason_are_kept_once() -> None:
    class PerLabel(PerNodePlugin):
        name = "PerLabel"

        def filter(self, state: Any, pod: PodInfo, node: NodeInfo) -> Verdict:
            return Verdict(Code.UNSCHEDULABLE, (Reason("text", {"text": node.labels.get("tired", "no")}),))

    verdicts = adapt_filter(made(PerLabel)).filter(run(framework(), cluster()).state, make_pod().info(), cluster())
    assert len(verdicts.table) == 4  # Success, NOT_RUN, and two words
