"""Scheduler and service are upgraded in either order: a shipper says its records in a version that the service reads.

The version of tomorrow is made up: it differs from today's in the reasons of gaps, and has high-water notes that cannot
be said in today's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from herodotus_endpoint.api import ingest, record_limits
from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Decision, Frame, Gap, HighWater
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.shipper import NotDeliveredError, Shipper
from scheduler.recorder.spool import Spool
from tests.builders import CLUSTER, INCARNATION, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.service import Service, a_service

TODAY, TOMORROW = codec.VERSION, codec.VERSION + 1
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
DECISION = a_decision(sequence=1)
GAP = Gap(INCARNATION, 4, 3, 3, "a reason of tomorrow", MONDAY_US)
MARK = HighWater(INCARNATION, 5, "earlier", 7, MONDAY_US)


def in_todays_words(frame: Frame) -> Frame:
    if isinstance(frame, HighWater):
        raise codec.UnknownVersionError("a high-water mark of tomorrow is none of today")
    return replace(frame, reason="unknown to today") if isinstance(frame, Gap) else frame


class Wire(httpx.WSGITransport):
    """The way from the shipper to a service that reads frames up to a version."""

    def __init__(self, service: Service, version: int) -> None:
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


@pytest.fixture
def spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A spool that a scheduler of a version wrote. From then on this process is of `shipper`'s version."""

    def write(*frames: Frame, by: int, shipper: int) -> Path:
        monkeypatch.setitem(codec._DOWNGRADES, TOMORROW, in_todays_words)
        monkeypatch.setattr(codec, "VERSION", by)
        monkeypatch.setattr(codec, "_oldest_version_for", lambda _: by)
        spool = Spool(tmp_path / "spool", INCARNATION)
        spool.rotate(codec.encode(TABLE.rows(CLUSTER, INCARNATION)))
        for frame in frames:
            spool.append(codec.encode(frame))
        spool.close()
        monkeypatch.setattr(codec, "VERSION", shipper)
        return tmp_path / "spool"

    return write


def test_a_newer_scheduler_sends_the_frame_version_of_an_older_service(
    service: Service, spooled: Callable[..., Path]
) -> None:
    """It costs one refused batch, once; nothing is set aside, and nothing is waited for."""
    spool = spooled(DECISION, bound(DECISION, TABLE, sequence=2), GAP, by=TOMORROW, shipper=TOMORROW)
    wire = Wire(service, TODAY)
    shipper = Shipper(spool, ServiceEndpoint("http://service"), wire)
    assert (shipper.deliver_pending(), wire.codes, shipper.progress.refused) == (True, [415, 200], 0)
    (stored,) = service.get("/apis/herodotus.dev/v1alpha1/namespaces/shop/decisions")["items"]
    assert stored["status"]["state"] == "Bound"
    again = spooled(replace(DECISION, sequence=6, id=DECISION.id[:-1] + "6"), by=TOMORROW, shipper=TOMORROW)
    assert (shipper.deliver_pending(), again, wire.codes) == (True, spool, [415, 200, 200])


def test_an_upgraded_service_receives_the_newer_frame_version(service: Service, spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, by=TOMORROW, shipper=TOMORROW)
    wire = Wire(service, TODAY)
    shipper = Shipper(spool, ServiceEndpoint("http://service"), wire)
    shipper.deliver_pending()
    wire.version = TOMORROW
    spooled(GAP, by=TOMORROW, shipper=TOMORROW)
    shipper.deliver_pending()  # still in today's words: the answer tells of the upgrade
    spooled(MARK, by=TOMORROW, shipper=TOMORROW)
    shipper.deliver_pending()
    assert (wire.codes, shipper.progress.refused) == ([415, 200, 200, 200], 0)


def test_only_unconvertible_frames_are_quarantined(service: Service, spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, MARK, GAP, by=TOMORROW, shipper=TOMORROW)
    shipper = Shipper(spool, ServiceEndpoint("http://service"), Wire(service, TODAY))
    shipper.deliver_pending()
    assert (spool / "refused.frames").read_bytes() == codec.encode(MARK)
    assert shipper.progress.refused == 1
    (known,) = service.store.reader.incarnations()
    assert known.highest == GAP.sequence


@pytest.mark.parametrize("version", [TOMORROW, TODAY], ids=["newer service", "older service"])
def test_a_rolled_back_scheduler_forwards_frames_that_it_cannot_read(
    service: Service, spooled: Callable[..., Path], version: int
) -> None:
    """Its predecessor's records: to a service that reads them; before one that does not they are set aside."""
    spool = spooled(DECISION, replace(MARK, sequence=2), by=TOMORROW, shipper=TODAY)
    shipper = Shipper(spool, ServiceEndpoint("http://service"), Wire(service, version))
    shipper.deliver_pending()
    assert shipper.progress.refused == (0 if version == TOMORROW else 3)
    assert len(service.store.reader.incarnations()) == (2 if version == TOMORROW else 0)


def test_a_newer_service_reads_frames_of_an_older_scheduler(service: Service, spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, by=TODAY, shipper=TODAY)
    wire = Wire(service, TOMORROW)
    Shipper(spool, ServiceEndpoint("http://service"), wire).deliver_pending()
    assert wire.codes == [200]


def test_a_415_of_another_server_quarantines_nothing(spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, by=TODAY, shipper=TODAY)
    elsewhere = httpx.MockTransport(lambda _: httpx.Response(415, text="a proxy"))
    shipper = Shipper(spool, ServiceEndpoint("http://service"), elsewhere)
    with pytest.raises(NotDeliveredError, match="not from the decisions service: a proxy"):
        shipper.deliver_pending()
    assert shipper.progress.refused == 0


class TestDeltas:
    """Real frames of today: a template's first decision is whole, the next ones are said by their difference."""

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

    @pytest.mark.parametrize(
        ("version", "codes"),
        [(TODAY, [409, 200]), (TODAY - 1, [415, 409, 200]), (1, [415, 409, 200])],
        ids=["same", "older", "oldest"],
    )
    def test_an_empty_service_receives_the_node_table_first(
        self, service: Service, herd: Path, version: int, codes: list[int]
    ) -> None:
        """From a shipper that has just been started in the middle of a segment; the table is asked for too."""
        wire = Wire(service, version)
        assert (self.ship(herd, wire).progress.refused, wire.codes) == (0, codes)
        stored = service.get("/apis/herodotus.dev/v1alpha1/namespaces/shop/decisions")["items"]
        assert len(stored) == (3 if version == TODAY else 2), "a base goes along, an older service is told without"
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
        shipper = self.ship(herd, Wire(service, TODAY))
        assert shipper.progress.refused == 1
        (known,) = service.store.reader.incarnations()
        assert (known.highest, known.missing) == (3, 1)
