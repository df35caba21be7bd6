"""The thread that turns waiting records into spans and sends them over OTLP/HTTP.

Owns: the thread and the count of exported and dropped spans. Does not own: the queue (`span_queue`), the form of spans
(`spans`), retries and compression (OpenTelemetry's exporter, which reads its OTEL_EXPORTER_OTLP_* variables).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.store import Store, StoreUnavailableError
from herodotus_endpoint.tracing.span_queue import SpanQueue
from herodotus_endpoint.tracing.spans import SpanBuilder
from herodotus_endpoint.tracing.traced_records import TracedRecord

PATH: Final = "/v1/traces"  # of OTLP/HTTP, below the endpoint
FLUSH_S: Final = 3.0  # for waiting spans at the end, within the service's own grace period
_log: Final = logging.getLogger(__name__)


class TraceExporter:
    """A daemon thread that exports the records of a queue to one OTLP/HTTP endpoint until `stop`."""

    def __init__(self, endpoint: str, queue: SpanQueue, store: Store, metrics: EndpointMetrics) -> None:
        self.queue = queue
        self._metrics = metrics
        self._builder = SpanBuilder(store.reader.find_origin)
        self._exporter = OTLPSpanExporter(endpoint.rstrip("/") + PATH)
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # otherwise it logs each retry

    def start(self) -> None:
        """Start the thread, which waits for records and exports them."""
        self._thread.start()

    def stop(self) -> None:
        """Export the waiting records, for at most FLUSH_S seconds, and end the thread."""
        self.queue.close()
        self._thread.join(FLUSH_S)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # also ends a retry that is waiting

    def _run(self) -> None:
        while records := self.queue.take():
            try:
                self._export(records)
            except Exception:  # the thread must go on, or every later span would be dropped
                self._metrics.spans_dropped.labels("failed").inc(sum(each.spans for each in records))
                _log.exception("cannot export spans")

    def _export(self, records: Sequence[TracedRecord]) -> None:
        spans: list[ReadableSpan] = []
        for record in records:
            try:
                built = self._builder.build(record)
            except StoreUnavailableError:
                built = []
            if not built:
                self._metrics.spans_dropped.labels("unknown-decision").inc(record.spans)
            spans += built
        if not spans:
            return
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            self._metrics.spans_exported.inc(len(spans))
        else:
            self._metrics.spans_dropped.labels("failed").inc(len(spans))
