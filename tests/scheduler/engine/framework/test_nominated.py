"""A nominated node that fits is taken without looking further."""

from herodotus_record.model import Code, DecisionPath, Evaluation
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Filters, PreFilters, Reserves, Scores, framework, run, text

E, NOT_NEEDED, RESTRICTED = Evaluation.EVALUATED, Evaluation.NOT_NEEDED, Evaluation.RESTRICTED


def cluster() -> NodeColumns:
    return columns_of([make_node("a"), make_node("b"), make_node("c")])


def nominee(node: str) -> PodInfo:
    return make_pod().nominated(node).info()


def test_it_fits() -> None:
    scorer = Scores("S", {"a": 100})
    result = run(framework(score=(scorer,)), cluster(), nominee("b"), start=2)
    assert (result.path, result.chosen, result.next_start) == (DecisionPath.NOMINATED, 1, 2)
    assert result.trace.evaluation.tolist() == [NOT_NEEDED, E, NOT_NEEDED]
    assert scorer.calls == []


def test_it_fits_although_pre_filter_named_others() -> None:
    result = run(framework(pre_filter=(PreFilters("P", names={"a"}),)), cluster(), nominee("b"))
    assert (result.path, result.chosen) == (DecisionPath.NOMINATED, 1)
    assert result.trace.evaluation.tolist() == [NOT_NEEDED, E, RESTRICTED]


def test_it_is_full() -> None:
    made = framework(filter=(Filters("Fit", {"b": text("full")}),), score=(Scores("S", {"c": 1}),))
    result = run(made, cluster(), nominee("b"))
    assert (result.path, result.chosen) == (DecisionPath.SCORED, 2)
    assert result.trace.evaluation.tolist() == [E, E, E]


def test_nominated_node_is_unknown_or_deleted() -> None:
    columns = cluster()
    columns.add_pod(make_pod("other").node("b").info(), "b")
    columns.remove_node("b")
    for node in ("b", "unknown"):
        assert run(framework(score=(Scores("S", {"a": 1}),)), columns, nominee(node)).chosen == 0


def test_an_error_there_fails_the_whole_search_only() -> None:
    made = framework(filter=(Filters("Bad", {"b": text("broken", Code.ERROR)}),))
    result = run(made, cluster(), nominee("b"))
    assert (result.path, result.message) == (DecisionPath.ERROR, 'running "Bad" filter plugin: broken')


def test_reservations_are_undone_in_reverse_even_where_one_raises() -> None:
    calls: list[str] = []
    plugins = (
        Reserves("One", calls),
        Reserves("Two", calls, unreserve=ValueError("cannot")),
        Reserves("Three", calls, said=text("no")),
        Reserves("Four", calls),
    )
    made, pod = framework(reserve=plugins), make_pod().info()
    state = CycleState()

    refused = made.run_reserve(state, pod, "a")
    made.run_unreserve(state, pod, "a")

    assert refused is not None
    assert (refused.plugin, refused.verdict) == ("Three", text("no"))
    assert calls == [
        *("reserve One", "reserve Two", "reserve Three"),
        *("unreserve Four", "unreserve Three", "unreserve Two", "unreserve One"),
    ]
