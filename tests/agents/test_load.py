"""The service under load, as a process: 500 nodes a call, by names and with whole nodes of 4 kB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import extender
from bench.extender import Service

CALLS = 40
LIMIT_MS = {"names": 25, "whole nodes": 80}  # of processor: what a call takes on a machine that does nothing else


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with extender.service() as service:
        yield service


@pytest.mark.parametrize("verb", extender.VERBS)
@pytest.mark.parametrize("form", extender.BODIES)
def test_calls_are_answered_in_time(running: Service, verb: str, form: str) -> None:
    """Also those that ask for what the answer follows from, as our scheduler does."""
    found = extender.measure(running, verb, form, CALLS)
    print(found)
    assert found.processor_ms < LIMIT_MS[form]
    assert found.explained_ms < LIMIT_MS[form]


# glibc's allocator without habits of its own: one arena, and what is free goes back to the system at once
PLAIN_MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}


def test_memory_does_not_grow() -> None:
    """Of requests of 2 MB nothing stays; what the system counts is not exact."""
    with extender.service(**PLAIN_MALLOC) as running:
        held = extender.memory_mib(running, rounds=3, count=8)
    assert held[-1] - held[0] < 1, held
