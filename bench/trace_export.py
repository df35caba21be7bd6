"""What the export of spans costs the decisions service for each decision: `python -m bench.trace_export`.

Ingest pays for selecting fields and the queue; the exporter's thread for building, encoding and sending spans to a
receiver in another process, which decodes nothing. Times are processor time of this process, the smallest of several
rounds, because they share the interpreter's lock with queries.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.tracing.span_queue import MAX_TAKEN, SpanQueue
from herodotus_endpoint.tracing.spans import SpanBuilder
from herodotus_endpoint.tracing.traced_records import select_traced
from herodotus_record.model import Decision, Outcome
from tests.builders import a_decision, a_table, bound

ROUNDS: Final = 7
NODES: Final = [f"worker-{i}" for i in range(100)]
PHASES_S: Final = {"PreFilter": 0.0001, "Filter": 0.002, "PreScore": 0.0002, "Score": 0.003}
RECEIVER: Final = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def main() -> None:
    """Print the processor times of queueing and of exporting the six spans of a decision with its outcome."""
    table = a_table(NODES)
    decisions = [a_decision(nodes=NODES, sequence=2 * i + 1) for i in range(MAX_TAKEN // 2)]
    records: list[Decision | Outcome] = []
    for i, decision in enumerate(decisions):
        measured = replace(decision, times=replace(decision.times, phases_s=PHASES_S))
        uid = f"00000000-0000-4000-8000-{i:012x}"
        records += [replace(measured, key=replace(measured.key, pod_uid=uid)), bound(decision, table)]
    traced = [select_traced(record, "worker-1") for record in records]

    def ingest() -> None:
        queue = SpanQueue(EndpointMetrics())
        queue.put([select_traced(record, "worker-1") for record in records])

    with subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{int(receiver.stdout.readline())}/v1/traces")

        def export() -> None:
            builder = SpanBuilder(lambda *_: None)
            spans = [span for record in traced for span in builder.build(record)]
            assert exporter.export(spans) is SpanExportResult.SUCCESS

        print(f"ingest: {_measure(ingest) / len(decisions) * 1e6:.1f} µs for each decision")
        print(f"export: {_measure(export) / len(decisions) * 1e6:.0f} µs for each decision")
        receiver.kill()


def _measure(run: Callable[[], None]) -> float:
    """Call `run` several times, and return the smallest processor time in seconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return min(times)


if __name__ == "__main__":
    main()
