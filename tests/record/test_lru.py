"""The least-recently-used cache."""

from hypothesis import given
from hypothesis import strategies as st

from herodotus_record.lru import Lru


def test_evicts_the_least_recently_used_entry() -> None:
    cache: Lru[str, int] = Lru(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert list(cache) == ["a", "c"]
    assert cache.get("b") is None


def test_peek_is_not_a_use() -> None:
    cache: Lru[str, int] = Lru(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.peek("a") == 1
    cache.put("c", 3)
    assert cache.peek("a") is None


def test_creates_a_missing_value_once() -> None:
    cache: Lru[str, list[int]] = Lru(2)
    created = cache.get_or_create("a", list)
    assert cache.get_or_create("a", list) is created


def test_keeps_the_newest_entry_even_if_it_exceeds_the_limit() -> None:
    cache: Lru[str, str] = Lru(3, len)
    cache.put("a", "12")
    cache.put("b", "12345")
    assert list(cache) == ["b"]


def test_a_lower_limit_evicts() -> None:
    cache: Lru[int, int] = Lru(10)
    for key in range(10):
        cache.put(key, key)
    cache.set_limit(3)
    assert list(cache) == [7, 8, 9]
    cache.set_limit(0)
    assert list(cache) == [9]


_STEPS = st.lists(st.tuples(st.sampled_from(["put", "get", "discard", "clear"]), st.integers(0, 5), st.integers(0, 4)))


@given(_STEPS, st.integers(0, 10))
def test_agrees_with_a_list_in_order_of_use(steps: list[tuple[str, int, int]], limit: int) -> None:
    cache: Lru[int, bytes] = Lru(limit, len)
    model: list[tuple[int, bytes]] = []
    for step, key, size in steps:
        value = next((v for k, v in model if k == key), None)
        if step == "clear":
            cache.clear()
            model = []
        elif step == "get":
            assert cache.get(key) == value
            model = [e for e in model if e[0] != key] + ([(key, value)] if value is not None else [])
        else:
            model = [e for e in model if e[0] != key]
            if step == "discard":
                cache.discard(key)
            else:
                model.append((key, cache.put(key, bytes(size))))
                while sum(len(v) for _, v in model) > limit and len(model) > 1:
                    del model[0]
        assert list(cache) == [k for k, _ in model]
        assert len(cache) == len(model)
