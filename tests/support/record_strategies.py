"""Random decisions for property tests."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from herodotus_record import codec
from herodotus_record.model import (
    Decision,
    InputColumn,
    Inputs,
    Owner,
    PluginVerdict,
)
from tests.builders import CORDONED, INSUFFICIENT_CPU, TAINTED, a_decision

words = st.text(max_size=20)  # any text that is valid UTF-8
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
counts = st.integers(0, (1 << 63) - 1)
verdicts = st.sampled_from([INSUFFICIENT_CPU, CORDONED, TAINTED])
names = st.lists(st.sampled_from(["", *(f"worker-{i}" for i in range(8))]), max_size=8).map(
    lambda chosen: [n for i, n in enumerate(chosen) if not n or n not in chosen[:i]]
)


def inputs(slots: int) -> st.SearchStrategy[Inputs]:
    """Generate the measurements of one source, with and without masks and times."""
    mask = st.just(array("B")) | st.just(array("B", [1] * slots))
    number = st.builds(InputColumn, words, words, st.integers(0, 9), columns(slots), mask)
    seconds = st.lists(st.integers(0, codec.END_OF_TIME_S - 1), min_size=slots, max_size=slots)
    moments = st.just(array("B")) | seconds.map(lambda v: codec.column_from_numpy(np.array(v, np.int64)))
    return st.builds(Inputs, words, words, st.lists(number, max_size=3).map(tuple), moments, mask)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    nodes = draw(names)
    live = [n for n in nodes if n]
    some = st.lists(st.sampled_from(live), unique=True) if live else st.just([])
    made = a_decision(
        nodes=nodes,
        rejected={n: {draw(st.sampled_from(["NodeName", "NodeResourcesFit"])): draw(verdicts)} for n in draw(some)},
        points={n: {"NodeResourcesFit": draw(st.integers(0, 100))} for n in draw(some)},
        owner=draw(st.none() | st.builds(Owner, words, words)),
        attempt=draw(st.integers(1, 1 << 40)),
        sequence=draw(st.integers(0, (1 << 48) - 1)),
        requests=draw(st.dictionaries(words, counts, max_size=3)),
        notes=tuple(draw(st.lists(words, max_size=2))),
    )
    return replace(
        made,
        message=draw(words),
        seed=draw(st.integers(0, (1 << 32) - 1)),
        pod=replace(made.pod, labels=draw(st.dictionaries(words, words, max_size=3)), nominated_node=draw(words)),
        times=replace(made.times, phases_s=draw(st.dictionaries(words, st.floats(0, 1e6), max_size=3))),
        pre_filters=tuple(draw(st.lists(st.builds(PluginVerdict, words, verdicts), max_size=2))),
        inputs=tuple(draw(st.lists(inputs(len(nodes)), max_size=2))),
    )


def columns(length: int) -> st.SearchStrategy[Any]:
    return st.lists(numbers, min_size=length, max_size=length).map(
        lambda v: codec.column_from_numpy(np.array(v, np.int64))
    )
