"""Queries Prometheus in the background: a plugin reads the newest result and never waits for one.

Owns: the interval and timeout of one query, and its last failure. Does not own: the query, the meaning of its values.

Invariant: `BackgroundQuery.latest` returns at once.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Final

import httpx
import msgspec

from scheduler import klog
from scheduler.engine.framework.metric_query import MetricAnswer

MAX_ANSWER_BYTES: Final = 64 << 20  # some 300,000 series


class _Result(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result: list[_Result] = []


class _Envelope(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class BackgroundQuery:
    """A Prometheus instant query that a separate thread repeats, starting with the first call of `latest`."""

    def __init__(
        self,
        url: str,
        query: str,
        label: str,
        *,
        every_s: float,
        timeout_s: float,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Store the query's settings without contacting Prometheus.

        The results are keyed by the value of the series label `label`. Of several series with one label value, the
        largest value counts.
        """
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._query = query
        self._label = label
        self._every_s = every_s
        self._http = httpx.Client(timeout=timeout_s, transport=transport)
        self._answer = MetricAnswer(error="no answer yet")
        self._thread: threading.Thread | None = None

    def latest(self) -> MetricAnswer:
        """Return the newest result of the query, regardless of its age, and start the query's thread at the first call.

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
            values, of_s = self._values()
        except (httpx.HTTPError, msgspec.MsgspecError, ValueError) as e:
            failure = " ".join(str(e).split()) or type(e).__name__
            if not self._answer.error or self._answer.received_s is None:
                klog.warning("Prometheus does not answer", url=self._url, err=failure)
            self._answer = replace(self._answer, error=failure)
        else:
            self._answer = MetricAnswer(values, time.monotonic(), of_s)

    def _run(self) -> None:
        while True:
            self.query_once()
            time.sleep(self._every_s)

    def _values(self) -> tuple[dict[str, float], float | None]:
        """Run the query and return the values by label value, and the Unix time of its evaluation in seconds.

        The time is None if the response holds no series.
        """
        with self._http.stream("GET", self._url, params={"query": self._query}) as response:
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        answer = msgspec.json.decode(body, type=_Envelope)
        if answer.status != "success":
            raise ValueError(answer.error or f"status {response.status_code}")
        values: dict[str, float] = {}
        for result in answer.data.result:
            name = result.metric.get(self._label, "")
            values[name] = max(float(result.value[1]), values.get(name, float("-inf")))
        return values, max((result.value[0] for result in answer.data.result), default=None)
