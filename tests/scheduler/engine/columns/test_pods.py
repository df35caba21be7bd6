"""Pod rows: what a selector matches, after any sequence of changes as built from scratch."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.keyed import MAX_KEYS
from scheduler.engine.columns.pods import PodRows
from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.types import LabelSelector
from tests.scheduler.builders import PodBuilder, columns_of, expression, make_node, make_pod
from tests.support.examples import examples

VALUES = ("", "x", "y")
SELECTORS = [
    msgspec.convert(selector, LabelSelector)
    for selector in (
        {},
        {"matchLabels": {"app": "x"}},
        {"matchLabels": {"app": "x", "tier": ""}},
        {"matchExpressions": [expression("app", "In", "x", "y", "never")]},
        {"matchExpressions": [expression("app", "NotIn", "x")]},
        {"matchExpressions": [expression("tier", "Exists"), expression("app", "DoesNotExist")]},
    )
]

pods = st.tuples(
    st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(VALUES)),
    st.sampled_from(["default", "other"]),
    st.booleans(),
    st.booleans(),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), pods, st.sampled_from(["a", "b"])),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("look"), st.sampled_from(SELECTORS)),
    ),
    max_size=25,
)


def pod(number: int, described: Any) -> PodBuilder:
    labels, namespace, terminating, far = described
    made = make_pod(f"p{number}", namespace)
    made.json["metadata"]["labels"] = labels
    made = made.anti_affinity("zone", app="x") if far else made
    return made.terminating() if terminating else made


def facts(columns: NodeColumns) -> dict[str, Any]:
    """Return what the rows hold of each pod, without row numbers."""
    rows = columns.pod_rows
    terms = rows.terms.ids(rows.count)
    return {
        rows.pod(row).uid: (
            columns.names[rows.slots[row]],
            bool(rows.terminating[row]),
            rows.terms.values[terms[row]],
            [
                [bool(rows.matching(s, n)[row]) for n in (None, frozenset({"default"}), frozenset[str]())]
                for s in SELECTORS
            ],
        )
        for row in np.flatnonzero(rows.slots >= 0).tolist()
    }


@settings(max_examples=examples(200), deadline=None)
@given(steps)
def test_any_sequence_of_changes_equals_starting_afresh(sequence: list[Any]) -> None:
    columns, running = columns_of([make_node("a"), make_node("b")]), dict[int, PodBuilder]()
    for step in sequence:
        number, old = step[1], running.get(step[1]) if step[0] != "look" else None
        if step[0] == "look":
            columns.pod_rows.matching(step[1], None)
        elif step[0] == "set":
            new = pod(number, step[2]).node(step[3])
            if old is not None and old.spec["nodeName"] == step[3]:
                columns.replace_pod(new.info(), step[3])
            else:
                if old is not None:
                    columns.remove_pod(old.info().uid, old.spec["nodeName"])
                columns.add_pod(new.info(), step[3])
            running[number] = new
        elif old is not None:
            columns.remove_pod(old.info().uid, old.spec["nodeName"])
            del running[number]
    assert facts(columns) == facts(columns_of([make_node("a"), make_node("b")], running.values()))


@given(st.lists(pods, max_size=8))
def test_a_selector_matches_what_it_matches_one_by_one(described: list[Any]) -> None:
    made = [pod(i, d).node("a").info() for i, d in enumerate(described)]
    rows = PodRows([{p.uid: p for p in made}])
    for selector in SELECTORS:
        expected = [label_selector_matches(selector, p.labels) and p.namespace == "default" for p in made]
        assert rows.matching(selector, frozenset({"default"})).tolist() == expected
    assert not rows.matching(None, None).any()


def test_rows_are_counted_by_slot() -> None:
    columns = columns_of([make_node("a"), make_node("b")], [make_pod(f"p{i}").node("ab"[i % 2]) for i in range(5)])
    rows = columns.pod_rows
    everything = rows.matching(LabelSelector(), None)
    assert rows.per_slot(everything, columns.slots).tolist() == [3, 2]


def test_rows_grow_and_unused_labels_are_dropped() -> None:
    """However many keys users think of, a bounded number of columns is kept, and each is right."""
    rows = PodRows([])
    many = [make_pod(f"p{i}").label(f"key-{i}", "x").info() for i in range(2 * MAX_KEYS)]
    for p in many:
        rows.set(0, p)
    for i in range(len(many)):
        found = rows.matching(LabelSelector(match_labels={f"key-{i}": "x"}), None)
        assert [rows.pod(r).name for r in np.flatnonzero(found).tolist()] == [f"p{i}"]
    assert len(rows._labels) == MAX_KEYS
