"""PreFilter: who ends the phase, who only decides it, who narrows."""

import pytest

from herodotus_record.model import SUCCESS, Code, DecisionPath, Evaluation, PluginVerdict, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.verdicts import SKIP
from tests.scheduler.builders import columns_of, make_node
from tests.scheduler.engine.framework.plugins import Filters, PostFilters, PreFilters, Scores, framework, run, text

NODES = ("a", "b", "c")
E, N, R = Evaluation.EVALUATED, Evaluation.RESTRICTED, Evaluation.NOT_REACHED


def cluster() -> NodeColumns:
    return columns_of([make_node(name) for name in NODES])


def test_skip_takes_the_plugins_filter_out() -> None:
    skipping, other = PreFilters("Skipping", SKIP), PreFilters("Other")
    result = run(framework(pre_filter=(skipping, other), score=(Scores("S", {}),)), cluster())

    assert skipping.calls == ["preFilter"]
    assert other.calls == ["preFilter", "filter"]
    assert [(run.plugin, run.skipped) for run in result.trace.filters] == [("Skipping", True), ("Other", False)]
    assert result.trace.feasible.all()


@pytest.mark.parametrize(
    ("first", "second", "ran", "message", "rejectors"),
    [
        pytest.param(
            text("never", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
            text("later"),
            ["preFilter"],
            "0/3 nodes are available: never.",
            {"First"},
            id="UnschedulableAndUnresolvable ends the phase",
        ),
        pytest.param(
            text("maybe"),
            SUCCESS,
            ["preFilter"] * 2,
            "0/3 nodes are available: maybe.",
            {"First"},
            id="Unschedulable goes on",
        ),
        pytest.param(
            text("maybe"),
            text("later"),
            ["preFilter"] * 2,
            "0/3 nodes are available: later.",
            {"First", "Second"},
            id="a later Unschedulable is the phase's",
        ),
    ],
)
def test_rejections(first: Verdict, second: Verdict, ran: list[str], message: str, rejectors: set[str]) -> None:
    plugins = PreFilters("First", first), PreFilters("Second", second)
    result = run(framework(pre_filter=plugins), cluster())

    assert [*plugins[0].calls, *plugins[1].calls] == ran
    assert (result.path, result.message) == (DecisionPath.NONE, message)
    assert result.rejectors == rejectors
    assert result.trace.evaluation.tolist() == [R] * 3
    assert result.trace.filters == []


def test_post_filter_runs_after_a_rejection_and_sees_no_verdicts() -> None:
    post = PostFilters("Post", text("no help"))
    refusing = PreFilters("Refusing", text("no"))
    result = run(framework(pre_filter=(refusing,), post_filter=(post,)), cluster())
    assert result.message == "0/3 nodes are available: no. no help"
    assert post.codes == [255] * 3


@pytest.mark.parametrize(
    ("narrowing", "left", "by"),
    [
        pytest.param([None], "abc", (), id="nobody narrows"),
        pytest.param([{"a", "b"}], "ab", ("P0",), id="one"),
        pytest.param([{"a", "b"}, {"b", "c"}], "b", ("P0", "P1"), id="the intersection"),
        pytest.param([{"a", "b"}, None], "ab", ("P0",), id="one of two"),
        pytest.param([{"b", "unknown"}], "b", ("P0",), id="unknown names are dropped"),
    ],
)
def test_narrowing(narrowing: list[set[str] | None], left: str, by: tuple[str, ...]) -> None:
    plugins = tuple(PreFilters(f"P{i}", names=names) for i, names in enumerate(narrowing))
    result = run(framework(pre_filter=plugins, score=(Scores("S", {}),)), cluster())
    assert result.trace.evaluation.tolist() == [E if name in left else N for name in NODES]
    assert result.trace.restricted_by == by
    assert result.chosen in [NODES.index(name) for name in left]


@pytest.mark.parametrize(
    ("narrowing", "said", "words"),
    [
        pytest.param(
            [set()], Reason("narrowed-empty", {"plugin": "P0"}), "node(s) didn't satisfy plugin P0", id="one names none"
        ),
        pytest.param(
            [{"a"}, {"b"}],
            Reason("narrowed-disjoint", {"plugins": "[P0 P1]"}),
            "node(s) didn't satisfy plugin(s) [P0 P1] simultaneously",
            id="two agree on none",
        ),
    ],
)
def test_narrowing_to_nothing_ends_the_phase(narrowing: list[set[str]], said: Reason, words: str) -> None:
    plugins = (*(PreFilters(f"P{i}", names=names) for i, names in enumerate(narrowing)), PreFilters("Last"))
    result = run(framework(pre_filter=plugins), cluster())

    assert plugins[-1].calls == []
    verdict = Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (said,))
    assert result.trace.pre_filters == [PluginVerdict(plugins[-2].name, verdict)]
    assert (result.path, result.message) == (DecisionPath.NONE, f"0/3 nodes are available: {words}.")


def test_narrowing_to_nothing_outdoes_an_earlier_unschedulable() -> None:
    result = run(
        framework(pre_filter=(PreFilters("First", text("maybe")), PreFilters("Second", names=set()))), cluster()
    )
    assert result.message == "0/3 nodes are available: node(s) didn't satisfy plugin Second."
    assert [v.plugin for v in result.trace.pre_filters] == ["First", "Second"]


def test_narrowed_nodes_count_under_the_plugins_that_narrowed() -> None:
    narrow, full = PreFilters("NodeAffinity", names={"a"}), Filters("Fit", {"a": text("full")})
    result = run(framework(pre_filter=(narrow,), filter=(full,)), cluster())
    assert result.message == "0/3 nodes are available: 1 full, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    assert result.rejectors == {"Fit", "NodeAffinity"}


def test_named_nodes_that_do_not_exist_leave_nothing_to_look_at() -> None:
    result = run(framework(pre_filter=(PreFilters("NodeAffinity", names={"gone"}),)), cluster())
    assert result.message == "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (ValueError("broken"), "broken"),
        (text("broken", Code.ERROR), "broken"),
        (text("later", Code.WAIT), "later"),
        (text("later", Code.PENDING), "later"),
    ],
    ids=["raises", "Error", "Wait", "Pending"],
)
def test_anything_else_fails_the_attempt_by_name(said: Verdict | Exception, words: str) -> None:
    result = run(framework(pre_filter=(PreFilters("Bad", said),)), cluster())
    message = f'running PreFilter plugin "Bad": {words}'
    assert (result.path, result.message) == (DecisionPath.ERROR, message)
    (verdict,) = result.trace.pre_filters
    assert (verdict.plugin, verdict.verdict.code, join_reasons(verdict.verdict)) == ("Bad", Code.ERROR, message)
