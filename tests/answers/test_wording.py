"""Every short text and remedy is filled from parameters, or falls back to the reason's sentence."""

import string

import pytest

from herodotus_answers import wording
from herodotus_record import reasons
from herodotus_record.model import Reason


def params_of(template: str) -> dict[str, str]:
    return {name: f"<{name}>" for _, name, _, _ in string.Formatter().parse(template) if name and name != "node"}


@pytest.mark.parametrize("code", wording.TEXTS)
def test_texts_and_remedies_use_the_same_parameters(code: str) -> None:
    params = params_of(wording.TEXTS[code]) | params_of(wording.REMEDIES[code])
    reason = Reason(code.partition("/")[0], params)
    assert reason.code in reasons.CATALOGUE
    assert wording.describe_reason(reason) == wording.TEXTS[code].format_map(params)
    assert wording.describe_remedy(reason, "n") == wording.REMEDIES[code].format_map({**params, "node": "n"})


@pytest.mark.parametrize(
    "code", [c for c in wording.TEXTS if c in reasons.CATALOGUE and "{" not in reasons.CATALOGUE[c]]
)
def test_a_reason_without_parameters_has_its_sentence(code: str) -> None:
    assert wording.describe_reason(Reason(code)) == reasons.CATALOGUE[code]
    assert wording.describe_remedy(Reason(code), "n") == f"resolve on n: {reasons.CATALOGUE[code]}"


def test_a_reason_of_another_code_has_its_sentence() -> None:
    assert wording.describe_reason(Reason("no-victims")) == reasons.CATALOGUE["no-victims"]
