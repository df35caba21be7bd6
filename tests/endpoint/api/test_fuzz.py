"""Whatever is sent: an acknowledgement or an envelope, never a 500, and every query can be answered afterwards."""

import os
import tempfile
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_record import codec
from herodotus_record.model import Decision, FilterColumn, Frame, ScoreColumn
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.service import API, Service, a_service, rows

pytestmark = pytest.mark.wide  # test_ingest.py has single frames of each kind

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
BASE = a_decision(
    rejected={"worker-3": {"NodeResourcesFit": INSUFFICIENT_CPU}}, points={"worker-1": {"ImageLocality": 3}}
)
FRAMES = [codec.encode(f) for f in (rows(TABLE), BASE, bound(BASE, TABLE))]
QUERIES = (
    f"{API}/decisions",
    f"{API}/incarnations",
    f"{API}/namespaces/shop/podexplanations/{BASE.pod.name}?all=true",
    f"{API}/namespaces/shop/decisions/{BASE.pod.name}",
    f"{API}/nodehistories/worker-1",
    f"/pod?name={BASE.pod.name}&namespace=shop",
    "/node?name=worker-1",
    "/metrics",
)

SCALE = max(1, int(os.environ.get("HERODOTUS_FUZZ_EXAMPLES", "0")) // 1000)  # `make fuzz`: 20 times as many

numbers = st.one_of(st.integers(-2, 12), st.sampled_from([2**31, 2**53, 2**62, 2**63 - 1, -(2**63)]))
columns = st.lists(numbers, min_size=3, max_size=3).map(lambda values: array("q", values))
small = st.lists(st.integers(0, 5), min_size=3, max_size=3).map(lambda values: array("B", values))
words = st.sampled_from(["", "worker-1", "worker-2", "x\x00y", "ü" * 600, "shop/{x}"])


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    with opened() as service:
        yield service


@contextmanager
def opened() -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as folder:
        service = a_service(Path(folder))
        yield service
        service.store.close()


def expect_no_500(service: Service, body: bytes, **headers: str) -> None:
    code = service.post(body, headers=headers).status_code
    assert code in (200, 400, 409, 413, 415), code
    for path in QUERIES:
        answer = service.client.get(path)
        assert answer.status_code in (200, 404), (path, answer.text)


@settings(max_examples=80 * SCALE, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(FRAMES)), max_size=4).map(b"".join), st.booleans())
def test_rejects_arbitrary_bytes(shared: Service, body: bytes, packed: bool) -> None:
    expect_no_500(shared, codec.compress(body) if packed else body, **({"Content-Encoding": "zstd"} if packed else {}))


@settings(max_examples=60 * SCALE, deadline=None)
@given(st.sampled_from(FRAMES), st.integers(0, 2000), st.integers(0, 255))
def test_handles_changed_bytes_with_a_valid_checksum(shared: Service, frame: bytes, at: int, byte: int) -> None:
    payload = bytearray(frame[12:])
    payload[at % len(payload)] = byte
    expect_no_500(shared, FRAMES[0] + frame[:8] + zlib.crc32(payload).to_bytes(4, "little") + bytes(payload))


@st.composite
def strange_decisions(draw: st.DrawFn) -> Decision:
    return replace(
        BASE,
        sequence=draw(numbers),
        generation=draw(st.sampled_from([0, 7, 8])),
        evaluation=draw(small),
        rank=draw(small),
        totals=draw(st.one_of(columns, small, st.just(array("B")))),
        chosen=draw(st.sampled_from([None, 0, 2])),
        nodes_total=3,
        nodes_evaluated=draw(st.integers(0, 3)),
        nodes_feasible=0,
        times=replace(BASE.times, started_us=draw(numbers)),
        filters=tuple(FilterColumn(p, draw(st.booleans()), ids=array("B")) for p in draw(st.lists(words, max_size=3))),
        scores=tuple(
            ScoreColumn(
                p, draw(numbers), draw(st.booleans()), array("B"), draw(st.one_of(columns, st.just(array("B"))))
            )
            for p in draw(st.lists(words, max_size=3))
        ),
        pod=replace(
            BASE.pod, name=draw(st.sampled_from([BASE.pod.name, ""])), labels={"pod-template-hash": draw(words)}
        ),
    )


def encoded(frame: Any) -> bytes:
    try:
        return codec.encode(frame)
    except codec.CodecError:
        return b""


@settings(max_examples=40 * SCALE, deadline=None)
@given(st.lists(strange_decisions(), max_size=3), words, numbers, numbers)
def test_handles_valid_frames_with_unusual_contents(sample: list[Decision], word: str, one: int, two: int) -> None:
    frames: list[Frame] = [
        rows(TABLE),
        *sample,
        replace(bound(BASE, TABLE), sequence=one, decision_sequence=two, message=word, duration_s=float("nan")),
    ]
    with opened() as service:
        for frame in frames:
            expect_no_500(service, encoded(frame))
