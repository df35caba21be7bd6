"""Every field of a record or a masked answer, and every parameter of a reason, declares what it discloses.

What declares nothing is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TypedDict, get_type_hints

import pytest

from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.node_groups import PodNodeGroups, RecordedNodeGroups
from herodotus_record import disclosure, model, notes, reasons
from herodotus_record.discloses import Discloses
from herodotus_record.disclosure import (
    HIDDEN,
    HIDDEN_TEXT,
    PARAMETERS,
    list_named_namespaces,
    mask_answer,
    mask_decision,
)
from herodotus_record.fields import find_part, list_disclosures
from herodotus_record.model import Code, Decision, PluginVerdict, Reason, Verdict
from tests.builders import a_decision
from tests.support.answers import as_json
from tests.support.namespaces import OneNamespace

OTHERS = {model.NodeTable}  # built by readers, not recorded
RECORDS = [
    kind for kind in vars(model).values() if isinstance(kind, type) and is_dataclass(kind) and kind not in OTHERS
]


def list_parts(kind: type) -> Iterator[type]:
    """Yield the type of an answer and those of all parts in it."""
    yield kind
    for hint in get_type_hints(kind).values():
        part = find_part(hint)
        if part is not None:
            yield from list_parts(part)


ANSWERS = [*dict.fromkeys([*list_parts(ClusterReviewStatus), *list_parts(RecordedNodeGroups), PodNodeGroups])]
CATALOGUES = {"reasons": reasons.CATALOGUE, "notes": notes.CATALOGUE}


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_record_declares_what_it_discloses(kind: type) -> None:
    assert {field.name for field in fields(kind)} == list_disclosures(kind).keys()


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_masked_answer_declares_what_it_discloses(kind: type) -> None:
    declared = list_disclosures(kind)
    assert get_type_hints(kind).keys() == declared.keys()
    parts = {Discloses.PARTS, Discloses.THIS_POD}
    assert all(field.rule in parts for field in declared.values() if field.part)
    assert all(field.part for field in declared.values() if field.rule is Discloses.PARTS)
    assert sum(field.rule is Discloses.NAMESPACE for field in declared.values()) <= 1
    for name, hint in get_type_hints(kind).items():  # the walk leads through lists, and into one type of parts
        part = declared[name].part
        assert part is None or hint in (part, part | None, list[part]), name  # type: ignore[valid-type]
        assert declared[name].rule is not Discloses.THIS_POD or part is None or hint == list[part], name  # type: ignore[valid-type]


def test_facts_of_pods_are_in_parts_that_name_their_pod() -> None:
    """Otherwise masking would take them for facts of the cluster."""

    def check(kind: type, named: bool) -> None:
        declared = list_disclosures(kind)
        named = named or any(field.rule is Discloses.NAMESPACE for field in declared.values())
        assert named or all(field.rule is not Discloses.THIS_POD for field in declared.values()), kind.__name__
        for field in declared.values():
            if field.part is not None:
                check(field.part, named)

    check(ClusterReviewStatus, named=False)
    check(RecordedNodeGroups, named=False)


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_every_parameter_of_a_sentence_declares_what_it_discloses(catalogue: str) -> None:
    shown = {name for text in CATALOGUES[catalogue].values() for name in re.findall(r"{(\w+)}", text)}
    assert shown <= PARAMETERS.keys()


def test_codes_are_unique() -> None:
    assert not reasons.CATALOGUE.keys() & notes.CATALOGUE.keys()


def test_a_field_without_a_declaration_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(list_disclosures(Decision), "restricted_by")
    decision = replace(a_decision(), restricted_by=("Canary",))
    assert mask_decision(decision, OneNamespace("shop")).restricted_by == ()


class Undeclared(TypedDict):
    text: str
    numbers: list[int]


def test_a_field_of_an_answer_without_a_declaration_is_hidden() -> None:
    answer: Undeclared = {"text": "canary", "numbers": [1]}
    assert as_json(mask_answer(answer, Undeclared, OneNamespace("shop"))) == {"text": HIDDEN, "numbers": []}
    assert not list_named_namespaces(answer, Undeclared)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (Reason("insufficient", {"resource": "cpu"}), Reason("insufficient", {"resource": "cpu"})),
        (
            Reason("insufficient", {"resource": "cpu", "new": "1"}),
            Reason("insufficient", {"resource": "cpu", "new": "1"}),
        ),
        (Reason("insufficient", {"because": "canary"}), Reason("insufficient", {"because": HIDDEN_TEXT})),
        (Reason("canary", {"resource": "cpu"}), Reason("text", {"text": HIDDEN_TEXT})),
        (Reason("text", {"text": "canary"}), Reason("text", {"text": HIDDEN_TEXT})),
        (Reason("pod-anti-affinity", {"pod": "ci/canary"}), Reason("pod-anti-affinity", {"pod": ""})),
        (Reason("pod-anti-affinity", {"pod": "shop/web"}), Reason("pod-anti-affinity", {"pod": "shop/web"})),
        (Reason("pod-anti-affinity", {"pod": "canary"}), Reason("pod-anti-affinity", {"pod": ""})),
        (Reason("evicted", {"victim": "ci/canary"}), Reason("evicted", {"victim": HIDDEN})),
    ],
)
def test_reasons_are_masked_by_their_parameters(reason: Reason, shown: Reason) -> None:
    decision = replace(a_decision(), pre_filters=(PluginVerdict("Any", Verdict(Code.UNSCHEDULABLE, (reason,))),))
    (verdict,) = mask_decision(decision, OneNamespace("shop")).pre_filters
    assert verdict.verdict.reasons == (shown,)


OWN = (Reason("insufficient", {"resource": "example.com/gpu"}), Reason("text", {"text": "canary is there"}))
AVAILABLE = "0/5 nodes are available: "


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        pytest.param("", "", id="none"),
        pytest.param(
            f"{AVAILABLE}1 Too many pods, 4 Insufficient cpu. preemption: {AVAILABLE}5 No preemption victims found for"
            " incoming pod.",
            "",
            id="constant sentences",
        ),
        pytest.param(f"{AVAILABLE}5 Insufficient example.com/gpu.", "", id="of a reason of the record"),
        pytest.param(
            f"{AVAILABLE}5 Insufficient example.com/canary.", f"{AVAILABLE}5 {HIDDEN_TEXT}.", id="of no reason of it"
        ),
        pytest.param(
            f"{AVAILABLE}2 Too many pods, 3 canary is there.",
            f"{AVAILABLE}2 Too many pods, 3 {HIDDEN_TEXT}.",
            id="a plugin's text",
        ),
        pytest.param("no nodes available to schedule pods", "", id="no nodes"),
        pytest.param('running "Any" filter plugin: canary', HIDDEN_TEXT, id="an error"),
        pytest.param(
            f"{AVAILABLE}3 Too many pods canary, 2 Too many pods.",
            f"{AVAILABLE}3 {HIDDEN_TEXT}, 2 Too many pods.",
            id="more behind a sentence",
        ),
        pytest.param("canary. canary, 3 canary", f"{HIDDEN_TEXT}. {HIDDEN_TEXT}, 3 {HIDDEN_TEXT}", id="in no form"),
        pytest.param("Too many podscanary", HIDDEN_TEXT, id="a word that begins with a sentence"),
    ],
)
def test_a_message_shows_only_what_its_reasons_show(message: str, shown: str) -> None:
    verdicts = (PluginVerdict("Any", Verdict(Code.UNSCHEDULABLE, OWN)),)
    decision = replace(a_decision(), pre_filters=verdicts, message=message)
    assert mask_decision(decision, OneNamespace("shop")).message == (shown or message)
    assert disclosure.is_message_public(decision) == (not shown)


def test_every_rule_is_used() -> None:
    used = {field.rule for kind in RECORDS for field in list_disclosures(kind).values()} | {*PARAMETERS.values()}
    assert used == {*Discloses}
