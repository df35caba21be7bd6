"""The declarations of the fields of a record: masking hides what they say, and documents have the paths they say."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Set
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from herodotus_answers import pod as answers
from herodotus_answers.decision import GroupCycle, Reconstruction, RequeueEvent, Retry, build_decision_document
from herodotus_answers.devices import AllocatedDevice
from herodotus_answers.schema import build_schemas
from herodotus_record import disclosure, model, notes, reasons
from herodotus_record.discloses import Discloses
from herodotus_record.disclosure import PARAMETERS, mask_decision, mask_outcome
from herodotus_record.fields import INLINE, list_declarations, list_unknown_paths
from herodotus_record.model import Column, Decision, Outcome, Reason
from scheduler.offline.observe import observer
from scheduler.offline.read_log import records as read_log
from tests.builders import a_table
from tests.support.namespaces import OneNamespace

RECORDS = [kind for kind in vars(model).values() if isinstance(kind, type) and is_dataclass(kind)]
DOCUMENT = build_schemas()["Decision"]["properties"]
CANARY = "canary"
SHOWN = {Discloses.NOTHING, Discloses.NODES}
UNKNOWABLE = {path.removeprefix("spec.") for path in list_unknown_paths(Decision)}


def fill(annotation: Any, text: str, hidden: Set[Discloses]) -> Any:
    """Return a value of this type in which every text is `text` and every collection has an entry."""
    arguments = [a for a in get_args(annotation) if a not in (type(None), ...)]
    if get_origin(annotation) is tuple:
        return tuple(fill(a, text, hidden) for a in arguments)
    if get_origin(annotation) is Mapping:
        return {fill(arguments[0], text, hidden): fill(arguments[1], text, hidden)}
    if arguments:  # optional
        return fill(arguments[0], text, hidden)
    if annotation is Column:
        return array("B", [0])
    if is_dataclass(annotation):
        return build(annotation, hidden)
    if issubclass(annotation, Enum):
        return next(iter(annotation))
    return text if annotation is str else annotation()


def build(kind: Any, hidden: Set[Discloses]) -> Any:
    """Return a part in which each text is the field's name, with a canary if the field's declaration is in `hidden`."""
    declared, values = list_declarations(kind), {}
    for name, annotation in get_type_hints(kind).items():
        text = f"{CANARY if declared[name].discloses in hidden else 'shown'}-{name}"
        values[name] = fill(annotation, text, hidden)
    return kind(**values)


def each_reason(shown: Set[Discloses]) -> Iterator[Reason]:
    """Yield a reason of every code, with a canary in each parameter that discloses something else than `shown`."""
    for code in (*reasons.CATALOGUE, *notes.CATALOGUE, *reasons.CHANGES):
        yield Reason(code, {name: name if rule in shown else f"ci/{CANARY}" for name, rule in PARAMETERS.items()})
        yield Reason(code, {"undeclared": CANARY})
    yield Reason(CANARY, {"text": CANARY})


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_declared_path_has_a_meaning(kind: type) -> None:
    for name, declared in list_declarations(kind).items():
        assert bool(declared.meaning) == (declared.path not in ("", INLINE)), name
        assert not declared.meaning or declared.meaning.endswith("."), name


@pytest.mark.parametrize(
    ("namespace", "hidden"),
    [
        ("other", {*Discloses} - SHOWN),
        ("shown-namespace", {*Discloses} - SHOWN - {Discloses.NAMESPACE, Discloses.THIS_POD}),
    ],
    ids=["reader of another namespace", "reader of the pod's namespace"],
)
def test_a_reader_sees_no_text_that_is_not_declared_as_shown(namespace: str, hidden: Set[Discloses]) -> None:
    decision, outcome = build(Decision, hidden), build(Outcome, hidden)
    reader = OneNamespace(namespace)
    shown = [mask_decision(decision, reader), mask_outcome(outcome, decision, reader)]
    assert str(decision).count(CANARY) >= 10
    assert CANARY in str(outcome)
    assert CANARY not in str(shown)
    for name in (
        "plugin",
        "phase",
        "restricted_by",
        "nominated_node",
        *(() if namespace == "other" else ("labels", "uid")),
    ):
        assert f"shown-{name}" in str(shown)


def test_reasons_hide_every_parameter_that_is_not_declared_as_shown() -> None:
    for namespace, shown in (("shop", {*SHOWN, Discloses.THIS_POD}), ("other", SHOWN)):
        view = disclosure._View(OneNamespace(namespace), "shop")
        for reason in each_reason(shown):
            assert CANARY not in str(view.part(reason)), reason


def test_only_fields_that_may_be_unknown_are_in_unknown() -> None:
    assert {*observer.UNKNOWN, *read_log._NEVER, *answers._SHARED} <= UNKNOWABLE
    assert {"snapshot.nodes", "snapshot.feasible", "scheduler.profile", "scores.raw"} <= UNKNOWABLE


def test_the_document_has_the_declared_fields() -> None:
    decision, outcome = (build(kind, frozenset()) for kind in (Decision, Outcome))
    document = build_decision_document(decision, [outcome], a_table(["worker-1"]))
    assert document["spec"].keys() == DOCUMENT["spec"]["properties"].keys() - {"origins", "archive"}
    assert document["status"].keys() == DOCUMENT["status"]["properties"].keys() - {"lost"}
    for path in UNKNOWABLE:
        holders: list[Any] = [document["spec"]]
        for name in path.split("."):
            holders = [entry[name] for h in holders for entry in (h if isinstance(h, list) else [h])]
        assert holders, path


@pytest.mark.parametrize(
    ("part", "document"),
    [
        (model.RequeueEvent, RequeueEvent),
        (model.Retry, Retry),
        (model.PodGroupCycle, GroupCycle),
        (model.Reconstruction, Reconstruction),
        (model.AllocatedDevice, AllocatedDevice),
    ],
)
def test_parts_that_answers_take_from_the_record_have_all_its_fields(part: type, document: type) -> None:
    assert {field.path for field in list_declarations(part).values() if field.path} == get_type_hints(document).keys()
