"""An OTLP/HTTP receiver in process, and the rules that every span must follow."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.semconv._incubating.attributes import k8s_attributes, service_attributes
from opentelemetry.semconv.attributes import telemetry_attributes

CONVENTIONS = {
    value
    for module in (k8s_attributes, service_attributes, telemetry_attributes)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}


@dataclass(frozen=True)
class ReceivedSpan:
    """A span with its resource; attributes as a dictionary."""

    span: Span
    resource: dict[str, Any]
    schema: str

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def attributes(self) -> dict[str, Any]:
        return read_attributes(self.span.attributes)


@dataclass
class Receiver:
    """What a receiver got. `code` is the status code of its answers."""

    url: str = ""
    code: int = 200
    bodies: list[bytes] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def add(self, body: bytes) -> None:
        with self.arrived:
            self.bodies.append(body)
            self.arrived.notify_all()

    def spans(self) -> list[ReceivedSpan]:
        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                known = read_attributes(resource.resource.attributes)
                spans = (span for scope in resource.scope_spans for span in scope.spans)
                found += [ReceivedSpan(span, known, resource.schema_url) for span in spans]
        return found

    def wait(self, number: int) -> list[ReceivedSpan]:
        """Return the spans once there are at least `number` of them, checked against the rules."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.spans()) >= number, 60), self.spans()
        found = self.spans()
        validate(found)
        return found


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            receiver.add(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(receiver.code)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def read_attributes(pairs: Any) -> dict[str, Any]:
    found = {pair.key: _value(pair) for pair in pairs}
    assert len(found) == len(pairs), "the name of an attribute is unique"
    return found


def _value(pair: KeyValue) -> Any:
    kind = pair.value.WhichOneof("value")
    assert kind in ("string_value", "int_value", "double_value"), pair
    return getattr(pair.value, kind)


def validate(found: list[ReceivedSpan]) -> None:
    """Check what OpenTelemetry's specification asks of spans, and the names of its semantic conventions."""
    ids = {(s.span.trace_id, s.span.span_id) for s in found}
    assert len(ids) == len(found), "span IDs are unique in a trace"
    for each in found:
        span = each.span
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert any(span.trace_id)
        assert any(span.span_id)
        assert span.name
        assert span.kind == Span.SPAN_KIND_INTERNAL
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert not span.parent_span_id or (span.trace_id, span.parent_span_id) in ids
        assert bool(span.parent_span_id) is (span.name != "scheduling attempt")
        own = {name for name in each.attributes if name.startswith("herodotus.")}
        assert set(each.attributes) - own <= CONVENTIONS
        assert set(each.resource) <= CONVENTIONS
        assert {"service.name", "service.instance.id", "telemetry.sdk.name"} <= each.resource.keys()
        assert each.schema.startswith("https://opentelemetry.io/schemas/")
