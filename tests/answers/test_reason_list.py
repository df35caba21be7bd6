"""The published vocabulary of reasons agrees with what the engine records, and keeps what it has published."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from herodotus_answers import wording
from herodotus_answers.live import pods, workloads
from herodotus_answers.reason_list import CAUSES, STATES, build_reason_list, list_stages
from herodotus_record import reasons
from herodotus_record.disclosure import PARAMETERS as DISCLOSED
from herodotus_record.model import Decision
from herodotus_record.reason_parameters import PARAMETERS, SCORE_PARAMETERS
from scheduler.config.types import Configuration
from tests.answer_schemas import validate
from tests.support.answers import as_json
from tests.support.recordings import cases_of, decided

PUBLISHED = Path(__file__).parent / "published_codes.txt"  # VERSION KIND CODE [PARAMETER]
FAMILIES = ("mixed", "volumes", "podaffinity", "dra/dra-missing", "dra/dra-basic")


def test_document_matches_its_schema() -> None:
    validate(as_json(build_reason_list()))


def test_every_parameter_is_declared_and_disclosed() -> None:
    for code, sentence in reasons.CATALOGUE.items():
        shown = set(re.findall(r"\{(\w+)\}", sentence))
        assert shown <= PARAMETERS.get(code, {}).keys(), code
    assert PARAMETERS.keys() <= reasons.CATALOGUE.keys()
    declared = (*PARAMETERS.values(), *SCORE_PARAMETERS.values())
    assert {name for parameters in declared for name in parameters} <= DISCLOSED.keys()
    for code, text in reasons.SCORES.items():
        assert set(re.findall(r"\{(\w+)\}", text)) <= SCORE_PARAMETERS[code].keys(), code


def test_every_remedy_is_of_a_code() -> None:
    assert {key.partition("/")[0] for key in wording.REMEDIES} <= reasons.CATALOGUE.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_reasons_have_only_declared_parameters_and_stages(family: str) -> None:
    recorded = 0
    for case in cases_of(family)[:40]:
        for stage, code, names in _list_reasons(decided(case, Configuration()).decision):
            recorded += 1
            assert names <= PARAMETERS.get(code, {}).keys(), code
            if code != "text":
                assert set(stage.split()) <= set(list_stages(code)), code
                assert stage or not list_stages(code), code
    assert recorded


def _list_reasons(decision: Decision) -> list[tuple[str, str, set[str]]]:
    """Return stage, code and names of parameters of each recorded reason; the stage of PostFilter is ""."""
    verdicts = [
        *(("PreFilter", plugin.verdict) for plugin in decision.pre_filters),
        *(("Filter", verdict) for column in decision.filters for verdict in column.verdicts),
        *(("", plugin.verdict) for plugin in decision.post_filters),
    ]
    return [(stage, reason.code, {*reason.params}) for stage, verdict in verdicts for reason in verdict.reasons]


def test_what_was_published_stays_and_what_is_new_raises_the_version() -> None:
    """HERODOTUS_REGENERATE=1 adds what is new, with the version that `reasons.VERSION` has by then."""
    document = build_reason_list()
    current = [f"outcome {outcome['code']}" for outcome in document["outcomes"]]
    current += [f"state {state['code']}" for state in document["states"]]
    current += [f"cause {cause['code']}" for cause in document["causes"]]
    current += [f"change {change['code']}" for change in document["changes"]]
    for score in document["scores"]:
        current += [f"score {score['code']}", *(f"score {score['code']} {p['name']}" for p in score["params"])]
    for reason in document["items"]:
        current += [f"reason {reason['code']}", *(f"reason {reason['code']} {p['name']}" for p in reason["params"])]
    published = dict(line.partition(" ")[::2][::-1] for line in PUBLISHED.read_text().splitlines())
    if os.environ.get("HERODOTUS_REGENERATE"):
        published |= {entry: str(reasons.VERSION) for entry in current if entry not in published}
        PUBLISHED.write_text("".join(f"{version} {entry}\n" for entry, version in sorted(published.items())))
    assert published.keys() == set(current)
    assert max(map(int, published.values())) == document["version"]


def test_states_and_causes_have_only_published_codes() -> None:
    names = {"make_state": STATES, "make_cause": CAUSES, "make_event_cause": CAUSES}
    paths = [path for package in (pods, workloads) for folder in package.__path__ for path in Path(folder).glob("*.py")]
    for path in paths:
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            published = names.get(getattr(call.func, "id", getattr(call.func, "attr", "")))
            first = call.args[0] if call.args else None
            if published is not None and isinstance(first, ast.Constant):
                assert first.value in published, path
