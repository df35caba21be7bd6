"""Requests to the API server are counted as client-go counts them."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry

from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiError, ApiRequest, ApiServer
from herodotus_kube.request_metrics import BUCKETS_S, RequestMetrics
from tests.kube.servers import OK, Pieces, Script, ScriptedServer, status

Answer = Callable[[bytes], bytes | None]


class Measured:
    """A client whose requests are counted, and the values of the metrics."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        self.registry = CollectorRegistry()
        metrics = RequestMetrics(url)
        self.registry.register(metrics)
        self.host = url.removeprefix("http://")
        self.api = ApiServer(Credentials(url, None, dict), transport=transport, observer=metrics)

    def counted(self) -> dict[tuple[str, str], float]:
        """Return the number of responses by method and code."""
        (family,) = (f for f in self.registry.collect() if f.name == "rest_client_requests")
        assert all(s.labels["host"] == self.host for s in family.samples)
        return {(s.labels["method"], s.labels["code"]): s.value for s in family.samples if s.name.endswith("_total")}

    def observed(self, verb: str) -> float | None:
        """Return how many durations of a verb were observed."""
        name = "rest_client_request_duration_seconds_count"
        return self.registry.get_sample_value(name, {"verb": verb, "host": self.host})


def scripted(*answers: httpx.Response | Exception) -> Measured:
    return Measured("http://api", httpx.MockTransport(Script(*answers)))


@contextmanager
def served(answer: Answer) -> Iterator[Measured]:
    server = ScriptedServer(answer)
    measured = Measured(server.url)
    yield measured
    measured.api.close()
    server.close()


def test_each_response_counts_and_a_request_with_its_repetitions_has_one_duration() -> None:
    measured = scripted(status(429, **{"Retry-After": "1"}), httpx.Response(201, json={}))
    measured.api.post("/p", {})
    assert measured.counted() == {("POST", "429"): 1, ("POST", "201"): 1}
    assert measured.observed("POST") == 1


def test_no_response_and_a_refusal_count_with_their_durations() -> None:
    measured = scripted(httpx.ConnectError("refused"), status(404, "NotFound"))
    for _ in range(2):
        with pytest.raises(ApiError):
            measured.api.get("/p")
    assert measured.counted() == {("GET", "<error>"): 1, ("GET", "404"): 1}
    assert measured.observed("GET") == 2


def test_a_watch_counts_and_has_no_duration() -> None:
    measured = scripted(
        httpx.Response(200, stream=Pieces([b"{}"])), status(410, "Expired"), httpx.ConnectError("refused")
    )
    with measured.api.stream("/p", {"watch": "true"}, 1.0) as pieces:
        assert b"".join(pieces) == b"{}"
    for _ in range(2):
        with pytest.raises(ApiError), measured.api.stream("/p", {"watch": "true"}, 1.0):
            raise AssertionError
    assert measured.counted() == {("GET", "200"): 1, ("GET", "410"): 1, ("GET", "<error>"): 1}
    assert measured.observed("GET") is None


def send(measured: Measured) -> ApiError | None:
    """Send a request whose caller does not block, and return its result."""
    results: queue.SimpleQueue[ApiError | None] = queue.SimpleQueue()
    measured.api.send(ApiRequest("PATCH", "/p", {}), results.put)
    return results.get(timeout=10)


def test_requests_whose_callers_do_not_block_count_too() -> None:
    with served(lambda _: OK) as measured:
        assert send(measured) is None
        assert measured.counted() == {("PATCH", "201"): 1}
        assert measured.observed("PATCH") == 1
    with served(lambda _: None) as measured:
        assert send(measured) is not None
        assert measured.counted() == {("PATCH", "<error>"): 1}


def test_names_and_buckets_are_client_go_s() -> None:
    measured = scripted(httpx.Response(200, json={}))
    measured.api.get("/p")
    samples = [s for family in measured.registry.collect() for s in family.samples if "le" in s.labels]
    assert {s.name for s in samples} == {"rest_client_request_duration_seconds_bucket"}
    assert [float(s.labels["le"]) for s in samples] == [*BUCKETS_S, float("inf")]
    assert BUCKETS_S == (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
