"""Devices of a pod whose binding failed: they are in use as long as the API server has the allocation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scheduler.builders import PodBuilder
from tests.scheduler.engine.dra.builders import claim, exactly
from tests.support.claim_loop import ClaimWorld
from tests.support.pod_group_loop import GATES, a_group
from tests.support.scheduling_loop import waiting


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ClaimWorld]:
    made = ClaimWorld(tmp_path / "spool", GATES)
    for name in ("first", "second"):
        made.claims.add(claim(name, exactly("r")))
    yield made
    made.loop.binder.close()


def using(name: str) -> PodBuilder:
    """Return a pod that uses the claim of its name."""
    return waiting(name).with_spec(resourceClaims=[{"name": "gpu", "resourceClaimName": name}])


def decide_second(world: ClaimWorld) -> None:
    before = len(world.decisions)
    world.pod("ADDED", using("second"))
    world.until(lambda: len(world.decisions) > before and not world.loop.scheduler.in_flight)


def test_an_allocation_that_was_written_keeps_its_device_before_the_api_server_shows_it(world: ClaimWorld) -> None:
    world.claims.refuse.add("first")
    world.begin(a_group("g", 1), using("first"))
    assert world.claims.stored["first"]["status"]["allocation"]
    assert world.users("first") == []
    decide_second(world)
    assert world.bound() == []
    assert "allocation" not in world.claims.stored["second"]["status"]


@pytest.mark.parametrize("is_effective", [True, False])
def test_a_write_without_an_answer_keeps_its_device_if_it_took_effect(world: ClaimWorld, is_effective: bool) -> None:
    world.claims.lose.append(is_effective)
    world.claims.refuse.add("first")
    world.begin(a_group("g", 1), using("first"))
    assert ("allocation" in world.claims.stored["first"]["status"]) == is_effective
    assert world.users("first") == []
    if not is_effective:
        world.claims.show()  # the finalizer
    decide_second(world)
    assert world.bound() == ([] if is_effective else [("second", "n")])


def test_a_device_is_free_once_the_api_server_has_shown_that_its_claim_has_none(world: ClaimWorld) -> None:
    world.claims.refuse.add("first")
    world.begin(a_group("g", 1), using("first"))
    del world.claims.stored["first"]["status"]["allocation"]
    world.claims.stored["first"]["metadata"]["resourceVersion"] = "9"
    world.claims.show()
    decide_second(world)
    assert world.bound() == [("second", "n")]


def test_a_pod_that_names_an_allocated_claim_twice_is_reserved_and_bound_once(world: ClaimWorld) -> None:
    world.begin(a_group("g", 1), using("first"))
    world.claims.show()
    twice = [{"name": name, "resourceClaimName": "first"} for name in ("one", "two")]
    world.pod("ADDED", waiting("second").with_spec(resourceClaims=twice))
    world.until(lambda: len(world.decisions) > 1 and not world.loop.scheduler.in_flight)
    assert world.bound() == [("first", "n"), ("second", "n")]
    assert world.users("first") == ["first", "second"]


@pytest.mark.parametrize("is_late", [True, False], ids=["removed late", "shown late"])
def test_a_pod_that_is_bound_again_keeps_its_reservation(world: ClaimWorld, is_late: bool) -> None:
    """The reservation of the failed attempt is removed after the next attempt, or the removal is shown after it."""
    world.claims.refuse.add("first")
    world.claims.delayed = []
    world.begin(a_group("g", 1), using("first"))
    assert world.users("first") == ["first"]
    world.claims.show()
    if not is_late:
        world.claims.make_delayed()
        assert world.users("first") == []
    world.claims.refuse.clear()
    world.until(lambda: bool(world.claims.bound) and not world.loop.scheduler.in_flight)
    world.claims.make_delayed()
    assert world.bound() == [("first", "n")]
    assert world.users("first") == ["first"]
