"""What holds for every route: one envelope for errors, known parameters, read-only queries, probes."""

from typing import Any

import pytest

from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.store import StoreUnavailableError
from herodotus_record import codec
from herodotus_record.version import __version__
from tests.builders import a_decision, a_table
from tests.endpoint.service import API, Service, envelope, rows

LONG = "x" * 254


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", 404),
        ("GET", f"{API}/nowhere", 404),
        ("GET", f"{API}/namespaces//decisions", 404),
        ("GET", "/livez/", 404),
        ("GET", "/ingest/v1/frames", 405),
        ("PUT", "/ingest/v1/frames", 405),
        ("POST", f"{API}/decisions", 405),
        ("DELETE", f"{API}/namespaces/shop/decisions/p", 405),
        ("PATCH", "/pod", 405),
        ("OPTIONS", f"{API}/decisions", 405),
        ("OPTIONS", "/livez", 405),
        ("POST", "/", 405),
        ("GET", f"{API}/decisions?limti=3", 400),
        ("GET", f"{API}/decisions?sendInitialEvents=true&watch=true", 422),
        ("GET", f"{API}/decisions?fieldSelector=spec.colour%3Dred", 400),
        ("GET", f"{API}/decisions?labelSelector=a%3D%3D%3Db", 400),
        ("GET", f"{API}/decisions?labelSelector=a%3E5", 400),
        ("GET", f"{API}/nodehistories?limit=x", 400),
        ("GET", f"{API}/decisions?limit=-1", 400),
        ("GET", f"{API}/decisions?limit=1&limit=2", 400),
        ("GET", f"{API}/decisions?continue=abc", 400),
        ("GET", f"{API}/decisions?continue=é", 400),
        ("GET", f"{API}/decisions?pod={LONG}", 400),
        ("GET", f"{API}/namespaces/{LONG}/decisions", 400),
        ("GET", f"{API}/namespaces/shop/podexplanations/{LONG}", 400),
        ("GET", f"{API}/namespaces/shop/podexplanations/p?attempt=x", 400),
        ("GET", f"{API}/namespaces/shop/podexplanations/p?attempt=0", 400),
        ("GET", f"{API}/namespaces/shop/podexplanations/p?attempt=9223372036854775808", 400),
        ("GET", f"{API}/namespaces/shop/podexplanations/checkout-7d9f-x2k?all=yes", 400),
        ("GET", f"{API}/namespaces/shop/podexplanations/p%00q", 400),
        ("GET", f"{API}/nodehistories/worker-1?since=yesterday", 400),
        ("GET", f"{API}/nodehistories/worker-1?since=2026-03-01T12:00:00", 400),
        ("GET", f"{API}/nodehistories/{LONG}", 400),
        ("GET", "/pod?name=a&namespace=b&x=1", 400),
    ],
)
def test_every_error_is_a_status(service: Service, method: str, path: str, code: int) -> None:
    service.stored(rows(a_table(["worker-1", "worker-2", "worker-3"])), a_decision())
    assert envelope(service.client.open(path, method=method))["code"] == code


def test_error_names_the_unknown_parameter(service: Service) -> None:
    status = service.error(f"{API}/decisions", limti=3)
    assert status["message"].startswith(
        "unknown parameter 'limti'; supported: pod, since, until, cluster, archive, limit, continue"
    )


def test_405_lists_allowed_methods(service: Service) -> None:
    assert service.client.post(f"{API}/decisions").headers["Allow"] == "GET, HEAD"


def test_unexpected_error_is_a_status_without_traceback(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(EndpointMetrics, "exposition", broken)
    status = envelope(service.client.get("/metrics"))
    assert (status["code"], "secret" in status["message"]) == (500, False)
    assert "secret detail" in caplog.text


def test_livez_succeeds_while_readyz_fails(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert [service.client.get(p).text for p in ("/livez", "/readyz")] == ["ok", "ok"]

    def gone() -> None:
        raise StoreUnavailableError("unable to open database file")

    monkeypatch.setattr(service.store.reader, "check_readable", gone)
    assert service.client.get("/livez").status_code == 200
    status = envelope(service.client.get("/readyz"))
    assert (status["code"], status["message"]) == (503, "not ready: database-read failed: reason withheld")
    assert "unable to open database file" in caplog.text, "the log has the reason, and not everybody"


def test_unavailable_database_is_503_without_the_drivers_text(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unavailable(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("connection to server at 10.0.0.1 failed")

    monkeypatch.setattr(service.store.reader, "incarnations", unavailable)
    answer = service.client.get(f"{API}/incarnations")
    message = "the database is unavailable; the service's log has the details"
    assert (answer.status_code, envelope(answer)["message"]) == (503, message)
    assert "10.0.0.1" in caplog.text


def test_full_database_is_not_ready(service: Service) -> None:
    """Not for a batch that happens to fit; ready again by itself, and nothing of a trial remains."""
    before = service.store.reader.measure_sizes().rows
    with service.store.writer.transaction() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    status = envelope(service.client.get("/readyz"))
    assert (status["code"], status["message"]) == (503, "not ready: database-write failed: reason withheld")
    assert service.client.get("/livez").status_code == 200
    with service.store.writer.transaction() as connection:
        assert service.client.get("/readyz").text == "ok", "while another write is under way"
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    assert service.client.get("/readyz").text == "ok"
    assert service.store.reader.measure_sizes().rows == before


def test_read_only_database_is_not_ready(service: Service) -> None:
    with service.store.writer.transaction() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
    assert envelope(service.client.get("/readyz"))["message"] == "not ready: database-write failed: reason withheld"


def test_head_is_answered_without_a_body(service: Service) -> None:
    answer = service.client.head(f"{API}/decisions")
    assert (answer.status_code, answer.data) == (200, b"")


def test_index_lists_routes_and_responses_are_not_cached(service: Service) -> None:
    answer = service.client.get("/")
    assert {"/livez", "/metrics", "/pod", f"{API}/nodehistories/<node>"} <= set(answer.get_json()["paths"])
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.text.startswith('{"service":"herodotus",')


def test_version_has_api_and_frame_versions(service: Service) -> None:
    assert service.get("/version") == {
        "apiVersion": "herodotus.dev/v1alpha1",
        "kind": "ServiceVersion",
        "version": __version__,
        "frameVersion": codec.VERSION,
    }


def test_metrics_include_store_sizes_and_latencies(service: Service) -> None:
    service.stored(rows(a_table(["worker-1", "worker-2", "worker-3"])), a_decision())
    assert service.metric("herodotus_stored", kind="decisions") == 1
    assert service.metric("herodotus_ingest_frames_total", kind="node_rows") == 1
    assert (service.metric("herodotus_database_bytes", kind="live") or 0) > 100_000
    assert service.metric("herodotus_request_seconds_count", route="/metrics", code="200") == 4
