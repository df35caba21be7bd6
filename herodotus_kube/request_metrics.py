"""Prometheus metrics of requests to the API server, named, labelled and bucketed as client-go's.

Owns: names, labels and buckets. Does not own: the requests (`http`), the registry.

Invariant: the labels of one process have few values: methods, status codes and one host.

Source: k8s.io/component-base/metrics/prometheus/restclient and k8s.io/client-go/rest v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

ERROR: Final = "<error>"  # code of a request without a response
BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class RequestMetrics(Collector):
    """Counts requests to one API server and measures how long they take. Thread-safe.

    It is a `RequestObserver` of an ApiServer, and a collector to register.
    """

    def __init__(self, url: str) -> None:
        """Prepare the metrics of requests to the API server at `url`."""
        self._host = urlsplit(url).netloc.rpartition("@")[2]
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server, by status code.",
            ["code", "method", "host"],
            registry=None,
        )
        self._duration_s = Histogram(
            "rest_client_request_duration_seconds",
            "Requests to the API server with their repetitions, without watches.",
            ["verb", "host"],
            buckets=BUCKETS_S,
            registry=None,
        )

    def count(self, method: str, code: int) -> None:
        """Count one response with this status code. `code` is 0 if there was no response."""
        self._requests.labels(str(code) if code else ERROR, method, self._host).inc()

    def observe_duration(self, method: str, duration_s: float) -> None:
        """Observe the duration of one request, from the call until the response was read."""
        self._duration_s.labels(method, self._host).observe(duration_s)

    def collect(self) -> Iterator[Metric]:
        yield from self._requests.collect()
        yield from self._duration_s.collect()
