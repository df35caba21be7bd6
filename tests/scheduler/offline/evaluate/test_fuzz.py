"""Recorded cases with something in them broken at random: an answer, or an error line that names the case."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.offline.evaluate.cases import FORMS, CaseError, evaluate_lines

GOLDEN = Path(__file__).parents[3] / "golden"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.jsonl.gz"))

NUMBERS = (0, -1, 1.5, 1e308, 2**31, 2**63, 2**70, -(2**63), -(2**70))
TEXTS = ("", "x", "\0", "a\nb", "(", "-1", "9e99", "8Ei", "-8Ei", "1" * 5000, "In", "Gt", "Exists", "DoNotSchedule")
SELECTORS = [
    {"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}
    for operator in ("In", "NotIn", "Exists", "Gt", "Near")
    for values in ([], ["x"], ["1", "2"])
]
ANYTHING: tuple[Any, ...] = (
    *(None, True, False, *NUMBERS, *TEXTS, *SELECTORS),
    *([], {}, [None], [{}], [[]], ["x"], {"": None}, {"a": "b"}, {"a": {"a": {"a": []}}}),
)


@cache
def cases(family: str) -> list[str]:
    with gzip.open(GOLDEN / f"{family}.jsonl.gz", "rt") as lines:
        return sorted(lines, key=len)[:20]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything inside."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_broken_case_is_answered_or_named(family: str, data: st.DataObject) -> None:
    case = json.loads(data.draw(st.sampled_from(cases(family))))
    del case["expect"]
    name = case.pop("id")
    for _ in range(data.draw(st.integers(1, 3))):
        where = list(places(case))
        container, key = where[data.draw(st.integers(0, len(where) - 1))]
        if data.draw(st.booleans()):
            container[key] = deepcopy(data.draw(st.sampled_from(ANYTHING)))
        else:
            del container[key]
        if not case:
            break
    for form in FORMS:
        (answer,) = evaluate_lines([json.dumps({"id": name, **case})], None, form)
        if isinstance(answer, CaseError):
            assert str(answer).startswith(f"case {name}: ")
        else:
            json.dumps(answer)
