"""The service under load, as a process: 500 nodes a call, by names and with whole nodes of 4 kB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import extender
from bench.extender import Service

CALLS = 100
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


def test_memory_does_not_grow(running: Service) -> None:
    """Requests of 2 MB come and go, so single readings swing by some MiB: the least of three rounds is compared."""
    held = extender.memory_mib(running, rounds=6, count=30)
    assert min(held[3:]) - min(held[:3]) < 8, held
