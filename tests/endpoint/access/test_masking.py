"""What a reader may not see is in nothing that is written down for them; who may see all is shown all."""

from __future__ import annotations

import ast
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import herodotus_endpoint
from herodotus_answers import node
from herodotus_answers.merging import merge_records
from herodotus_answers.node import NodeDecision, NodeHistoryCounts
from herodotus_answers.node_groups import (
    EventReport,
    NodeGroup,
    NodeGroupRejection,
    NodeGroupReview,
    NodeGroupVerdict,
    PodVerdicts,
    RecordedNodeGroups,
)
from herodotus_answers.workload import TIE, PlacementCount
from herodotus_endpoint.access.masking import VisibleNamespaces, list_namespaces, mask
from herodotus_endpoint.api import documents
from herodotus_endpoint.store import StoredAttempt
from herodotus_record import notes
from herodotus_record.disclosure import HIDDEN, HIDDEN_TEXT
from herodotus_record.model import (
    NODE_GROUPS_PHASE,
    REPEATS_PHASE,
    Candidate,
    Code,
    Decision,
    InputColumn,
    Inputs,
    Outcome,
    PluginVerdict,
    Preemption,
    Reason,
    Verdict,
)
from herodotus_record.notes import format_outcome_message
from tests import observed
from tests.builders import a_decision, a_table, bound
from tests.support.answers import as_json, fill

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
SHOP = VisibleNamespaces(frozenset({"shop"}))
ALL = VisibleNamespaces(everything=True)


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


def stored(decision: Decision, message: str = "", reason: Reason | None = None) -> StoredAttempt:
    outcome: Outcome = replace(bound(decision, TABLE), message=message, reason=reason)
    return StoredAttempt(decision, (outcome,), TABLE, 1, 1, 1, 0, False)


def written(value: StoredAttempt) -> str:
    """Every document that is made of a decision."""
    made = [documents.build_record(value), documents.build_explanation(value, every_node=True)]
    return msgspec.json.encode(made).decode()


def evicted(pod: str, error: str = "") -> Reason:
    return Reason("eviction-failed", {"victim": pod, "error": error}) if error else Reason("evicted", {"victim": pod})


def test_hides_and_counts_pods_of_other_namespaces() -> None:
    seen = mask(stored(a_record("ci/job-1", "shop/web-0"), reason=evicted("ci/job-1")), SHOP)
    assert seen.decision.preemption == Preemption("worker-3", (Candidate("worker-3", (HIDDEN, "shop/web-0"), 0),), True)
    assert format_outcome_message(seen.outcomes[0]) == f"{HIDDEN} evicted"
    assert seen.decision.message == f"0/3 nodes are available: {HIDDEN_TEXT}."
    assert "ci/job-1" not in written(seen)
    assert "a pod in the same zone must not be near this pod" in written(seen)


def test_names_pods_of_visible_namespaces() -> None:
    nominated = Reason("nominated-pods", {"node": "worker-3", "nominated": "ci/job-1, shop/web-0"})
    value = stored(replace(a_record("ci/job-1"), notes=(nominated,)), reason=evicted("shop/web-0"))
    assert notes.format_decision_notes(mask(value, SHOP).decision) == [
        f"counted as running, because nominated at that time: worker-3 ({HIDDEN}, shop/web-0)"
    ]
    assert notes.format_decision_notes(
        mask(value, VisibleNamespaces(frozenset({"shop", "ci"}))).decision
    ) == notes.format_decision_notes(value.decision)
    assert format_outcome_message(mask(value, SHOP).outcomes[0]) == "shop/web-0 evicted"


def test_plugin_texts_require_all_namespaces() -> None:
    """However they are worded: what the API server says of a victim is not NAMESPACE/NAME."""
    forbidden = 'pods "job-1" is forbidden: it is of ci'
    value = stored(a_record("shop/web-0"), "the webhook knows job-1", reason=evicted("ci/job-1", forbidden))
    value = replace(value, decision=replace(value.decision, text_notes=("nominated: ci/job-1", "sampled")))
    assert mask(value, ALL) is value
    for sight in (SHOP, VisibleNamespaces(frozenset({"shop", "ci"}))):
        seen = mask(value, sight)
        assert "job-1" not in written(seen).replace("ci/job-1 not evicted", "")
        assert seen.outcomes[0].message == HIDDEN_TEXT
        assert seen.decision.text_notes == (HIDDEN_TEXT,)


def test_masks_the_reconstruction_too() -> None:
    """The log's word stands in the decision; the reconstruction's own sentence is still told."""
    turned_away = {n: {"NodeAffinity": in_the_way("ci/job-1")} for n in TABLE.names}
    ours = observed.seen(rejected=turned_away)
    both = merge_records(ours, observed.turned_away("0/3 nodes are available: ci/job-1 is in the way."))
    value = StoredAttempt(both.decision, both.outcomes, both.table, 1, 1, 1, 0, False, both.origins)
    assert list_namespaces(value) == {"shop", "ci"}
    assert "ci/job-1" in written(value)
    assert "ci/job-1" not in written(mask(value, SHOP))
    emptied = replace(value, decision=replace(both.decision, filters=()))  # as where the log overrules every cell
    assert "ci/job-1" not in written(mask(emptied, SHOP))


def test_value_is_unchanged_if_all_namespaces_are_visible() -> None:
    value = stored(a_record("ci/job-1"), "ci/job-1 evicted")
    assert mask(value, ALL) is value


def test_node_history_counts_hidden_workloads() -> None:
    decided = {
        w: {TIE: PlacementCount(n, n)} for w, n in (("shop/Job/a", 2), ("ci/Job/b", 3), ("dev/Job/c", 4), ("other", 5))
    }
    facts = NodeHistoryCounts(
        Counter(), Counter({"shop/Job/a": 2, "ci/Job/b": 3, "dev/Job/c": 4, "other": 5}), decided, {}
    )
    assert list_namespaces(facts) == {"shop", "ci", "dev"}
    assert mask(facts, SHOP).workloads == {"shop/Job/a": 2, HIDDEN: 7, "other": 5}
    assert {w: by[TIE] for w, by in mask(facts, SHOP).decided.items()} == {
        "shop/Job/a": (2, 2),
        HIDDEN: (7, 7),
        "other": (5, 5),
    }


def test_node_history_masks_hidden_pods_in_recent_decisions() -> None:
    decision = a_record("shop/web-0", namespace="ci")
    involved = mask(NodeDecision(decision, (), 2), SHOP)
    document = msgspec.json.encode(node._recent(involved)).decode()
    assert decision.pod.name not in document
    assert decision.id not in document
    assert (involved.decision.pod.labels, involved.decision.message) == ({}, "")
    assert '"rejectedBy":"NodeAffinity"' in document


def test_hides_inputs_of_plugins_for_hidden_pods() -> None:
    """A source may say the pod's type."""
    told = (Inputs("Reward", "annotation herodotus.dev/rewards, pod type payroll", ()),)
    decision = replace(a_record("shop/web-0", namespace="ci"), inputs=told)
    assert mask(NodeDecision(decision, (), 2), SHOP).decision.inputs == (Inputs("Reward", "", ()),)
    assert mask(NodeDecision(decision, (), 2), ALL).decision.inputs == told


def test_shows_inputs_of_visible_pods_without_texts() -> None:
    known = InputColumn("objective", "", 0, array("q", [1, 2, 3]))
    other = InputColumn("load of ci/job-1", "", 0, array("q", [1, 2, 3]))
    decision = replace(a_record("shop/web-0"), inputs=(Inputs("Pigeon", "annotation of ci/job-1", (known, other)),))
    assert mask(stored(decision), SHOP).decision.inputs == (Inputs("Pigeon", HIDDEN_TEXT, (known,)),)


names = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
pods = st.lists(st.tuples(names, names).map("/canary-".join), min_size=1, max_size=4).map(tuple)


@given(pods=pods, seen=st.sets(names, max_size=3), message=st.text(max_size=20))
def test_no_document_contains_a_hidden_name(pods: tuple[str, ...], seen: set[str], message: str) -> None:
    sight = VisibleNamespaces(frozenset({"shop", *seen}))
    value = stored(a_record(*pods), f"{message} {pods[0]} evicted", evicted(pods[0], f"{pods[-1]} {message}"))
    shown = mask(value, sight)
    hidden = {pod for pod in pods if not sight.sees(pod.partition("/")[0])}
    victims = shown.decision.preemption.candidates[0].victims if shown.decision.preemption else ()
    assert [v for v in victims if v != HIDDEN] == [pod for pod in pods if pod not in hidden]
    assert len(victims) == len(pods)
    assert not [pod for pod in hidden if f"{pod} " in written(shown) or f'{pod}"' in written(shown)]


def test_no_route_uses_the_reader_or_listing_of_the_store_directly() -> None:
    """`masked_reader` masks every answer; the others answer no reader: sizes, checks, traces, the command `archive`."""
    package = Path(herodotus_endpoint.__file__).parent
    users = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if not {"store", "exchange"} & set(file.relative_to(package).parts)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and (node.attr == "reader" or ast.unparse(node).endswith(("store.listing", "store.watched_listing")))
        if ast.unparse(node) != "budget.reader"  # the name of who asks
    }
    assert users == {"app.py", "api/masked_reader.py", "archive/writer.py", "readiness.py", "tracing/exporter.py"}


def test_recorded_verdicts_of_node_groups_are_masked_like_those_of_a_review() -> None:
    rejection = fill(
        NodeGroupRejection, plugin="NodeResourcesFit", reasons=["Insufficient cpu", "secret/pod"], zones=["a"]
    )
    verdict = fill(
        NodeGroupVerdict, group="small", verdict="DoesNotFit", rejections=[rejection], change="lower the request"
    )
    report = fill(EventReport, component="ca", reason="NotTriggerScaleUp", message="secret/pod", at="", count=1)
    pod = fill(PodVerdicts, namespace="shop", name="waits", groups=[verdict], reports=[report])
    group = fill(NodeGroup, name="small", source="label", nodes=1, size=1, shape="Known")
    recorded = fill(
        RecordedNodeGroups, review=fill(NodeGroupReview, groups=[group], pods=[pod]), notes=["secret/pod"], omitted=1
    )
    decision = a_decision(namespace="shop", rejected={"worker-1": {"NodeAffinity": in_the_way("shop/x")}})
    outcome = replace(
        bound(replace(decision, chosen=0), TABLE),
        phase=NODE_GROUPS_PHASE,
        node="",
        final=False,
        node_groups=msgspec.json.encode(recorded).decode(),
    )
    malformed = '{"review": {"groups": "secret/pod"}, "notes": [], "omitted": 0}'
    for outcomes in (
        (outcome,),
        (replace(outcome, node_groups="secret/pod"),),
        (replace(outcome, node_groups=malformed),),
    ):
        stored = StoredAttempt(decision, outcomes, TABLE, 1, 1, 1, 0, replaced=False)
        assert mask(stored, ALL) is stored
        shown = documents.build_explanation(mask(stored, SHOP))
        assert "secret/pod" not in str(shown) + str(documents.build_record(mask(stored, SHOP)))
        assert shown["outcome"]["phases"] == []
        assert ("nodeGroups" in documents.build_explanation(stored)) == (outcomes == (outcome,))
    groups = documents.build_explanation(mask(replace(stored, outcomes=(outcome,)), SHOP))["nodeGroups"]
    (seen,) = groups["pods"][0]["groups"]
    assert (seen["change"], seen["rejections"][0]["reasons"][0]) == ("lower the request", "Insufficient cpu")
    assert (groups["omittedGroups"], groups["notes"], groups["pods"][0]["reports"][0]["message"]) == (
        1,
        [HIDDEN_TEXT],
        HIDDEN_TEXT,
    )
    assert groups["recordedAt"]


def test_the_number_of_repeats_names_nobody_and_is_shown_to_every_reader() -> None:
    decision = a_decision(namespace="shop", rejected={"worker-1": {"NodeAffinity": in_the_way("ci/job-1")}})
    outcome = replace(bound(replace(decision, chosen=0), TABLE), phase=REPEATS_PHASE, node="", final=False, repeats=41)
    stored = StoredAttempt(decision, (outcome,), TABLE, 1, 42, 42, 0, replaced=False)
    shown = mask(stored, SHOP)
    assert "ci/job-1" not in written(shown)
    assert as_json(documents.build_explanation(shown)["attempt"]["repeats"])["count"] == 41
    assert documents.build_record(shown)["status"]["outcomes"][0]["repeats"] == 41
