"""Pods with thousands of terms: the work follows the pods that match and the keys that nodes have, not the terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.columns import NodeColumns
from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod_affinity import PodTerms
from scheduler.engine.objects.selectors import SelectorIndex, label_selector_matches
from scheduler.engine.objects.types import LabelSelector
from scheduler.engine.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from scheduler.engine.plugins.inter_pod_affinity import terms as terms_module
from scheduler.engine.plugins.inter_pod_affinity.terms import IncomingTermsCache, TermGroup
from scheduler.engine.plugins.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from scheduler.engine.rules import DEFAULT_RULES
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PodBuilder, columns_of, expression, make_node, make_pod
from tests.support.examples import examples

HOST = "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MANY = 1400

labels = st.dictionaries(st.sampled_from(["app", "tier", "zone"]), st.sampled_from(["", "x", "y"]), max_size=3)
requirements = st.one_of(
    st.builds(lambda k, v: expression(k, "In", *v), st.sampled_from(["app", "tier"]), st.just(["x", "y"])),
    st.builds(lambda k, v: expression(k, "NotIn", v), st.sampled_from(["app", "tier"]), st.sampled_from(["x", "n"])),
    st.builds(
        lambda k, o: expression(k, o), st.sampled_from(["app", "none"]), st.sampled_from(["Exists", "DoesNotExist"])
    ),
)
selectors = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {}, optional={"matchLabels": labels, "matchExpressions": st.lists(requirements, max_size=12)}
    ),
)


def read(selector: Any) -> LabelSelector | None:
    return msgspec.convert(selector, LabelSelector | None)


@given(st.lists(selectors, max_size=12), labels)
def test_an_index_finds_the_selectors_that_match_one_by_one(described: list[Any], of_pod: dict[str, str]) -> None:
    some = [read(selector) for selector in described]
    expected = [i for i, selector in enumerate(some) if label_selector_matches(selector, of_pod)]
    assert sorted(SelectorIndex(some).find_matching(of_pod)) == expected


def cluster(described: list[dict[str, str]]) -> NodeColumns:
    nodes = columns_of([make_node("a").label(HOST, "a"), make_node("b").label(HOST, "b")])
    for i, of_pod in enumerate(described):
        nodes.add_pod(running(i, of_pod).info(), "ab"[i % 2])
    return nodes


def running(number: int, of_pod: dict[str, str]) -> PodBuilder:
    made = make_pod(f"p{number}").node("ab"[number % 2])
    made.json["metadata"]["labels"] = of_pod
    return made


def preferring(described: list[Any]) -> PodBuilder:
    made = make_pod("new")
    preferred = [
        {"weight": 1 + i, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": selector}}
        for i, selector in enumerate(described)
    ]
    made.spec["affinity"] = {"podAntiAffinity": {PREFERRED: preferred}}
    return made


def group_of(pod: PodBuilder) -> TermGroup:
    return IncomingTermsCache(ClusterObjects()).get(pod.info(), DEFAULT_RULES).preferred[HOST]


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(selectors, min_size=1, max_size=9), st.lists(labels, max_size=8), st.lists(labels, max_size=8))
def test_terms_counted_together_and_in_parts_give_the_sum_of_each(
    described: list[Any], before: list[dict[str, str]], after: list[dict[str, str]]
) -> None:
    nodes = cluster(before)
    with patch.object(terms_module, "PART", 2):
        group = group_of(preferring(described))
        group.prepare(nodes, lambda: False, is_weighted=True)  # one part, before other pods are added
        for i, of_pod in enumerate(after, start=len(before)):
            nodes.add_pod(running(i, of_pod).info(), "ab"[i % 2])
        counted, weighed = group.count_pods(nodes).counts.tolist(), group.sum_weights(nodes).counts.tolist()
    per_node = [[p for i, p in enumerate([*before, *after]) if i % 2 == slot] for slot in (0, 1)]
    weights = [
        [sum(-(1 + i) for i, s in enumerate(described) if label_selector_matches(read(s), p)) for p in pods]
        for pods in per_node
    ]
    numbers = [sum(label_selector_matches(read(s), p) for s in described for p in pods) for pods in per_node]
    assert (counted, weighed) == (numbers, [sum(pods) for pods in weights])


@pytest.fixture
def built() -> Iterator[list[int]]:
    """The number of columns that were filled, which takes a pass over all nodes or pods for each."""
    filled: list[int] = []
    fill = DictionaryColumn.fill

    def count(self: DictionaryColumn[Any], values: Any) -> None:
        filled.append(1)
        fill(self, values)

    with patch.object(DictionaryColumn, "fill", count):
        yield filled


def test_terms_on_labels_that_no_pod_has_build_no_columns(built: list[int]) -> None:
    nodes = cluster([{"app": "x"}] * 8)
    _ = nodes.pod_rows
    built.clear()
    pod = preferring([{"matchLabels": {f"key-{i}": "x"}} for i in range(MANY)])
    plugin = InterPodAffinity(InterPodAffinityArgs(), NoCluster(ClusterObjects()))
    plugin.pre_score(CycleState(), pod.info(), nodes, np.ones(2, np.bool_))
    assert len(built) <= 1  # of the topology key


def test_spread_constraints_on_keys_that_no_node_has_count_no_pods() -> None:
    nodes, pod = cluster([{"app": "x"}] * 8), make_pod("new")
    pod.spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": f"key-{i}",
            "whenUnsatisfiable": "ScheduleAnyway" if i % 2 else "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
        for i in range(MANY)
    ]
    plugin = PodTopologySpread(PodTopologySpreadArgs(), NoCluster(ClusterObjects()))
    with patch.object(type(nodes.pod_rows), "tally", side_effect=AssertionError("counts pods")):
        state, info = CycleState(), pod.info()
        plugin.pre_filter(state, info, nodes)
        assert plugin.filter(state, info, nodes).codes(2).all()
        plugin.pre_score(state, info, nodes, np.ones(2, np.bool_))
        assert plugin.score(state, info, nodes, np.ones(2, np.bool_)).tolist() == [0, 0]


def test_terms_of_removed_pods_are_released() -> None:
    nodes = cluster([])
    for i in range(5):
        made = preferring([{"matchLabels": {"app": f"x{i}-{n}"}} for n in range(MANY)]).info()
        nodes.add_pod(made, "a")
        _ = nodes.pod_rows
        nodes.remove_pod(made.uid, "a")
    left = [terms for terms in nodes.pod_rows.terms.values if isinstance(terms, PodTerms)]
    assert sum(terms.size for terms in left) <= MANY


def test_an_anti_affinity_term_on_a_key_that_no_node_has_costs_other_pods_nothing() -> None:
    nodes, heavy = cluster([]), make_pod("heavy").node("a")
    heavy.spec["affinity"] = {
        "podAntiAffinity": {REQUIRED: [{"topologyKey": f"key-{i}", "labelSelector": {}} for i in range(MANY)]}
    }
    nodes.add_pod(heavy.info(), "a")
    plugin = InterPodAffinity(InterPodAffinityArgs(), NoCluster(ClusterObjects()))
    found = plugin._existing_anti_affinity.find(make_pod("new").info(), {}, nodes)
    assert found == {}


def test_events_resolve_the_terms_of_a_waiting_pod_once() -> None:
    plugin = InterPodAffinity(InterPodAffinityArgs(), NoCluster(ClusterObjects()))
    pod_hint, node_hint = (event.hint for event in plugin.events_to_register())
    waiting = make_pod("waiting")
    waiting.spec["affinity"] = {
        "podAntiAffinity": {
            REQUIRED: [
                {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"x{i}"}}, "namespaceSelector": {}}
                for i in range(MANY)
            ]
        }
    }
    info, old, new = waiting.info(), make_node("a").label(HOST, "a").obj(), make_node("a").label(HOST, "b").obj()
    assert pod_hint is not None
    assert node_hint is not None
    with patch.object(terms_module, "resolve_terms", wraps=terms_module.resolve_terms) as resolved:
        for i in range(10):
            gone = running(i, {"app": f"x{i}"})
            assert pod_hint(info, gone.info(), None)
            assert not pod_hint(info, running(i, {"app": "y"}).info(), None)
            assert node_hint(info, old, new)
    assert sum(len(call.args[0]) for call in resolved.call_args_list) == MANY
