"""Filter: all verdicts are kept, and the outcome is that of stopping at each node's first failure."""

from unittest.mock import Mock

import numpy as np
import pytest

from herodotus_record.model import SUCCESS, Code, DecisionPath, Evaluation, Reason, Verdict
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.verdicts import Verdicts
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Filters, PostFilters, Scores, framework, run, text

FULL, TAINTED, BROKEN = text("full"), text("tainted", Code.UNSCHEDULABLE_AND_UNRESOLVABLE), text("broken", Code.ERROR)


def cluster(*names: str) -> NodeColumns:
    return columns_of([make_node(name) for name in names or ("a", "b", "c")])


def test_every_filter_sees_every_node_and_the_first_failure_is_the_reason() -> None:
    taints, fit = Filters("Taints", {"a": TAINTED}), Filters("Fit", {"a": FULL, "b": FULL})
    result = run(framework(filter=(taints, fit)), cluster())

    assert taints.calls == fit.calls == ["filter"]
    trace = result.trace
    assert trace.codes.tolist() == [Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE, Code.SUCCESS]
    assert trace.first.tolist() == [0, 1, -1]
    assert [[run.verdicts.verdict_at(slot) for slot in range(3)] for run in trace.filters] == [
        [TAINTED, SUCCESS, SUCCESS],
        [FULL, FULL, SUCCESS],
    ]
    assert (result.path, result.chosen) == (DecisionPath.ONLY_FEASIBLE, 2)


def test_no_node_is_feasible() -> None:
    made = framework(filter=(Filters("Taints", {"a": TAINTED}), Filters("Fit", {"a": FULL, "b": FULL, "c": FULL})))
    result = run(made, cluster())
    assert (result.path, result.chosen) == (DecisionPath.NONE, None)
    assert result.message == "0/3 nodes are available: 1 tainted, 2 full."
    assert result.rejectors == {"Taints", "Fit"}


def test_a_reason_counts_once_a_node_and_several_reasons_each() -> None:
    both = Verdict(Code.UNSCHEDULABLE, (Reason("insufficient", {"resource": "cpu"}), Reason("too-many-pods")))
    one = Verdict(Code.UNSCHEDULABLE, (Reason("insufficient", {"resource": "cpu"}),))
    names = [f"n{i:02}" for i in range(12)]
    says = dict.fromkeys(names[:10], one) | dict.fromkeys(names[10:], both)
    result = run(framework(filter=(Filters("Fit", says),)), cluster(*names))
    assert (
        result.message == "0/12 nodes are available: 12 Insufficient cpu, 2 Too many pods."
    )  # "12 ..." before "2 ..."


def test_only_filters_that_were_first_somewhere_must_change_their_mind() -> None:
    made = framework(filter=(Filters("First", {"a": FULL}), Filters("Never", {"a": FULL})))
    assert run(made, cluster("a")).rejectors == {"First"}


def test_an_error_behind_a_rejection_has_no_effect() -> None:
    result = run(framework(filter=(Filters("Fit", {"a": FULL}), Filters("Bad", {"a": BROKEN}))), cluster("a", "b"))
    assert (result.path, result.chosen) == (DecisionPath.ONLY_FEASIBLE, 1)


@pytest.mark.parametrize("code", [Code.ERROR, Code.WAIT, Code.SKIP])
def test_an_error_that_comes_first_fails_the_attempt(code: Code) -> None:
    """Wait and Skip mean nothing at Filter, so they are errors too."""
    bad = Filters("Bad", {"b": text("broken", code)})
    result = run(framework(filter=(Filters("Fit", {"a": FULL}), bad)), cluster())
    assert (result.path, result.chosen) == (DecisionPath.ERROR, None)
    assert result.message == 'running "Bad" filter plugin: broken'


def test_pending_is_a_rejection() -> None:
    slow, fit = Filters("Slow", {"a": text("soon", Code.PENDING)}), Filters("Fit", {"b": FULL})
    result = run(framework(filter=(slow, fit)), cluster("a", "b"))
    assert (result.path, result.message) == (DecisionPath.NONE, "0/2 nodes are available: 1 full, 1 soon.")
    assert result.rejectors == {"Slow", "Fit"}
    assert result.pending == {"Slow"}


@pytest.mark.parametrize(
    ("says", "words"),
    [
        pytest.param(ZeroDivisionError("by zero"), "by zero", id="raises"),
        pytest.param(
            Verdicts((SUCCESS, FULL), np.zeros(2, np.uint8)), "returned 2 verdicts for 3 slots", id="too short"
        ),
        pytest.param(
            Verdicts((SUCCESS,), np.ones(3, np.uint8)),
            "index 1 is out of bounds for axis 0 with size 1",
            id="an unknown verdict",
        ),
    ],
)
def test_a_plugin_that_breaks_its_contract_is_blamed_by_name(says: Exception | Verdicts, words: str) -> None:
    result = run(framework(filter=(Filters("Bad", says),)), cluster())
    assert (result.path, result.message) == (DecisionPath.ERROR, f'running "Bad" filter plugin: {words}')


def test_no_nodes() -> None:
    result = run(framework(post_filter=(PostFilters("Post", text("never asked")),)), NodeColumns())
    assert (result.path, result.message, result.rejectors) == (
        DecisionPath.NONE,
        "no nodes available to schedule pods",
        frozenset(),
    )
    assert result.trace.post_filters == []


def test_slot_without_a_node_is_absent_regardless_of_filters() -> None:
    columns = cluster()
    columns.remove_node("b")
    made = framework(filter=(Filters("Fit", {"a": FULL, "c": FULL, "": BROKEN}),))
    result = run(made, columns)
    assert result.trace.evaluation.tolist() == [Evaluation.EVALUATED, Evaluation.ABSENT, Evaluation.EVALUATED]
    assert result.message == "0/2 nodes are available: 2 full."


@pytest.mark.parametrize(
    ("said", "ran", "suffix"),
    [
        pytest.param([text("one"), text("two")], 2, " one, two", id="Unschedulable: the next one too"),
        pytest.param([SUCCESS, text("two")], 1, "", id="Success ends it without words"),
        pytest.param(
            [text("never", Code.UNSCHEDULABLE_AND_UNRESOLVABLE), text("two")], 1, " never", id="unresolvable ends it"
        ),
        pytest.param([text("broken", Code.ERROR), text("two")], 1, " broken", id="Error ends it"),
        pytest.param([ValueError("raised"), text("two")], 1, " raised", id="one that raises is an Error"),
    ],
)
def test_post_filter(said: list[Verdict | Exception], ran: int, suffix: str) -> None:
    """Whatever it answers, the pod stays unschedulable."""
    plugins = tuple(PostFilters(f"P{i}", each) for i, each in enumerate(said))
    result = run(framework(filter=(Filters("Fit", {"a": FULL, "b": TAINTED}),), post_filter=plugins), cluster("a", "b"))
    assert sum(len(p.calls) for p in plugins) == ran
    assert plugins[0].codes == [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE]
    assert (result.path, result.message) == (DecisionPath.NONE, f"0/2 nodes are available: 1 full, 1 tainted.{suffix}")
    assert result.rejectors == {"Fit"}


def test_the_only_feasible_node_is_not_scored() -> None:
    scorer = Scores("S", {})
    result = run(framework(filter=(Filters("Fit", {"a": FULL, "c": FULL}),), score=(scorer,)), cluster())
    assert (result.path, result.chosen, scorer.calls) == (DecisionPath.ONLY_FEASIBLE, 1, [])
    assert result.trace.totals is None


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), SystemExit("bye")])
def test_a_plugin_that_raises_has_no_effect_where_every_node_was_rejected_before(error: BaseException) -> None:
    fit, bad = Filters("Fit", {"a": FULL, "b": FULL, "c": FULL}), Filters("Bad", {})
    bad.filter = Mock(side_effect=error)  # type: ignore[method-assign]
    result = run(framework(filter=(fit, bad)), cluster())
    bad.filter.assert_called_once()
    assert (result.path, result.message) == (DecisionPath.NONE, "0/3 nodes are available: 3 full.")


def test_plugin_that_raised_is_run_again() -> None:
    bad = Filters("Bad", ZeroDivisionError("by zero"))
    made, nodes, pod = framework(filter=(bad,)), cluster(), make_pod().info()
    assert schedule(made, pod, Snapshot.from_columns(nodes), seed=0).path is DecisionPath.ERROR
    bad._says = {"a": FULL, "b": FULL, "c": FULL}
    assert schedule(made, pod, Snapshot.from_columns(nodes), seed=0).message == "0/3 nodes are available: 3 full."
