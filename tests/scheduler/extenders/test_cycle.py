"""What extenders' answers and failures mean for an attempt: who is asked, what is left, said and recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pytest

from herodotus_record import notes
from herodotus_record.model import NOT_RUN, SUCCESS, Code, DecisionPath, Preemption, Verdict
from scheduler.config import build_profile
from scheduler.config.load import parse_config
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import CycleResult, schedule
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.framework.extender import (
    ExtenderError,
    ExtenderVictims,
    FilteredNodes,
    HostPriorities,
    PreemptionCandidate,
)
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.reserve_and_bind import DeferredBind
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PodBuilder, columns_of, make_node, make_pod

Filter = Callable[[list[str]], FilteredNodes]
T = TypeVar("T")
NOTHING: Mapping[str, str] = {}


def _or_raise(answer: T | ExtenderError) -> T:
    if isinstance(answer, ExtenderError):
        raise answer
    return answer


@dataclass
class FakeExtender:
    """An extender with fixed answers, which keeps its requests as (verb, nodes)."""

    name: str = "http://one"
    filter_answer: Filter | ExtenderError | None = None
    points: Mapping[str, int] | ExtenderError | None = None
    inputs: tuple[NodeInputs, ...] = ()
    bind_answer: ExtenderError | str | None = None
    sacrifices: Mapping[str, ExtenderVictims] | ExtenderError | None = None
    weight: int = 1
    ignorable: bool = False
    is_interested: bool = True
    requests: list[tuple[str, list[str]]] = field(default_factory=list)

    filters = property(lambda self: self.filter_answer is not None)
    prioritizes = property(lambda self: self.points is not None)
    binds = property(lambda self: self.bind_answer is not None)
    preempts = property(lambda self: self.sacrifices is not None)

    def interested(self, pod: PodInfo) -> bool:
        return self.is_interested

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> FilteredNodes:
        names = [node.metadata.name for node in nodes]
        self.requests.append(("filter", names))
        assert self.filter_answer is not None
        return _or_raise(self.filter_answer)(names)

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> HostPriorities:
        self.requests.append(("prioritize", [node.metadata.name for node in nodes]))
        assert self.points is not None
        return HostPriorities(_or_raise(self.points), self.inputs)

    def bind(self, pod: PodInfo, node: str) -> None:
        self.requests.append(("bind", [node]))
        _or_raise(self.bind_answer)

    def preempt(self, pod: PodInfo, candidates: Sequence[PreemptionCandidate]) -> Mapping[str, ExtenderVictims]:
        self.requests.append(("preempt", [c.node for c in candidates]))
        assert self.sacrifices is not None
        return _or_raise(self.sacrifices)


def leaves(*names: str, failed: Mapping[str, str] = NOTHING, unresolvable: Mapping[str, str] = NOTHING) -> Filter:
    return lambda _: FilteredNodes(frozenset(names), failed, unresolvable)


def keeps_all(names: list[str]) -> FilteredNodes:
    return FilteredNodes(frozenset(names), {}, {})


def framework(*extenders: FakeExtender, profile: str = "") -> Framework:
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    return Framework(build_profile(parse_config(text + profile), 0, IN_TREE, NoCluster()), time.monotonic, extenders)


def attempt(pod: PodBuilder, nodes: NodeColumns, *extenders: FakeExtender) -> CycleResult:
    return schedule(framework(*extenders), pod.info(), Snapshot.from_columns(nodes), seed=1)


def three(*pods: PodBuilder) -> NodeColumns:
    return columns_of([make_node("a"), make_node("b"), make_node("c")], pods)


def column(result: CycleResult, extender: str) -> list[Verdict]:
    """Return the recorded verdicts of an extender by slot."""
    (run,) = (run for run in result.trace.filters if run.plugin == extender)
    return [run.verdicts.verdict_at(slot) for slot in range(result.trace.slots)]


def rejected(code: Code, *texts: str) -> tuple[Code, list[str]]:
    return code, list(texts)


def code_and_texts(verdict: Verdict) -> tuple[Code, list[str]]:
    return verdict.code, [reason.params["text"] for reason in verdict.reasons]


# --- filter -----------------------------------------------------------------------------------------------------------


def test_each_extender_gets_the_nodes_that_passed_before() -> None:
    nodes = columns_of([make_node("a").cordoned(), make_node("b"), make_node("c")])
    one = FakeExtender("http://one", filter_answer=leaves("c", failed={"b": "full"}))
    two = FakeExtender("http://two", filter_answer=keeps_all)
    result = attempt(make_pod(), nodes, one, two)
    assert (one.requests, two.requests) == ([("filter", ["b", "c"])], [("filter", ["c"])])
    assert (result.path, nodes.names[result.chosen or 0]) == (DecisionPath.ONLY_FEASIBLE, "c")
    assert [v == NOT_RUN for v in column(result, "http://one")] == [True, False, False]
    assert code_and_texts(column(result, "http://one")[1]) == rejected(Code.UNSCHEDULABLE, "full")
    assert column(result, "http://two") == [NOT_RUN, NOT_RUN, SUCCESS]


LOAD, PRICE = NodeInputColumn("load", np.array([1.0, 2.0])), NodeInputColumn("price", np.array([7.0, 8.0, 9.0]))


def test_extender_inputs_are_kept_for_requested_nodes_and_sources_once() -> None:
    nodes = columns_of([make_node("a"), make_node("b"), make_node("c").cordoned()])
    load, price = NodeInputs("annotation load", (LOAD,)), NodeInputs("annotation price", (PRICE,))

    def keeps(names: list[str]) -> FilteredNodes:
        return FilteredNodes(frozenset(names), {}, {}, (load,))

    one = FakeExtender(filter_answer=keeps, points={"a": 1}, inputs=(load, price))
    result = attempt(make_pod(), nodes, one)
    assert [(run.plugin, run.inputs.source) for run in result.trace.inputs] == [("http://one", "annotation load")]
    np.testing.assert_equal(result.trace.inputs[0].inputs.numbers[0].values, [1, 2, np.nan])
    note = "extender http://one: its inputs are not recorded: annotation price: 3 numbers for 2 nodes"
    assert (result.path, list(notes.format_notes(result.trace.notes))) == (DecisionPath.SCORED, [note])


def test_messages_are_counted_in_the_event_and_preemption_sees_the_codes() -> None:
    """In both maps: unresolvable. In none: gone without a word, and uncounted, as kube-scheduler leaves it."""
    answer = leaves(failed={"a": "full", "b": "full"}, unresolvable={"b": "no GPU"})
    result = attempt(make_pod(), three(), FakeExtender(filter_answer=answer))
    assert result.path is DecisionPath.NONE
    assert result.message.startswith("0/3 nodes are available: 1 full, 1 no GPU. ")
    assert list(result.trace.codes) == [
        Code.UNSCHEDULABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ]
    assert result.rejectors == {"http://one"}


def test_nodes_that_an_extender_omits_without_a_reason_count_as_restricted() -> None:
    """Upstream counts what is absent from its map of reasons; both are."""
    pod = make_pod().required_terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]})
    result = attempt(pod, three(), FakeExtender(filter_answer=leaves()))
    assert result.message.startswith("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. ")


def test_results_for_unrequested_nodes_are_ignored() -> None:
    nodes = columns_of([make_node("a").cordoned(), make_node("b"), make_node("c")])
    answer = leaves("b", "c", failed={"a": "mine", "nowhere": "gone"}, unresolvable={"b": "but passed"})
    result = attempt(make_pod(), nodes, FakeExtender(filter_answer=answer))
    assert column(result, "http://one") == [NOT_RUN, SUCCESS, SUCCESS]
    assert result.path is DecisionPath.SCORED


def test_nodes_may_have_different_messages() -> None:
    names = [f"n{i}" for i in range(5000)]
    nodes = columns_of(make_node(name) for name in names)
    result = attempt(make_pod(), nodes, FakeExtender(filter_answer=leaves(failed={n: f"{n} is full" for n in names})))
    assert [code_and_texts(v)[1] for v in column(result, "http://one")] == [[f"{n} is full"] for n in names]


def test_extender_without_interest_is_skipped_and_marked() -> None:
    extender = FakeExtender(filter_answer=leaves(), points={"a": 10}, is_interested=False)
    result = attempt(make_pod(), three(), extender)
    assert extender.requests == []
    assert [run.skipped for run in result.trace.filters if run.plugin == "http://one"] == [True]
    assert [run.raw for run in result.trace.scores if run.plugin == "http://one"] == [None]


def test_no_extender_is_called_without_feasible_nodes() -> None:
    first = FakeExtender("http://one", filter_answer=leaves())
    second = FakeExtender("http://two", filter_answer=keeps_all)
    attempt(make_pod(), three(), first, second)
    assert (len(first.requests), second.requests) == (1, [])
    cordoned = columns_of([make_node("a").cordoned()])
    attempt(make_pod(), cordoned, second)
    assert second.requests == []


def test_a_failure_ends_the_attempt_with_its_words_and_the_record_names_the_extender() -> None:
    failing = FakeExtender(filter_answer=ExtenderError("the cache is cold"))
    result = attempt(make_pod(), three(), failing)
    assert (result.path, result.message) == (DecisionPath.ERROR, "the cache is cold")
    assert notes.format_notes(result.trace.notes) == ["extender http://one failed to filter: the cache is cold"]


def test_ignorable_extender_runs_last_and_its_failure_is_marked() -> None:
    ignorable = FakeExtender("http://one", filter_answer=ExtenderError("gone"), ignorable=True)
    other = FakeExtender("http://two", filter_answer=leaves("a", "b"))
    result = attempt(make_pod(), three(), ignorable, other)
    assert result.path is DecisionPath.SCORED
    assert ignorable.requests == [("filter", ["a", "b"])]
    assert notes.format_notes(result.trace.notes) == ["extender http://one failed to filter, ignored: gone"]
    assert [run.plugin for run in result.trace.filters if run.skipped][-1] == "http://one"


# --- the nominated node -----------------------------------------------------------------------------------------------


def test_nominated_node_is_evaluated_first() -> None:
    extender = FakeExtender(filter_answer=keeps_all)
    nodes = three()
    result = attempt(make_pod().nominated("b"), nodes, extender)
    assert extender.requests == [("filter", ["b"])]
    assert (result.path, nodes.names[result.chosen or 0]) == (DecisionPath.NOMINATED, "b")


@pytest.mark.parametrize("first", [leaves(failed={"b": "full"}), ExtenderError("gone")], ids=["refused", "failed"])
def test_a_nominated_node_that_is_refused_sends_the_search_on(first: Any) -> None:
    """Also where the extender failed: kube-scheduler only logs that, and asks it again about all nodes."""
    answers: list[Filter | ExtenderError] = [first, leaves("a", "c")]

    def one_by_one(names: list[str]) -> FilteredNodes:
        return _or_raise(answers.pop(0))(names)

    extender = FakeExtender(filter_answer=one_by_one)
    result = attempt(make_pod().nominated("b"), three(), extender)
    assert extender.requests == [("filter", ["b"]), ("filter", ["a", "b", "c"])]
    assert result.path is DecisionPath.SCORED


# --- prioritize -------------------------------------------------------------------------------------------------------


def test_points_are_stretched_weighed_and_added() -> None:
    """0 to 10 becomes 0 to 100; nodes that it does not name get none, and what it says of others is not heard."""
    nodes = columns_of([make_node("a"), make_node("b"), make_node("c").cordoned()])
    plain = attempt(make_pod(), nodes)
    one = FakeExtender("http://one", points={"b": 7, "c": 9, "nowhere": 3}, weight=2)
    two = FakeExtender("http://two", points={"a": -1}, weight=5)
    result = attempt(make_pod(), nodes, one, two)
    assert plain.trace.totals is not None
    assert result.trace.totals is not None
    assert list(result.trace.totals - plain.trace.totals) == [-50, 140, 0]
    columns = {}
    for run in result.trace.scores[-2:]:
        assert run.raw is not None
        assert run.normalized is not None
        columns[run.plugin] = (run.raw.tolist(), run.normalized.tolist(), run.weight)
    assert columns == {"http://one": ([0, 7, 0], [0, 70, 0], 2), "http://two": ([-1, 0, 0], [-10, 0, 0], 5)}
    assert (one.requests, two.requests) == ([("prioritize", ["a", "b"])], [("prioritize", ["a", "b"])])


def test_an_extender_that_filters_changes_no_score() -> None:
    """Upstream forgets the pods on nodes that an extender sent back whole (kubernetes#141781)."""
    nodes = three(make_pod("on-a").request(cpu="2").node("a"), make_pod("on-b").request(cpu="1").node("b"))
    plain, filtered = attempt(make_pod(), nodes), attempt(make_pod(), nodes, FakeExtender(filter_answer=keeps_all))
    assert plain.trace.totals is not None
    assert filtered.trace.totals is not None
    assert list(filtered.trace.totals) == list(plain.trace.totals)
    assert len(set(plain.trace.totals)) == 3


@pytest.mark.parametrize("points", [ExtenderError("gone"), {"a": 1 << 17}], ids=["failed", "beyond-any-sense"])
def test_an_extender_that_fails_to_prioritize_gives_no_points(points: Any) -> None:
    plain = attempt(make_pod(), three())
    result = attempt(make_pod(), three(), FakeExtender(points=points))
    assert result.trace.totals is not None
    assert plain.trace.totals is not None
    assert list(result.trace.totals) == list(plain.trace.totals)
    assert [run.raw for run in result.trace.scores if run.plugin == "http://one"] == [None]
    (mark,) = notes.format_notes(result.trace.notes)
    assert mark.startswith("extender http://one failed to prioritize and gave no scores: ")


def test_the_only_node_is_not_prioritized() -> None:
    extender = FakeExtender(filter_answer=leaves("b"), points={"b": 1})
    assert attempt(make_pod(), three(), extender).path is DecisionPath.ONLY_FEASIBLE
    assert [verb for verb, _ in extender.requests] == ["filter"]


# --- bind -------------------------------------------------------------------------------------------------------------


def bound_by(*extenders: FakeExtender) -> str:
    """Who took the binding: "extender", "plugins", or what an extender said that failed to."""
    ready = framework(*extenders)
    pod = make_pod().info()
    result = attempt(make_pod(), three())
    failure = ready.run_bind(result.state, pod, "a")
    if failure is None:
        return "extender"
    return "plugins" if isinstance(failure, DeferredBind) else join_reasons(failure.verdict)


def test_an_extender_that_binds_replaces_the_bind_plugins() -> None:
    extender = FakeExtender(bind_answer="done")
    assert bound_by(extender) == "extender"
    assert extender.requests == [("bind", ["a"])]


def test_an_extender_s_bind_failure_fails_the_binding_unless_ignorable() -> None:
    assert bound_by(FakeExtender(bind_answer=ExtenderError("no"))) == "no"
    assert bound_by(FakeExtender(bind_answer=ExtenderError("no"), ignorable=True)) == "plugins"
    assert bound_by(FakeExtender(bind_answer="done", is_interested=False)) == "plugins"


# --- preempt ----------------------------------------------------------------------------------------------------------

FULL = {"cpu": "4"}


def crowded() -> NodeColumns:
    """Three nodes, each full of one pod that may be evicted."""
    return three(*(make_pod(f"on-{n}").request(FULL).node(n).priority(1) for n in "abc"))


def preempting(*extenders: FakeExtender) -> CycleResult:
    return attempt(make_pod("p").request(FULL).priority(100), crowded(), *extenders)


def found(result: CycleResult) -> Preemption:
    assert result.trace.preemption is not None
    return result.trace.preemption


def test_candidates_that_an_extender_removes_stay_in_the_record() -> None:
    one = FakeExtender("http://one", sacrifices={n: ExtenderVictims((f"uid-on-{n}",), 0) for n in "ab"})
    two = FakeExtender("http://two", sacrifices={"b": ExtenderVictims(("uid-on-b",), 3)})
    result = preempting(one, two)
    assert sorted(one.requests[0][1]) == ["a", "b", "c"]
    assert sorted(two.requests[0][1]) == ["a", "b"]
    assert found(result).nominated_node == "b"
    by_node = {c.node: (c.rejected_by, c.pdb_violations) for c in found(result).candidates}
    assert by_node == {"a": ("http://two", 0), "b": ("", 3), "c": ("http://one", 0)}


def test_no_candidate_remains_if_the_extender_accepts_none() -> None:
    result = preempting(FakeExtender(sacrifices={}))
    assert result.trace.preemption is None
    assert result.message.endswith("preemption: no candidate node for preemption")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            {"nowhere": ExtenderVictims(("u",), 0)}, 'nodeinfo not found for node name "nowhere"', id="no-node"
        ),
        pytest.param({"a": ExtenderVictims((), 0)}, 'expected at least one victim pod on node "a"', id="no-victims"),
        pytest.param(
            {"a": ExtenderVictims(("uid-on-b",), 0)},
            "extender: http://one claims to preempt pod (UID: &{uid-on-b}) on node: a,"
            " but the pod is not found on that node",
            id="no-pod",
        ),
        pytest.param(ExtenderError("gone"), "gone", id="failed"),
    ],
)
def test_a_failure_ends_preemption_with_its_words(answer: Any, message: str) -> None:
    result = preempting(FakeExtender(sacrifices=answer))
    last = result.trace.post_filters[-1]
    assert (last.plugin, code_and_texts(last.verdict)) == ("DefaultPreemption", rejected(Code.ERROR, message))
    assert notes.format_notes(result.trace.notes) == [f"extender http://one failed to preempt: {message}"]


def test_an_ignorable_extender_without_victims_removes_only_that_node() -> None:
    answer = {"a": ExtenderVictims((), 0), "b": ExtenderVictims(("uid-on-b",), 0)}
    result = preempting(FakeExtender(sacrifices=answer, ignorable=True))
    assert found(result).nominated_node == "b"
    failed = preempting(FakeExtender(sacrifices=ExtenderError("gone"), ignorable=True))
    assert found(failed).nominated_node in ("a", "b", "c")
    assert notes.format_notes(failed.trace.notes) == ["extender http://one failed to preempt, ignored: gone"]
