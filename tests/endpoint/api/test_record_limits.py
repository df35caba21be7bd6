"""A frame within the limits passes unchanged, and another is refused with its first field out of bounds."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from herodotus_endpoint.api.record_limits import MAX_TEXT, check_frame
from herodotus_record.codec import CodecError
from tests.builders import a_decision


def test_a_decision_without_filters_and_scores_passes() -> None:
    decision = replace(a_decision(), filters=(), scores=(), totals=array("B"))
    assert check_frame(decision) is decision


@pytest.mark.parametrize(
    ("name", "message"), [("", "is empty"), ("x" * (MAX_TEXT + 1), "is longer than")], ids=["empty", "long"]
)
def test_the_first_name_out_of_bounds_is_named(name: str, message: str) -> None:
    decision = a_decision()
    last = replace(decision.filters[-1], plugin=name)
    refused = replace(decision, filters=(*decision.filters[:-1], last))
    with pytest.raises(CodecError, match=rf"filters\[{len(decision.filters) - 1}\] {message}"):
        check_frame(refused)
    with pytest.raises(CodecError, match=f"pod {message}"):
        check_frame(replace(decision, pod=replace(decision.pod, name=name)))
