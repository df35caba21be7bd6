"""The life of a pod in the cache: every transition of the state machine above the class."""

import pytest

from scheduler.backend.cache import Cache
from scheduler.engine.columns import StaleSnapshotError
from scheduler.engine.objects.requests import CPU
from tests.scheduler.builders import PodBuilder, make_node, make_pod

UID = "uid-p"


def a_pod(on: str = "") -> PodBuilder:
    made = make_pod().request(cpu="1")
    return made.node(on) if on else made


def a_cache() -> Cache:
    cache = Cache()
    for name in ("a", "b"):
        cache.set_node(make_node(name).obj())
    return cache


State = tuple[list[int], bool, bool, list[str], list[str]]


def state(cache: Cache) -> State:
    """(cpu requested on a and b, bound, assumed, confirmed pods, assumed pods)."""
    return (
        cache.columns.requested(CPU).tolist(),
        cache.is_counted(UID),
        cache.is_assumed(UID),
        sorted(cache.pod_uids()),
        sorted(cache.assumed_uids()),
    )


UNKNOWN: State = ([0, 0], False, False, [], [])
ASSUMED_ON_A: State = ([1000, 0], True, True, [], [UID])
BOUND_ON_A: State = ([1000, 0], True, False, [UID], [])
BOUND_ON_B: State = ([0, 1000], True, False, [UID], [])


def assume(cache: Cache) -> None:
    cache.assume(a_pod().info(), "a")


def confirm(cache: Cache, on: str = "a") -> None:
    cache.set_pod(a_pod(on).info())


def test_assumed_then_confirmed_then_deleted() -> None:
    cache = a_cache()
    assert state(cache) == UNKNOWN
    assume(cache)
    assert state(cache) == ASSUMED_ON_A
    confirm(cache)
    assert state(cache) == BOUND_ON_A
    assert cache.remove_pod(UID) is True
    assert state(cache) == UNKNOWN


def test_assumed_then_forgotten() -> None:
    cache = a_cache()
    assume(cache)
    cache.forget(UID)
    assert state(cache) == UNKNOWN


def test_confirmed_pod_is_not_forgotten() -> None:
    cache = a_cache()
    assume(cache)
    confirm(cache)
    cache.forget(UID)
    assert state(cache) == BOUND_ON_A


def test_assumed_then_deleted() -> None:
    cache = a_cache()
    assume(cache)
    assert cache.remove_pod(UID) is True
    assert state(cache) == UNKNOWN
    cache.forget(UID)
    assert state(cache) == UNKNOWN


def test_confirmed_on_another_node_than_assumed() -> None:
    cache = a_cache()
    assume(cache)
    confirm(cache, "b")
    assert state(cache) == BOUND_ON_B


def test_seen_bound_without_having_been_assumed() -> None:
    cache = a_cache()
    confirm(cache)
    assert state(cache) == BOUND_ON_A


def test_a_pod_that_counts_is_not_assumed_again() -> None:
    cache = a_cache()
    confirm(cache)
    with pytest.raises(ValueError, match="pod default/p already counts on node a"):
        cache.assume(a_pod().info(), "b")
    assert state(cache) == BOUND_ON_A


def test_a_bound_pod_that_changed_counts_as_it_is_now() -> None:
    cache = a_cache()
    confirm(cache)
    cache.set_pod(make_pod().request(cpu="2").node("a").info())
    assert cache.columns.requested(CPU).tolist() == [2000, 0]


def test_deleting_an_unknown_pod_changes_nothing() -> None:
    cache = a_cache()
    assert cache.remove_pod(UID) is False
    cache.forget(UID)
    assert state(cache) == UNKNOWN


def test_a_pod_survives_the_deletion_and_return_of_its_node() -> None:
    cache = a_cache()
    confirm(cache)
    cache.remove_node("a")
    assert (cache.node("a"), sorted(cache.node_names()), cache.is_counted(UID)) == (None, ["b"], True)
    cache.set_node(make_node("a").obj())
    assert state(cache) == BOUND_ON_A


def test_a_snapshot_ends_with_the_next_change() -> None:
    cache = a_cache()
    snapshot = cache.snapshot()
    assert snapshot.nodes is cache.columns
    assume(cache)
    with pytest.raises(StaleSnapshotError):
        _ = snapshot.nodes
