"""Frames that a shipper delivers to a real service: of other versions, and deltas with the frames that they need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from herodotus_endpoint.api import ingest, record_limits
from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Decision, Frame, Gap
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.shipper import NotDeliveredError, Shipper
from scheduler.recorder.spool import Spool
from tests.builders import CLUSTER, INCARNATION, MONDAY_US, a_decision, a_table
from tests.endpoint.service import Service, a_service

LATER = codec.VERSION + 1
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
DECISION = a_decision(sequence=1)
GAP = Gap(INCARNATION, 4, 2, 3, "disk full", MONDAY_US)


class Wire(httpx.WSGITransport):
    """The way from the shipper to a service that reads frames of a version."""

    def __init__(self, service: Service, version: int = codec.VERSION) -> None:
        super().__init__(app=service.client.application)
        self.version = version
        self.codes: list[int] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with pytest.MonkeyPatch.context() as there:
            there.setattr(codec, "VERSION", self.version)
            answer = super().handle_request(request)
            answer.read()
        self.codes.append(answer.status_code)
        return answer


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return a_service(tmp_path / "service", insecure=True)


def spooled(directory: Path, version: int) -> Path:
    """Return a spool that a scheduler of a version wrote."""
    with pytest.MonkeyPatch.context() as there:
        there.setattr(codec, "VERSION", version)
        spool = Spool(directory / "spool", INCARNATION)
        spool.rotate(codec.encode(TABLE.rows(CLUSTER, INCARNATION)))
        for frame in (DECISION, GAP):
            spool.append(codec.encode(frame))
        spool.close()
    return directory / "spool"


@pytest.mark.parametrize("reads", [LATER, codec.VERSION], ids=["newer service", "service of this version"])
def test_frames_of_a_later_version_are_forwarded_unread(service: Service, tmp_path: Path, reads: int) -> None:
    """A scheduler was rolled back: a service stores its frames if it reads them, otherwise they are set aside."""
    spool = spooled(tmp_path, LATER)
    shipper = Shipper(spool, ServiceEndpoint("http://service"), Wire(service, reads))
    shipper.deliver_pending()
    assert shipper.progress.refused == (0 if reads == LATER else 3)
    assert len(service.store.reader.incarnations()) == (1 if reads == LATER else 0)
    assert (spool / "refused.frames").exists() == (reads != LATER)


def test_a_415_of_another_server_quarantines_nothing(tmp_path: Path) -> None:
    spool = spooled(tmp_path, codec.VERSION)
    elsewhere = httpx.MockTransport(lambda _: httpx.Response(415, text="a proxy"))
    shipper = Shipper(spool, ServiceEndpoint("http://service"), elsewhere)
    with pytest.raises(NotDeliveredError, match="not from the decisions service: a proxy"):
        shipper.deliver_pending()
    assert shipper.progress.refused == 0


class TestDeltas:
    """A template's first decision is whole, the next ones are said by their difference."""

    @pytest.fixture
    def herd(self, tmp_path: Path) -> Path:
        """A spool with three decisions of one template; the position is behind the first one."""
        spool, writer = Spool(tmp_path / "spool", INCARNATION), deltas.DeltaWriter()
        first = replace(DECISION, rank=codec.DERIVED)
        frames = [writer.encode(replace(first, sequence=i, id=f"{DECISION.id[:-1]}{i}")) for i in (1, 2, 3)]
        assert [(frame[2], frame[3]) for frame in frames] == [
            (codec.VERSION, kind) for kind in (1, codec.DELTA, codec.DELTA)
        ]
        spool.rotate(codec.encode(TABLE.rows(CLUSTER, INCARNATION)))
        spool.append(frames[0])
        self.ship(tmp_path / "spool", httpx.MockTransport(lambda _: httpx.Response(200)))
        for frame in frames[1:]:
            spool.append(frame)
        return tmp_path / "spool"

    @staticmethod
    def ship(spool: Path, way: httpx.BaseTransport) -> Shipper:
        shipper = Shipper(spool, ServiceEndpoint("http://service"), way)
        shipper.deliver_pending()
        return shipper

    def test_an_empty_service_receives_the_node_table_first(self, service: Service, herd: Path) -> None:
        """From a shipper that has just been started in the middle of a segment; the table is asked for too."""
        wire = Wire(service)
        assert (self.ship(herd, wire).progress.refused, wire.codes) == (0, [409, 200])
        stored = service.get("/apis/herodotus.dev/v1alpha1/namespaces/shop/decisions")["items"]
        assert len(stored) == 3, "their base goes along"
        assert {item["spec"]["snapshot"]["evaluated"] for item in stored} == {3}

    def test_each_half_of_a_split_batch_includes_its_base(
        self, service: Service, herd: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        taken = record_limits.check_frame

        def refuses_the_second(frame: Frame) -> Frame:
            if isinstance(frame, Decision) and frame.sequence == 2:
                raise codec.CodecError("not this one")
            return taken(frame)

        monkeypatch.setattr(ingest, "check_frame", refuses_the_second)
        shipper = self.ship(herd, Wire(service))
        assert shipper.progress.refused == 1
        (incarnation,) = service.store.reader.incarnations()
        assert (incarnation.highest, incarnation.missing) == (3, 1)
