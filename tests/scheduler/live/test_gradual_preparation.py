"""Pods with many terms in the loop: others are decided meanwhile, and the decision is that of an ordinary cycle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from herodotus_record.model import Decision
from scheduler.engine.objects import pod as pod_module
from scheduler.engine.plugins.inter_pod_affinity import terms
from scheduler.live import gradual_preparation
from tests.scheduler.builders import PodBuilder, make_node
from tests.support.clock import Clock
from tests.support.scheduling_loop import LoopWorld, waiting

HOST = "kubernetes.io/hostname"
COUNTED = "herodotus_gradual_preparations_total"


@pytest.fixture
def small_limits() -> Iterator[None]:
    with patch.object(pod_module, "MAX_TERMS_TIMES_NODES", 20), patch.object(terms, "PART", 1):
        yield


def with_terms(name: str, count: int) -> PodBuilder:
    made = waiting(name)
    preferred = [
        {
            "weight": 1 + i,
            "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"a{i % 3}"}}},
        }
        for i in range(count)
    ]
    made.spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return made


def built(spool: Path) -> LoopWorld:
    world = LoopWorld(spool)
    world.loop._gradual._clock = Clock(0.0, step_s=gradual_preparation.SLICE_S / 4)
    nodes = [make_node(name).label(HOST, name) for name in ("a", "b")]
    running = [waiting(f"r{i}").label("app", f"a{i}").node("ab"[i % 2]) for i in range(3)]
    world.start(*nodes, pods=running)
    world.settle()
    return world


def counted(world: LoopWorld) -> float:
    value = world.loop.scheduler.metrics.registry.get_sample_value(COUNTED)
    assert value is not None
    return value


def facts(decision: Decision) -> tuple[Any, ...]:
    return decision.path, decision.chosen, decision.filters, decision.scores, decision.totals, decision.message


def decide(world: LoopWorld, *pods: PodBuilder) -> dict[str, Decision]:
    for pod in pods:
        world.pod("ADDED", pod)
    world.settle()
    return {decision.pod.name: decision for decision in world.decisions}


@pytest.mark.usefixtures("small_limits")
def test_other_pods_are_decided_while_a_pod_with_many_terms_is_prepared(tmp_path: Path) -> None:
    world = built(tmp_path / "spool")
    decided = decide(world, with_terms("large", 30), *(waiting(f"p{i}") for i in range(5)))
    world.loop.binder.close()
    assert list(decided) == ["p0", "p1", "p2", "p3", "p4", "large"]
    assert decided["large"].key.attempt == 1
    assert counted(world) == 1


@pytest.mark.usefixtures("small_limits")
def test_the_decision_equals_that_of_an_ordinary_cycle_on_the_same_state(tmp_path: Path) -> None:
    sliced, ordinary = built(tmp_path / "sliced"), built(tmp_path / "ordinary")
    others = [waiting(f"p{i}").label("app", f"a{i}") for i in range(3)]
    for other, node in zip(others, "aba", strict=True):
        other.spec["nodeSelector"] = {HOST: node}  # equally good nodes would be drawn at random
    late = decide(sliced, with_terms("large", 30), *others)["large"]
    with patch.object(pod_module, "MAX_TERMS_TIMES_NODES", 1 << 40):
        for other in others:
            decide(ordinary, other)
        at_once = decide(ordinary, with_terms("large", 30))["large"]
    for world in (sliced, ordinary):
        world.loop.binder.close()
    assert (counted(sliced), counted(ordinary)) == (1, 0)
    assert facts(late) == facts(at_once)


@pytest.mark.usefixtures("small_limits")
def test_a_pod_deleted_while_it_is_prepared_is_forgotten(tmp_path: Path) -> None:
    world = built(tmp_path / "spool")
    large = with_terms("large", 30)
    world.pod("ADDED", large)
    world.loop.step(0.0)
    assert len(world.loop._gradual) == 1
    world.pod("DELETED", large)
    world.settle()
    world.loop.binder.close()
    assert len(world.loop._gradual) == 0
    assert world.decisions == []


@pytest.mark.usefixtures("small_limits")
def test_a_pod_is_decided_in_any_case_after_a_number_of_slices(tmp_path: Path) -> None:
    world = built(tmp_path / "spool")
    with (
        patch.object(gradual_preparation, "MAX_SLICES", 3),
        patch.object(type(world.framework), "prepare_pod", lambda *_: False),
    ):
        assert list(decide(world, with_terms("large", 30))) == ["large"]
    world.loop.binder.close()
