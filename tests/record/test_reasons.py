"""Sentences equal kube-scheduler's exactly, and parsing one returns its reason."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_record import reasons
from herodotus_record.kubernetes_version import KubernetesVersion
from herodotus_record.model import Reason
from herodotus_record.reasons import CATALOGUE

shown = {code: sorted(set(re.findall(r"\{(\w+)\}", template))) for code, template in CATALOGUE.items()}
plain = st.text("abcdefghijklmnopqrstuvwxyz0123456789-./[]", min_size=1, max_size=20)


@given(st.data())
def test_parsing_a_sentence_returns_its_reason(data: st.DataObject) -> None:
    code = data.draw(st.sampled_from([c for c in CATALOGUE if c != "text"]))
    reason = Reason(code, {name: data.draw(plain, label=name) for name in shown[code]})
    assert reasons.parse_reason(reasons.format_reason(reason)) == reason


@pytest.mark.parametrize(("version", "unit"), [("v1.34.9", "characters"), ("v1.35.0", "bytes")])
def test_an_error_has_the_words_of_its_version(version: str, unit: str) -> None:
    message = reasons.format_error("name part must be no more than 63 bytes", KubernetesVersion.parse(version))
    assert message == f"name part must be no more than 63 {unit}"


@given(st.text(min_size=1))
def test_an_unknown_sentence_is_kept_as_text(words: str) -> None:
    assert reasons.format_reason(reasons.parse_reason(words)) == words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason("unschedulable"), "node(s) were unschedulable"),
        (Reason("node-name"), "node(s) didn't match the requested node name"),
        (Reason("untolerated-taint", {"key": "k"}), "node(s) had untolerated taint(s)"),
        (Reason("node-affinity"), "node(s) didn't match Pod's node affinity/selector"),
        (Reason("enforced-node-affinity"), "node(s) didn't match scheduler-enforced node affinity"),
        (Reason("affinity-conflict"), "pod affinity terms conflict"),
        (Reason("ports"), "node(s) didn't have free ports for the requested pod ports"),
        (Reason("too-many-pods"), "Too many pods"),
        (Reason("insufficient", {"resource": "example.com/gpu"}), "Insufficient example.com/gpu"),
        (Reason("narrowed", {"plugins": "[NodeAffinity]"}), "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        (Reason("narrowed-empty", {"plugin": "P"}), "node(s) didn't satisfy plugin P"),
        (Reason("narrowed-disjoint", {"plugins": "[A B]"}), "node(s) didn't satisfy plugin(s) [A B] simultaneously"),
        (Reason("gated", {"gates": "[a b]"}), "waiting for scheduling gates: [a b]"),
        (Reason("no-nodes"), "no nodes available to schedule pods"),
        (Reason("no-claims"), "no new claims to deallocate"),
        (Reason("no-victims"), "No preemption victims found for incoming pod"),
        (Reason("preemption-unhelpful"), "Preemption is not helpful for scheduling"),
        (Reason("preemption-never"), "not eligible due to preemptionPolicy=Never."),
    ],
    ids=lambda v: v.code if isinstance(v, Reason) else "",
)
def test_sentences_equal_those_of_kube_scheduler(reason: Reason, words: str) -> None:
    assert reasons.format_reason(reason) == words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason("moon-phase"), "moon-phase"),
        (Reason("moon-phase", {"phase": "full", "at": "9"}), "moon-phase (at=9, phase=full)"),
        (Reason("insufficient"), "Insufficient <resource>"),
    ],
    ids=["code", "with parameters", "a parameter is missing"],
)
def test_a_code_of_a_newer_version_is_shown_with_its_parameters(reason: Reason, words: str) -> None:
    assert reasons.format_reason(reason) == words


CPU, PODS, TAINT = "Insufficient cpu", "Too many pods", "node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("total", "per_node", "before", "after", "message"),
    [
        pytest.param(3, [(CPU, 3)], "", "", "0/3 nodes are available: 3 Insufficient cpu.", id="one reason"),
        pytest.param(
            12,
            [(PODS, 2), (CPU, 10)],
            "",
            "",
            "0/12 nodes are available: 10 Insufficient cpu, 2 Too many pods.",
            id="sorted as text",
        ),
        pytest.param(
            3,
            [(CPU, 1), (TAINT, 1), (CPU, 1)],
            "",
            "",
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            id="counted together",
        ),
        pytest.param(3, [], "", "", "0/3 nodes are available:", id="nothing to say"),
        pytest.param(
            3,
            [(CPU, 3)],
            "pod affinity terms conflict",
            "",
            "0/3 nodes are available: pod affinity terms conflict.",
            id="PreFilter",
        ),
        pytest.param(
            3, [(CPU, 3)], "", "more", "0/3 nodes are available: 3 Insufficient cpu. more", id="PostFilter adds no dot"
        ),
        pytest.param(3, [], "claim", "not found", "0/3 nodes are available: claim. not found", id="both"),
    ],
)
def test_the_fit_error_of_a_pod_without_feasible_node(
    total: int, per_node: list[tuple[str, int]], before: str, after: str, message: str
) -> None:
    assert reasons.format_fit_error(total, per_node, before, after) == message


def test_fit_errors_equal_the_examples_of_kube_scheduler() -> None:
    """The nested messages are built as kube-scheduler's plugins build them."""
    victims, help_ = reasons.format_reason(Reason("no-victims")), reasons.format_reason(Reason("preemption-unhelpful"))
    preemption = reasons.format_reason(
        Reason("preemption", {"message": reasons.format_fit_error(3, [(victims, 2), (help_, 1)])})
    )
    after = f"{reasons.format_reason(Reason('no-claims'))}, {preemption}"
    memory = reasons.format_reason(Reason("insufficient", {"resource": "memory"}))
    assert reasons.format_fit_error(3, [(TAINT, 1), (memory, 2)], "", after) == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient memory. no new claims to"
        " deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption"
        " victims found for incoming pod."
    )
