"""Stored attempts reach an OTLP receiver as spans: their form, what they disclose, and what is dropped."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from herodotus_endpoint import __main__ as program
from herodotus_endpoint import options
from herodotus_endpoint.app import create_app
from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Store
from herodotus_endpoint.tracing.exporter import TraceExporter
from herodotus_endpoint.tracing.span_queue import MAX_TAKEN, SpanQueue
from herodotus_endpoint.tracing.spans import ATTEMPT, SpanBuilder
from herodotus_endpoint.tracing.traced_records import PHASES, select_traced
from herodotus_record.discloses import Discloses
from herodotus_record.model import Code, Decision, DecisionPath, Outcome, Source, Times
from tests.builders import CLUSTER, INCARNATION, INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.access.canaries import NODES, Plantation, find_canaries
from tests.endpoint.service import Service, an_empty_file, rows
from tests.endpoint.tracing.receiver import Receiver, running_receiver
from tests.processes import ROOT
from tests.support.clock import Clock

UID = "0b9f6a52-6d0c-4a35-9f0e-3c0a4a6f2a11"
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
PHASES_S = {"PreFilter": 0.0001, "Filter": 0.002, "PreScore": 0.0002, "Score": 0.003}
DROPPED = "herodotus_trace_spans_dropped_total"


def attempt(**arguments: object) -> Decision:
    decision = a_decision(**{"uid": UID, **arguments})  # type: ignore[arg-type]
    return replace(decision, times=replace(decision.times, phases_s=PHASES_S))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


@pytest.fixture
def traced(tmp_path: Path, receiver: Receiver) -> Iterator[Service]:
    """A service that exports to the receiver."""
    clock, metrics = Clock(), EndpointMetrics()
    store = Store(an_empty_file(tmp_path / "herodotus.db"), clock, clock)
    queue = SpanQueue(metrics, delay_s=0.01)
    exporter = TraceExporter(receiver.url, queue, store, metrics)
    exporter.start()
    app = create_app(store, ServiceSettings(clock=clock, traces=queue), metrics)
    yield Service(store, app.test_client(), clock, metrics)
    exporter.stop()
    store.close()


def test_an_attempt_is_one_span_with_its_phases_as_children(traced: Service, receiver: Receiver) -> None:
    decision = attempt()
    traced.stored(rows(TABLE), decision, bound(decision, TABLE))
    spans = receiver.wait(6)
    whole, *phases = spans
    assert [s.name for s in spans] == [ATTEMPT, *PHASES_S, "Bind"]
    assert {s.span.trace_id.hex() for s in spans} == {UID.replace("-", "")}
    assert {s.span.parent_span_id for s in phases} == {whole.span.span_id}
    assert whole.attributes == {
        "k8s.pod.uid": UID,
        "k8s.pod.name": decision.pod.name,
        "k8s.namespace.name": "shop",
        "k8s.node.name": "worker-1",
        "herodotus.profile": "herodotus-scheduler",
        "herodotus.decision.id": decision.id,
        "herodotus.path": "scored",
        "herodotus.attempt": 1,
        "herodotus.nodes.total": 3,
        "herodotus.nodes.evaluated": 3,
        "herodotus.nodes.feasible": 3,
        "herodotus.queue.active.seconds": 0.5,
    }
    known = {"service.name", "service.instance.id", "service.version", "k8s.cluster.uid"}
    assert {name: whole.resource[name] for name in known} == {
        "service.name": "herodotus-scheduler",
        "service.instance.id": INCARNATION,
        "service.version": "0.1.0",
        "k8s.cluster.uid": CLUSTER,
    }
    ends = [p.span.end_time_unix_nano for p in phases[:-1]]
    assert [p.span.start_time_unix_nano for p in phases[:-1]] == [MONDAY_US * 1000, *ends[:-1]]
    assert (whole.span.start_time_unix_nano, whole.span.end_time_unix_nano) == (MONDAY_US * 1000, ends[-1])
    assert ends[-1] - MONDAY_US * 1000 == pytest.approx(sum(PHASES_S.values()) * 1e9, abs=4)
    binding = phases[-1]
    assert binding.attributes == {"herodotus.status": "Success", "k8s.node.name": "worker-1"}
    assert binding.span.end_time_unix_nano - binding.span.start_time_unix_nano == 4_000_000
    exported = traced.metric("herodotus_trace_spans_exported_total")
    assert (exported, traced.metric(DROPPED, cause="failed")) == (6, None)


def test_all_attempts_of_a_pod_are_one_trace(traced: Service, receiver: Receiver) -> None:
    first = attempt(rejected={n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in TABLE.names})
    second = attempt(attempt=2, sequence=2)
    reconstructed = attempt(attempt=1, sequence=3)
    reconstructed = replace(reconstructed, key=replace(reconstructed.key, source=Source.RECONSTRUCTED))
    traced.stored(rows(TABLE), first, second, reconstructed)
    spans = receiver.wait(15)
    whole = [s for s in spans if s.name == ATTEMPT]
    assert len({s.span.trace_id for s in spans}) == 1
    assert ["k8s.node.name" in s.attributes for s in whole] == [False, True, True]
    assert {s.resource["service.name"] for s in whole} == {"herodotus-scheduler", "herodotus-observer"}


def test_errors_have_the_status_error_and_no_description(traced: Service, receiver: Receiver) -> None:
    decision = attempt()
    failed = replace(attempt(sequence=3, attempt=2), path=DecisionPath.ERROR, chosen=None, message="a secret")
    traced.stored(rows(TABLE), decision, bound(decision, TABLE, status=Code.ERROR), failed)
    statuses = {(s.name, s.span.status.code) for s in receiver.wait(11) if s.span.status.code}
    assert statuses == {("Bind", 2), (ATTEMPT, 2)}
    assert {s.span.status.message for s in receiver.spans()} == {""}


def test_a_batch_that_is_sent_again_is_exported_once(traced: Service, receiver: Receiver) -> None:
    frames = rows(TABLE), attempt(), attempt(sequence=2, attempt=2)
    traced.stored(*frames)
    assert traced.stored(*frames)["duplicates"] == 3
    traced.stored(attempt(sequence=3, attempt=3))
    assert len(receiver.wait(15)) == 15  # the rules ask for unique span IDs


def test_a_refused_batch_is_not_exported(traced: Service, receiver: Receiver) -> None:
    unknown = replace(attempt(sequence=2, attempt=2), generation=99)
    assert traced.send(rows(TABLE), attempt(), unknown).status_code == 409
    traced.stored(rows(TABLE), attempt(sequence=7))
    assert [s.attributes["herodotus.decision.id"] for s in receiver.wait(5) if s.name == ATTEMPT] == [
        attempt(sequence=7).id
    ]


def test_a_phase_whose_decision_another_process_stored_is_found_in_the_database(traced: Service) -> None:
    decision = attempt()
    traced.stored(rows(TABLE), decision)
    outcome = select_traced(bound(decision, TABLE), None)
    (span,) = SpanBuilder(traced.store.reader.find_origin).build(outcome)
    context = span.get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == UID.replace("-", "")
    assert SpanBuilder(lambda *_: None).build(outcome) == []


def test_a_phase_without_its_decision_is_counted(traced: Service, receiver: Receiver) -> None:
    traced.stored(rows(TABLE), replace(bound(attempt(), TABLE), decision_sequence=40))
    traced.stored(attempt(sequence=9))
    receiver.wait(5)
    assert traced.metric(DROPPED, cause="unknown-decision") == 1


def test_spans_of_a_receiver_that_refuses_are_counted(traced: Service, receiver: Receiver) -> None:
    receiver.code = 400
    with receiver.arrived:
        traced.stored(rows(TABLE), attempt())
        assert receiver.arrived.wait_for(lambda: receiver.bodies, 60)
    receiver.code = 200
    traced.stored(attempt(sequence=2, attempt=2))
    receiver.wait(10)
    assert traced.metric(DROPPED, cause="failed") == 5
    assert traced.metric("herodotus_trace_spans_exported_total") in (None, 0, 5)  # the second may be under way


def test_a_full_queue_drops_and_counts() -> None:
    metrics = EndpointMetrics()
    queue = SpanQueue(metrics, capacity=MAX_TAKEN, delay_s=0)
    record = select_traced(attempt(), "worker-1")
    queue.put([record] * (MAX_TAKEN - 1))
    queue.put([record] * 3)
    value = metrics.registry.get_sample_value
    assert value(DROPPED, {"cause": "queue-full"}) == 2 * 5
    assert len(queue.take()) == MAX_TAKEN
    queue.close()
    queue.put([record])
    assert (queue.take(), value(DROPPED, {"cause": "queue-full"})) == ([], 3 * 5)


def test_taking_waits_for_a_record() -> None:
    queue = SpanQueue(EndpointMetrics(), delay_s=0)
    taken: list[int] = []
    thread = threading.Thread(target=lambda: taken.append(len(queue.take())))
    thread.start()
    queue.put([select_traced(attempt(), None)])
    thread.join(60)
    assert taken == [1]


@pytest.mark.parametrize(
    ("uid", "trace"),
    [(UID, UID.replace("-", "")), ("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef")],
)
def test_a_uid_is_the_id_of_the_trace(uid: str, trace: str) -> None:
    assert trace_id(attempt(uid=uid)) == trace


def test_pods_without_a_usable_uid_have_traces_of_their_own() -> None:
    unknown = [replace(d, key=replace(d.key, pod_uid="")) for d in (attempt(), attempt(pod="other"))]
    found = [trace_id(d) for d in (*unknown, attempt(uid="no-uuid"), attempt(uid="00000000000000000000000000000000"))]
    assert len(set(found)) == 4
    assert trace_id(unknown[0]) == found[0]


def trace_id(decision: Decision) -> str:
    whole = SpanBuilder(lambda *_: None).build(select_traced(decision, None))[0].get_span_context()
    assert whole is not None
    return f"{whole.trace_id:032x}"


def test_unknown_numbers_and_phases_are_left_out() -> None:
    decision = replace(
        attempt(), unknown=("snapshot.nodes", "times.phaseSeconds"), times=Times(0, 0, MONDAY_US, {"Unknown": 1.0})
    )
    (whole,) = SpanBuilder(lambda *_: None).build(select_traced(decision, None))
    assert whole.attributes is not None
    assert "herodotus.nodes.total" not in whole.attributes
    assert whole.start_time == whole.end_time


def test_resource_attributes_of_the_environment_take_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=blue,service.version=9")
    (whole, *_) = SpanBuilder(lambda *_: None).build(select_traced(attempt(), None))
    named = {name: whole.resource.attributes[name] for name in ("k8s.cluster.name", "service.version", "service.name")}
    assert named == {"k8s.cluster.name": "blue", "service.version": "9", "service.name": "herodotus-scheduler"}


def test_spans_hold_no_text_that_masking_hides(traced: Service, receiver: Receiver) -> None:
    planted = Plantation()
    placed = planted.decision("placed", "shop", uid=UID)
    failed = planted.decision(
        "failed", "shop", sequence=2, attempt=2, rejected={n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES}
    )
    end: Outcome = planted.frame("end", "shop", bound(a_decision(nodes=NODES, uid=UID), a_table(NODES), sequence=3))
    traced.stored(rows(a_table(NODES)), placed, failed, replace(end, decision_id=placed.id))
    found = find_canaries(str(receiver.wait(5)))
    assert {planted.known[word].discloses for word in found} == {
        Discloses.NOTHING,
        Discloses.NODES,
        Discloses.THIS_POD,
    }


def test_every_phase_of_the_cycle_is_known() -> None:
    """The record's declaration names the phases, and traces have them in the order of the cycle."""
    described = Times.__dataclass_fields__["phases_s"].metadata
    assert all(phase in str(described) for phase in PHASES)


def test_without_the_flag_nothing_of_opentelemetry_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from herodotus_endpoint import __main__, server\n"
        "from herodotus_endpoint.settings import ServiceSettings\n"
        "from herodotus_endpoint.metrics import EndpointMetrics\n"
        "from tests.builders import a_decision, a_table; from tests.endpoint.service import a_service, rows\n"
        "d = a_decision(); s = a_service(Path(sys.argv[1])); s.stored(rows(a_table(['worker-1'])), d)\n"
        "assert server._start_tracing(ServiceSettings(), s.store, EndpointMetrics()) is None\n"
        "print(sorted({n.split('.')[0] for n in sys.modules} & {'opentelemetry', 'google', 'requests'}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stdout, run.returncode) == ("[]\n", 0), run.stderr


def test_the_flag_is_optional() -> None:
    assert options.build_settings(options.build_parser().parse_args([])).otlp_endpoint == ""


@pytest.mark.parametrize("url", ["collector:4318", "grpc://c:4317", "http://", "http://c:99999", "http://c/?a=b"])
def test_other_urls_are_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(["--otlp-endpoint", url])
    assert "is not a URL such as http://HOST:4318" in capsys.readouterr().err
