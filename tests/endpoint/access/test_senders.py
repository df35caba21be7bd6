"""Who may send records: a token for this service, or a certificate, and of one cluster alone."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from herodotus_endpoint.api import ingest
from herodotus_record import codec
from herodotus_record.model import Frame, Gap, HighWater
from herodotus_serving.wsgi import CERTIFICATE
from tests.builders import CLUSTER, INCARNATION, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.reviewer import SENDER, Reviewer, bearer
from tests.endpoint.service import a_service, envelope, rows
from tests.scheduler.serving.authorities import Authority

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
BATCH = (rows(TABLE), a_decision())
TOKENS = {"good": (SENDER, "herodotus-endpoint"), "other": ("eve", "herodotus-endpoint"), "api": (SENDER, "")}


@pytest.mark.parametrize(
    ("token", "code"),
    [("good", 200), ("other", 403), ("api", 401), ("expired", 401), ("", 401)],
    ids=["the sender's", "another user's", "meant for the API server", "expired", "none"],
)
def test_token_must_belong_to_a_sender_and_have_the_audience(tmp_path: Path, token: str, code: int) -> None:
    service = a_service(tmp_path, senders=Reviewer(TOKENS).senders({SENDER: CLUSTER}))
    answer = service.send(*BATCH, headers=bearer(token) if token else {})
    assert answer.status_code == code
    assert len(service.store.listing.decisions([], None, 9)) == (code == 200)
    service.store.close()


def test_configured_senders_are_required_on_loopback_too(tmp_path: Path) -> None:
    service = a_service(tmp_path, senders=Reviewer(TOKENS).senders({SENDER: CLUSTER}), insecure=True)
    assert envelope(service.send(*BATCH))["code"] == 401
    service.store.close()


def test_sender_is_bound_to_one_cluster(tmp_path: Path) -> None:
    """Frames that name another, and frames of a scheduler that another cluster's frames are stored of."""
    reviewer = Reviewer(tokens={"a": ("a", "herodotus-endpoint"), "b": ("b", "herodotus-endpoint")})
    service = a_service(tmp_path, senders=reviewer.senders({"a": CLUSTER, "b": "another"}))
    assert service.send(*BATCH, headers=bearer("a")).status_code == 200
    gap = Gap(INCARNATION, 5, 2, 4, "forged", MONDAY_US)
    for batch in (BATCH, (gap,), (rows(TABLE, cluster="another"),)):
        assert envelope(service.send(*batch, headers=bearer("b")))["reason"] == "Forbidden"
    theirs = replace(TABLE, generation=9).rows("another", "their-incarnation")
    assert service.send(theirs, headers=bearer("b")).status_code == 200
    service.store.close()


@pytest.mark.parametrize(
    "frame",
    [
        Gap("young", 1, 0, 0, "spool full", MONDAY_US),
        replace(bound(a_decision(), TABLE), incarnation="young"),
        HighWater("young", 1, "older", 7, MONDAY_US),
    ],
    ids=lambda f: type(f).__name__,
)
def test_frames_without_a_cluster_get_that_of_the_sender(tmp_path: Path, frame: Frame) -> None:
    reviewer = Reviewer(tokens={"a": ("a", "herodotus-endpoint"), "b": ("b", "herodotus-endpoint")})
    service = a_service(tmp_path, senders=reviewer.senders({"a": CLUSTER, "b": "another"}))
    assert service.send(frame, headers=bearer("a")).status_code == 200
    assert {known.cluster for known in service.store.reader.incarnations()} == {CLUSTER}
    for batch in ((frame,), (rows(TABLE, cluster="another", incarnation="young"),)):
        status = envelope(service.send(*batch, headers=bearer("b")))
        assert (status["code"], "its sender of another" in status["message"]) == (403, True)
    assert service.send(rows(TABLE, incarnation="young"), headers=bearer("a")).status_code == 200
    service.store.close()


def test_every_frame_of_a_batch_is_checked_for_its_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of decoded decisions takes ten times the memory of its bytes."""
    alive: list[weakref.ref[Frame]] = []
    most = 0

    def counted(frame: Frame) -> Frame:
        nonlocal most
        alive.append(weakref.ref(frame))
        most = max(most, sum(ref() is not None for ref in alive))
        return frame

    monkeypatch.setattr(ingest, "check_frame", counted)
    service = a_service(tmp_path, senders=Reviewer(TOKENS).senders({SENDER: CLUSTER}))
    batch = [a_decision(sequence=n, pod=f"web-{n}") for n in range(1, 60)]
    body = b"".join(map(codec.encode, (rows(TABLE), *batch)))
    assert service.post(body, headers=bearer("good")).status_code == 200
    assert most < 10
    service.store.close()


def test_unavailable_token_review_is_503_with_retry_after(tmp_path: Path) -> None:
    reviewer = Reviewer(answer=httpx.ConnectError("no route"))
    service = a_service(tmp_path, senders=reviewer.senders({SENDER: CLUSTER}))
    answer = service.send(*BATCH, headers=bearer("good"))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    service.store.close()


@pytest.mark.parametrize("case", ["good", "another authority", "another name"])
def test_certificate_must_belong_to_a_sender(tmp_path: Path, case: str) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    name = "eve" if case == "another name" else "scheduler"
    cert, _ = (others if case == "another authority" else ours).client(name)
    der = x509.load_pem_x509_certificate(cert.read_bytes()).public_bytes(Encoding.DER)
    service = a_service(tmp_path, senders=Reviewer().senders({"scheduler": CLUSTER}, ours.pem))
    answer = service.send(*BATCH, environ_overrides={CERTIFICATE: der})
    assert answer.status_code == {"good": 200, "another authority": 401, "another name": 403}[case]
    service.store.close()
