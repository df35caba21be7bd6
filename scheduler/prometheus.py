"""A client for Prometheus: instant and range queries. All requests of the scheduler and of the agents go through it.

Owns: the envelope, the errors and the limits of the HTTP API; the thread that repeats a plugin's query. Does not own:
the queries, the meaning of the values.

Invariant: `BackgroundQuery.latest` returns at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record import klog
from herodotus_record.typed_decoding import decode_json
from scheduler.engine.framework.plugin import MetricAnswer

TIMEOUT_S: Final = 30.0
MAX_ANSWER_BYTES: Final = 64 << 20  # some 300,000 series


class PrometheusError(Exception):
    """Prometheus does not respond or rejects the query. The message is one line.

    `reason` is the message without the server's address, for records that many may read.
    """

    def __init__(self, url: httpx.URL, reason: str) -> None:
        self.reason = " ".join(reason.split())
        super().__init__(f"Prometheus at {url.copy_with(userinfo=b'')}: {self.reason}")


@dataclass(frozen=True)
class MetricSeries:
    """A Prometheus series: its labels, its values in order of time, and the Unix time in seconds of the last value.

    An instant query returns one value for each series.
    """

    labels: Mapping[str, str]
    values: NDArray[np.float64]
    last_s: float


class _Result(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] | None = None


class _Data(msgspec.Struct):
    result: list[_Result] = []


class _Envelope(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class Prometheus:
    """A client of the Prometheus server at a base URL such as http://127.0.0.1:9090. Use it as a context manager."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, transport: httpx.BaseTransport | None = None) -> None:
        """Create the client without connecting. `transport` replaces the network in tests."""
        self._http = httpx.Client(base_url=url.rstrip("/"), timeout=timeout_s, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def query(self, expression: str) -> list[MetricSeries]:
        """Run an instant query and return the matching series with one value each. Raises PrometheusError."""
        return self._get("/api/v1/query", {"query": expression})

    def query_range(self, expression: str, start_s: float, end_s: float, step_s: float) -> list[MetricSeries]:
        """Run a range query and return the matching series with their values. Raises PrometheusError.

        The times are in seconds since 1970; there is one value every `step_s` seconds.
        """
        return self._get("/api/v1/query_range", {"query": expression, "start": start_s, "end": end_s, "step": step_s})

    def _get(self, path: str, params: Mapping[str, Any]) -> list[MetricSeries]:
        url = self._http.base_url
        try:
            status, body = self._fetch(path, params)
            envelope = decode_json(body, _Envelope)
            if envelope.status != "success":
                raise PrometheusError(url, envelope.error or f"status {status}")
            return [_series(result) for result in envelope.data.result]
        except httpx.HTTPError as e:
            raise PrometheusError(url, str(e) or type(e).__name__) from e
        except (msgspec.MsgspecError, ValueError) as e:
            raise PrometheusError(url, f"unreadable answer with status {status}: {e}") from e

    def _fetch(self, path: str, params: Mapping[str, Any]) -> tuple[int, bytes]:
        """Send a GET and return the HTTP status and the body.

        Raise PrometheusError if the body is too long, httpx.HTTPError if there is no response.
        """
        body = bytearray()
        with self._http.stream("GET", path, params=params) as response:
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise PrometheusError(self._http.base_url, f"the answer exceeds {MAX_ANSWER_BYTES} bytes")
        return response.status_code, bytes(body)


class BackgroundQuery:
    """A Prometheus instant query that a separate thread repeats, starting with the first call of `latest`."""

    def __init__(self, prometheus: Prometheus, query: str, label: str, *, every_s: float) -> None:
        """Store the query, which runs every `every_s` seconds once `latest` was called.

        The results are keyed by the value of the series label `label`. Of several series with one label value, the
        largest value counts.
        """
        self._prometheus = prometheus
        self._query = query
        self._label = label
        self._every_s = every_s
        self._answer = MetricAnswer(error="no answer yet")
        self._thread: threading.Thread | None = None

    def latest(self) -> MetricAnswer:
        """Return the newest result of the query, regardless of its age. The first call starts the query's thread.

        Until the first response, the result holds an error.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="prometheus", daemon=True)
            self._thread.start()
        return self._answer

    def query_once(self) -> None:
        """Run the query, wait for the response, and store the result that `latest` returns.

        If the query fails, the error is stored and the values of the last success stay.
        """
        try:
            all_series = self._prometheus.query(self._query)
        except PrometheusError as e:
            if not self._answer.error or self._answer.received_s is None:
                klog.warning("No measurements from Prometheus", err=str(e))
            self._answer = replace(self._answer, error=e.reason)
            return
        values: dict[str, float] = {}
        for series in all_series:
            name = series.labels.get(self._label, "")
            values[name] = max(float(series.values[-1]), values.get(name, float("-inf")))
        self._answer = MetricAnswer(
            values, time.monotonic(), max((series.last_s for series in all_series), default=None)
        )

    def _run(self) -> None:
        while True:
            self.query_once()
            time.sleep(self._every_s)


def query_in_background(url: str, query: str, label: str, *, every_s: float, timeout_s: float) -> BackgroundQuery:
    """Return a query to the Prometheus server at `url` that repeats every `every_s` seconds in a separate thread.

    It implements `Handle.query_metrics`.
    """
    return BackgroundQuery(Prometheus(url, timeout_s=timeout_s), query, label, every_s=every_s)


def _series(result: _Result) -> MetricSeries:
    """Return one element of a Prometheus response as a MetricSeries. Raise ValueError if it has no value."""
    pairs = result.values or ([result.value] if result.value else [])
    if not pairs:
        raise ValueError("a series has no value")
    return MetricSeries(result.metric, np.array([float(text) for _, text in pairs], np.float64), pairs[-1][0])
