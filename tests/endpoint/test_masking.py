"""What a reader may not see is in nothing that is written down for them; who may see all is shown all."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_endpoint import documents, history
from herodotus_endpoint.masking import HIDDEN, Sight, masked, namespaces_in
from herodotus_endpoint.store import Involved, NodeFacts, Stored
from herodotus_record.merged import merged
from herodotus_record.model import (
    Candidate,
    Code,
    Decision,
    Inputs,
    Outcome,
    PluginVerdict,
    Preemption,
    Reason,
    Verdict,
)
from herodotus_record.placements import TIE, Tally
from tests import observed
from tests.builders import a_decision, a_table, bound

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
SHOP = Sight(frozenset({"shop"}))
ALL = Sight(everything=True)


def in_the_way(pod: str) -> Verdict:
    return Verdict(Code.UNSCHEDULABLE, (Reason("existing-anti-affinity", {"key": "zone", "pod": pod}),))


def a_record(*pods: str, namespace: str = "shop") -> Decision:
    """A decision that names these pods wherever a record may name one."""
    rejected = {"worker-3": {"NodeAffinity": in_the_way(pods[0])}}
    text = Reason("text", {"text": f"{pods[0]} is in the way, {pods[-1]}2 is not"})
    return replace(
        a_decision(namespace=namespace, rejected=rejected),
        pre_filters=(PluginVerdict("InterPodAffinity", in_the_way(pods[0])),),
        post_filters=(PluginVerdict("Own", Verdict(Code.UNSCHEDULABLE, (text,))),),
        preemption=Preemption("worker-3", (Candidate("worker-3", pods, 0),), evicted=True),
        message=f"0/3 nodes are available: {pods[0]} is in the way.",
    )


def stored(decision: Decision, message: str = "") -> Stored:
    outcome: Outcome = replace(bound(decision, TABLE), message=message)
    return Stored(decision, (outcome,), TABLE, 1, 1, 0, False)


def written(value: Stored) -> str:
    """Every document that is made of a decision."""
    made = [documents.record(value), documents.explanation(value, every_node=True)]
    return msgspec.json.encode(made).decode()


def test_pods_of_other_namespaces_are_hidden_and_counted() -> None:
    seen = masked(stored(a_record("ci/job-1", "shop/web-0"), "ci/job-1 evicted"), SHOP)
    assert seen.decision.preemption == Preemption("worker-3", (Candidate("worker-3", (HIDDEN, "shop/web-0"), 0),), True)
    assert seen.outcomes[0].message == f"{HIDDEN} evicted"
    assert seen.decision.message == f"0/3 nodes are available: {HIDDEN} is in the way."
    assert "ci/job-1" not in written(seen)
    assert "a pod in the same zone must not be near this pod" in written(seen)


def test_what_a_reconstruction_named_by_itself_is_hidden_too() -> None:
    """The log's word stands in the decision; the reconstruction's own sentence is still told."""
    turned_away = {n: {"NodeAffinity": in_the_way("ci/job-1")} for n in TABLE.names}
    ours = observed.seen(rejected=turned_away)
    both = merged(ours, observed.turned_away("0/3 nodes are available: ci/job-1 is in the way."))
    value = Stored(both.decision, both.outcomes, both.table, 1, 1, 0, False, both.origins)
    assert namespaces_in(value) == {"shop", "ci"}
    assert "ci/job-1" in written(value)
    assert "ci/job-1" not in written(masked(value, SHOP))
    emptied = replace(value, decision=replace(both.decision, filters=()))  # as where the log overrules every cell
    assert "ci/job-1" not in written(masked(emptied, SHOP))


def test_a_name_that_begins_as_a_hidden_one_does_is_another_name() -> None:
    record = stored(a_record("ci/job-1", "shop/web-0"), "ci/job-10 and ci/job-1.x stay, ci/job-1 goes")
    assert masked(record, SHOP).outcomes[0].message == f"ci/job-10 and ci/job-1.x stay, {HIDDEN} goes"


@pytest.mark.parametrize("sight", [ALL, Sight(frozenset({"shop", "ci"}))], ids=["everything", "all that is named"])
def test_who_may_see_it_is_shown_the_value_itself(sight: Sight) -> None:
    value = stored(a_record("ci/job-1"), "ci/job-1 evicted")
    assert masked(value, sight) is value


def test_a_nodes_history_counts_what_it_hides() -> None:
    decided = {w: {TIE: Tally(n, n)} for w, n in (("shop/Job/a", 2), ("ci/Job/b", 3), ("dev/Job/c", 4), ("other", 5))}
    facts = NodeFacts(Counter(), Counter({"shop/Job/a": 2, "ci/Job/b": 3, "dev/Job/c": 4, "other": 5}), decided, {})
    assert namespaces_in(facts) == {"shop", "ci", "dev"}
    assert masked(facts, SHOP).workloads == {"shop/Job/a": 2, HIDDEN: 7, "other": 5}
    assert {w: by[TIE] for w, by in masked(facts, SHOP).decided.items()} == {
        "shop/Job/a": (2, 2),
        HIDDEN: (7, 7),
        "other": (5, 5),
    }


def test_a_hidden_pods_part_in_a_nodes_history_is_told_without_it() -> None:
    decision = a_record("shop/web-0", namespace="ci")
    involved = masked(Involved(decision, (), 2), SHOP)
    document = msgspec.json.encode(history._recent(involved)).decode()
    assert decision.pod.name not in document
    assert decision.id not in document
    assert (involved.decision.pod.labels, involved.decision.message) == ({}, "")
    assert '"rejectedBy":"NodeAffinity"' in document


def test_what_a_hidden_pods_plugins_went_by_is_hidden_with_it() -> None:
    """A source may say the pod's type."""
    told = (Inputs("Reward", "annotation herodotus.dev/rewards, pod type payroll", ()),)
    decision = replace(a_record("shop/web-0", namespace="ci"), inputs=told)
    assert masked(Involved(decision, (), 2), SHOP).decision.inputs == ()
    assert masked(Involved(decision, (), 2), ALL).decision.inputs == told


names = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
pods = st.lists(st.tuples(names, names).map("/".join), min_size=1, max_size=4).map(tuple)


@given(pods=pods, seen=st.sets(names, max_size=3), message=st.text(max_size=20))
def test_no_hidden_name_is_in_any_document(pods: tuple[str, ...], seen: set[str], message: str) -> None:
    sight = Sight(frozenset({"shop", *seen}))
    shown = masked(stored(a_record(*pods), f"{message} {pods[0]} evicted"), sight)
    hidden = {pod for pod in pods if not sight.sees(pod.partition("/")[0])}
    victims = shown.decision.preemption.candidates[0].victims if shown.decision.preemption else ()
    assert [v for v in victims if v != HIDDEN] == [pod for pod in pods if pod not in hidden]
    assert len(victims) == len(pods)
    text = written(shown).replace(
        f"{pods[-1]}2", ""
    )  # what a plugin of one's own wrote of a pod that nothing else names
    assert not [pod for pod in hidden if f"{pod} " in text or f'{pod}"' in text]


def test_no_route_asks_the_store_s_reader_itself() -> None:
    """Only what masks (`questions`), and what tells of no pod: sizes and checks, in `app`."""
    room = Path(history.__file__).parent
    asking = {
        str(file.relative_to(room))
        for file in room.rglob("*.py")
        if "store" not in file.relative_to(room).parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "reader" and ast.unparse(node) != "trusted.reader"
    }
    assert asking == {"app.py", "questions.py"}
