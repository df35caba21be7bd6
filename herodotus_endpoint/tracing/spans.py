"""Spans of scheduling attempts, built after the fact from what the records say.

Owns: names, IDs, times and attributes of spans, and their resources. Does not own: which fields of a record may be
exported (`traced_records`), sending (`exporter`).

The ID of a trace is the pod's UID, so all attempts of a pod are one trace, whichever replica of the service exports
them. The ID of a span follows from the decision's ID and the phase, so a record that is exported twice has one ID.

A record has the start of the attempt and the duration of each phase of the scheduling cycle. The phases are placed one
after the other from the start. Phases after the cycle, such as Bind, have their own time and may end after the span of
the attempt, because each is stored in a record of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from herodotus_endpoint.store import AttemptOrigin
from herodotus_endpoint.tracing.traced_records import TracedAttempt, TracedPhase, TracedRecord
from herodotus_record.lru import Lru
from herodotus_record.model import Code, DecisionPath, Source
from herodotus_record.trace_ids import derive_trace_id
from herodotus_record.version import __version__

ATTEMPT: Final = "scheduling attempt"
SERVICES: Final = {  # service.name by the origin of the record
    Source.SCHEDULER.value: "herodotus-scheduler",
    Source.RECONSTRUCTED.value: "herodotus-observer",
    Source.LOGGED.value: "herodotus-read-log",
}
MAX_ORIGINS: Final = 16_384  # attempts whose phases may still arrive; others are looked up in the database
MAX_RESOURCES: Final = 256  # incarnations of schedulers
_SCOPE: Final = InstrumentationScope("herodotus_endpoint", __version__)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)

Attributes = Mapping[str, str | int | float]


class _Place(NamedTuple):
    """Where the spans of an attempt belong: the trace, the decision, and the resource."""

    trace_id: int
    decision_id: str
    resource: Resource

    def context(self, name: str) -> SpanContext:
        """Return the IDs of the span with this name."""
        return SpanContext(self.trace_id, derive_span_id(self.decision_id, name), is_remote=False, trace_flags=_SAMPLED)


class SpanBuilder:
    """Builds the spans of records. It remembers recent attempts, because an outcome does not name its pod.

    `find_origin` returns an attempt by incarnation and sequence number from the store, or None if it is not stored.
    Not thread-safe.
    """

    def __init__(self, find_origin: Callable[[str, int], AttemptOrigin | None]) -> None:
        self._find_origin = find_origin
        self._origins: Lru[tuple[str, int], AttemptOrigin] = Lru(MAX_ORIGINS)
        self._resources: Lru[tuple[str, str, str], Resource] = Lru(MAX_RESOURCES)

    def build(self, record: TracedRecord) -> list[ReadableSpan]:
        """Return the spans of a record; none if it is an outcome whose decision is not stored."""
        return self._build_attempt(record) if isinstance(record, TracedAttempt) else self._build_phase(record)

    def _build_attempt(self, attempt: TracedAttempt) -> list[ReadableSpan]:
        key = attempt.key
        origin = AttemptOrigin(key.cluster, key.source.value, attempt.namespace, attempt.pod, key.pod_uid)
        self._origins.put((key.incarnation, attempt.sequence), origin)
        resource = self._resource(origin, key.incarnation, attempt.version)
        place = _Place(
            _trace_id(origin),
            attempt.decision_id,
            resource,
        )
        start = end = attempt.started_us * 1000
        phases = []
        for phase, seconds in attempt.phases_s.items():
            begin, end = end, end + round(seconds * 1e9)
            phases.append(_span(place, phase, (begin, end), {}, _UNSET))
        status = _ERROR if attempt.path is DecisionPath.ERROR else _UNSET
        return [_span(place, ATTEMPT, (start, end), _describe_attempt(attempt), status), *phases]

    def _build_phase(self, phase: TracedPhase) -> list[ReadableSpan]:
        key = (phase.incarnation, phase.decision_sequence)
        origin = self._origins.get(key) or self._find_origin(*key)
        if origin is None:
            return []
        place = _Place(
            _trace_id(origin),
            phase.decision_id,
            self._resource(origin, phase.incarnation, ""),
        )
        attributes: dict[str, str | int | float] = {"herodotus.status": phase.status.label}
        if phase.node:
            attributes["k8s.node.name"] = phase.node
        end = phase.ended_us * 1000
        times = end - round(phase.duration_s * 1e9), end
        return [_span(place, phase.phase, times, attributes, _ERROR if phase.status is Code.ERROR else _UNSET)]

    def _resource(self, origin: AttemptOrigin, incarnation: str, version: str) -> Resource:
        """Return the resource of a scheduler process. Attributes of OTEL_RESOURCE_ATTRIBUTES take precedence."""

        def create() -> Resource:
            texts = {
                "service.name": SERVICES.get(origin.source, f"herodotus-{origin.source}"),
                "service.instance.id": incarnation,
                "service.version": version,
                "k8s.cluster.uid": origin.cluster,
            }
            own = Resource({name: value for name, value in texts.items() if value}, Schemas.V1_44_0.value)
            return Resource.create().merge(own).merge(OTELResourceDetector().detect())

        return self._resources.get_or_create((origin.cluster, origin.source, incarnation), create)


def _trace_id(origin: AttemptOrigin) -> int:
    return derive_trace_id(origin.pod_uid, f"{origin.cluster}/{origin.namespace}/{origin.pod}")


def derive_span_id(decision_id: str, phase: str) -> int:
    """Return the ID of the span of one phase of an attempt, or of the attempt itself if `phase` is ATTEMPT."""
    digest = blake2b(f"{decision_id}/{phase}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def _describe_attempt(attempt: TracedAttempt) -> Attributes:
    """Return the attributes of an attempt's span. A value that the record does not have gives no attribute."""
    key = attempt.key
    texts = {
        "k8s.pod.uid": key.pod_uid,
        "k8s.pod.name": attempt.pod,
        "k8s.namespace.name": attempt.namespace,
        "k8s.node.name": attempt.node,
        "herodotus.profile": attempt.profile,
        "herodotus.decision.id": attempt.decision_id,
        "herodotus.path": attempt.path.value,
    }
    attributes: dict[str, str | int | float] = {name: text for name, text in texts.items() if text}
    attributes["herodotus.attempt"] = key.attempt
    for name, number in attempt.nodes.items():
        attributes[f"herodotus.nodes.{name}"] = number
    for name, seconds in attempt.queues_s.items():
        attributes[f"herodotus.queue.{name}.seconds"] = seconds
    return attributes


def _span(place: _Place, name: str, times_ns: tuple[int, int], attributes: Attributes, status: Status) -> ReadableSpan:
    """Return a span. Unless its name is ATTEMPT, its parent is the span ATTEMPT of the same place.

    `times_ns` are the start and the end in nanoseconds since the epoch.
    """
    return ReadableSpan(
        name,
        place.context(name),
        None if name == ATTEMPT else place.context(ATTEMPT),
        place.resource,
        attributes,
        kind=SpanKind.INTERNAL,
        status=status,
        start_time=times_ns[0],
        end_time=times_ns[1],
        instrumentation_scope=_SCOPE,
    )
