"""Scheduler and service are upgraded in either order: a shipper says its records in a version that the service reads.

The version of tomorrow is made up: it differs from today's in the reasons of gaps, and has high-water marks that cannot
be said in today's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from herodotus_record import codec
from herodotus_record.model import Frame, Gap, HighWater
from scheduler.recorder.endpoint import Endpoint
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
        monkeypatch.setitem(codec._BEFORE, TOMORROW, in_todays_words)
        monkeypatch.setattr(codec, "VERSION", by)
        spool = Spool(tmp_path / "spool", INCARNATION)
        spool.rotate(codec.encode(TABLE.rows(CLUSTER, INCARNATION)))
        for frame in frames:
            spool.append(codec.encode(frame))
        spool.close()
        monkeypatch.setattr(codec, "VERSION", shipper)
        return tmp_path / "spool"

    return write


def test_a_newer_scheduler_speaks_to_an_older_service_in_its_version(
    service: Service, spooled: Callable[..., Path]
) -> None:
    """It costs one refused batch, once; nothing is set aside, and nothing is waited for."""
    spool = spooled(DECISION, bound(DECISION, TABLE, sequence=2), GAP, by=TOMORROW, shipper=TOMORROW)
    wire = Wire(service, TODAY)
    shipper = Shipper(spool, Endpoint("http://service"), wire)
    assert (shipper.pass_over(), wire.codes, shipper.progress.refused) == (True, [415, 200], 0)
    (stored,) = service.get("/apis/herodotus.dev/v1alpha1/namespaces/shop/decisions")["items"]
    assert stored["status"]["state"] == "Bound"
    again = spooled(replace(DECISION, sequence=6, id=DECISION.id[:-1] + "6"), by=TOMORROW, shipper=TOMORROW)
    assert (shipper.pass_over(), again, wire.codes) == (True, spool, [415, 200, 200])


def test_once_the_service_is_upgraded_it_gets_the_newer_version(service: Service, spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, by=TOMORROW, shipper=TOMORROW)
    wire = Wire(service, TODAY)
    shipper = Shipper(spool, Endpoint("http://service"), wire)
    shipper.pass_over()
    wire.version = TOMORROW
    spooled(GAP, by=TOMORROW, shipper=TOMORROW)
    shipper.pass_over()  # still in today's words: the answer tells of the upgrade
    spooled(MARK, by=TOMORROW, shipper=TOMORROW)
    shipper.pass_over()
    assert (wire.codes, shipper.progress.refused) == ([415, 200, 200, 200], 0)


def test_only_what_cannot_be_said_is_set_aside(service: Service, spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, MARK, GAP, by=TOMORROW, shipper=TOMORROW)
    shipper = Shipper(spool, Endpoint("http://service"), Wire(service, TODAY))
    shipper.pass_over()
    assert (spool / "refused.frames").read_bytes() == codec.encode(MARK)
    assert shipper.progress.refused == 1
    (known,) = service.store.reader.incarnations()
    assert known.highest == GAP.sequence


@pytest.mark.parametrize("version", [TOMORROW, TODAY], ids=["newer service", "older service"])
def test_a_scheduler_that_was_put_back_passes_on_what_it_cannot_read(
    service: Service, spooled: Callable[..., Path], version: int
) -> None:
    """Its predecessor's records: to a service that reads them; before one that does not they are set aside."""
    spool = spooled(DECISION, MARK, by=TOMORROW, shipper=TODAY)
    shipper = Shipper(spool, Endpoint("http://service"), Wire(service, version))
    shipper.pass_over()
    assert shipper.progress.refused == (0 if version == TOMORROW else 3)
    assert len(service.store.reader.incarnations()) == (2 if version == TOMORROW else 0)


def test_an_older_scheduler_speaks_to_a_newer_service(service: Service, spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, by=TODAY, shipper=TODAY)
    wire = Wire(service, TOMORROW)
    Shipper(spool, Endpoint("http://service"), wire).pass_over()
    assert wire.codes == [200]


def test_somebody_else_s_415_refuses_nothing_for_good(spooled: Callable[..., Path]) -> None:
    spool = spooled(DECISION, by=TODAY, shipper=TODAY)
    elsewhere = httpx.MockTransport(lambda _: httpx.Response(415, text="a proxy"))
    shipper = Shipper(spool, Endpoint("http://service"), elsewhere)
    with pytest.raises(NotDeliveredError, match="not from the decisions service: a proxy"):
        shipper.pass_over()
    assert shipper.progress.refused == 0
