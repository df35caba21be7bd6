"""Parsing of labelSelector and fieldSelector into conditions on the columns of decisions.

Owns: both grammars and the known labels and fields. Does not own: SQL (`store.listing`). Pure.

Source of the grammars: k8s.io/apimachinery, pkg/labels and pkg/fields.

Invariant: a selector that does not parse, or that names an unknown field, is refused with 400 and never ignored. A
label outside this project's group is matched against the pod's own labels.
"""

from __future__ import annotations

import re
from typing import Final

from herodotus_endpoint.errors import StatusError
from herodotus_endpoint.parameters import TextParameter
from herodotus_endpoint.resources import LABELS
from herodotus_endpoint.store.labels import LabelCondition
from herodotus_endpoint.store.listing import AnyCondition, ColumnCondition

MAX_LENGTH: Final = 4096
MAX_TERMS: Final = 32  # each term is an SQL clause, whose number databases limit
LABEL_SELECTOR: Final = TextParameter(
    "labelSelector",
    "Such as app=web,herodotus.dev/state in (Unschedulable, Error); labels of pods and of decisions.",
    max_length=MAX_LENGTH,
)
FIELD_SELECTOR: Final = TextParameter(
    "fieldSelector", "Such as spec.pod=NAME,status.state!=Bound.", max_length=MAX_LENGTH
)
FIELDS: Final = {
    "metadata.name": "decision_id",
    "metadata.namespace": "namespace",
    "spec.pod": "pod",
    "spec.pod.name": "pod",
    "spec.pod.uid": "pod_uid",
    "spec.pod.owner": "owner",
    "spec.key.cluster": "cluster",
    "spec.scheduler.profile": "profile",
    "status.state": "state",
    "status.path": "path",
    "status.node": "node",
}
_SET: Final = re.compile(r"(?P<key>[^\s=!(),<>]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s=!(),<>]+)\s*(?P<operator>==|!=|=)\s*(?P<values>[^\s=!(),]*)")
_EXISTS: Final = re.compile(r"(?P<operator>!?)\s*(?P<key>[^\s=!(),<>]+)")


def parse_label_selector(selector: str) -> list[AnyCondition]:
    """Return the conditions on decisions that a labelSelector expresses, all of which must hold.

    Raises StatusError 400 if the selector is not valid.
    """
    return [_parse_label_term(term) for term in _split_terms(selector, LABEL_SELECTOR.name)]


def parse_field_selector(selector: str) -> list[AnyCondition]:
    """Return the conditions on decisions that a fieldSelector expresses, all of which must hold.

    Raises StatusError 400 if the selector is not valid or names an unknown field.
    """
    conditions: list[AnyCondition] = []
    for term in _split_terms(selector, FIELD_SELECTOR.name):
        match = _EQUAL.fullmatch(term)
        if not match:
            raise StatusError(400, f"fieldSelector cannot be understood at {term[:64]!r}")
        if match["key"] not in FIELDS:
            fields = ", ".join(FIELDS)
            raise StatusError(400, f'field label not supported: "{match["key"][:64]}"; known here: {fields}')
        values = (match["values"], None) if not match["values"] else (match["values"],)
        conditions.append(ColumnCondition(FIELDS[match["key"]], values, match["operator"] == "!="))
    return conditions


def _split_terms(selector: str, what: str) -> list[str]:
    terms = [term.strip() for term in re.split(r",(?![^()]*\))", selector)] if selector.strip() else []
    if len(terms) > MAX_TERMS:
        raise StatusError(400, f"{what} has more than {MAX_TERMS} terms")
    return terms


def _parse_label_term(term: str) -> AnyCondition:
    match = _SET.fullmatch(term) or _EQUAL.fullmatch(term) or _EXISTS.fullmatch(term)
    if not match:
        raise StatusError(400, f"labelSelector cannot be understood at {term[:64]!r}")
    operator, column = match["operator"], LABELS.get(match["key"])
    excludes = operator in ("notin", "!=", "!")
    if operator in ("", "!"):
        if column is None:
            return LabelCondition(match["key"], None, excludes)
        return ColumnCondition(column, (None,), negated=not excludes)
    listed = match["values"].split(",") if operator in ("in", "notin") else [match["values"]]
    values = tuple(value.strip() for value in listed)
    return (
        LabelCondition(match["key"], values, excludes) if column is None else ColumnCondition(column, values, excludes)
    )
