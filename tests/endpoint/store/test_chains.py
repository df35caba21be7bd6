"""Stored decisions are decoded unchanged, chains end where they must, and damage is detected."""

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_endpoint.store import delta_chains
from herodotus_endpoint.store.delta_chains import (
    DIGEST_BYTES,
    LIFETIME_S,
    MAX_MEMBERS,
    OpenChains,
    decode_decision,
    decompress_blob,
)
from herodotus_record import codec
from herodotus_record.codec import CodecError, deltas
from herodotus_record.codec.deltas import EncodedFrame
from herodotus_record.model import Decision
from tests.builders import CORDONED, MONDAY_US, a_decision

POINTS = {"worker-1": {"ImageLocality": 10}, "worker-2": {"NodeResourcesFit": 30}}


class Shelf:
    """A fake table of blobs: decisions are packed one after the other and read back."""

    def __init__(self) -> None:
        self.chains = OpenChains()
        self.blobs: dict[int, bytes] = {}
        self.base_of: dict[int, int] = {}

    def put(self, decision: Decision, *, incarnation: int = 1, at_us: int = MONDAY_US, raw: EncodedFrame = b"") -> int:
        frame = raw or codec.encode(decision)
        base, blob = self.chains.pack(incarnation, decision, codec.find_feasible(decision), frame, at_us)
        self.blobs[decision.sequence], self.base_of[decision.sequence] = blob, base
        return base

    def get(self, sequence: int) -> Decision:
        base = self.base_of[sequence]
        return decode_decision(
            decompress_blob(self.blobs[sequence], None if base == sequence else lambda: self.blobs[base])
        )


def test_every_decision_of_a_chain_is_decoded_unchanged() -> None:
    shelf = Shelf()
    sent = [a_decision(sequence=i, points=POINTS, rejected={"worker-3": {"NodeName": CORDONED}}) for i in range(1, 300)]
    for decision in sent:
        shelf.put(decision)
    assert [shelf.get(d.sequence) for d in sent] == sent
    assert [s for s, base in shelf.base_of.items() if s == base] == [1, 1 + MAX_MEMBERS, 1 + 2 * MAX_MEMBERS]


class Sender:
    """A fake sender that writes deltas, and the service that reads its batches."""

    def __init__(self) -> None:
        self.writer, self.reader, self.shelf = deltas.DeltaWriter(), deltas.DeltaReader(), Shelf()
        self.sent: list[Decision] = []

    def send(self, decision: Decision) -> None:
        frame, raw = self.reader.read(self.writer.encode(decision))
        assert isinstance(frame, Decision)
        self.sent.append(decision)
        self.shelf.put(frame, raw=raw)

    def check(self) -> None:
        assert [self.shelf.get(d.sequence) for d in self.sent] == self.sent


def decide(sequence: int) -> Decision:
    nodes = tuple(f"worker-{i}" for i in range(300))
    points = {nodes[sequence % 300]: {"NodeResourcesFit": sequence % 100}}
    return a_decision(sequence=sequence, nodes=nodes, points=points, rejected={nodes[7]: {"NodeName": CORDONED}})


def test_a_short_delta_is_stored_as_it_was_sent_and_decoded_unchanged() -> None:
    sender = Sender()
    for i in range(1, 200):
        sender.send(decide(i))
    sender.check()
    blobs, bases = sender.shelf.blobs, sender.shelf.base_of
    assert {s for s, base in bases.items() if s == base} == {1, 1 + MAX_MEMBERS}, "a chain begins with a sender's base"
    assert all(blobs[s][DIGEST_BYTES:][:1] == b"s" for s, base in bases.items() if s != base)


def test_a_long_delta_is_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_chains, "MAX_SENT_BYTES", 10)
    sender = Sender()
    for i in range(1, 200):
        sender.send(decide(i))
    sender.check()
    assert all(blob[DIGEST_BYTES:][:1] != b"s" for blob in sender.shelf.blobs.values())


def test_deltas_to_a_base_before_the_chain_are_decoded_unchanged() -> None:
    """The service started, or the chain's time ended, between the sender's base and these deltas."""
    sender = Sender()
    for i in range(1, 60):
        sender.send(decide(i))
        if i == 20:
            sender.shelf.chains = OpenChains()
    sender.check()
    assert [s for s, base in sender.shelf.base_of.items() if s == base] == [1, 21]


columns = st.lists(st.integers(-(1 << 40), 1 << 40), min_size=3, max_size=3)


@given(columns, columns)
def test_a_rank_that_differs_from_the_totals_is_decoded_unchanged(totals: list[int], rank: list[int]) -> None:
    decision = replace(a_decision(), totals=array("q", totals), rank=array("q", rank))
    shelf = Shelf()
    shelf.put(decision)
    assert shelf.get(1) == decision


@pytest.mark.parametrize(
    ("change", "further"),
    [
        (lambda d: replace(d, pod=replace(d.pod, namespace="other")), {}),
        (lambda d: replace(d, pod=replace(d.pod, digest="d2")), {}),
        (lambda d: replace(d, scheduler=replace(d.scheduler, profile="other")), {}),
        (lambda d: d, {"incarnation": 2}),
        (lambda d: d, {"at_us": MONDAY_US + int(LIFETIME_S * 1e6)}),
        (lambda d: replace(a_decision(nodes=("a", "b")), sequence=2), {}),
    ],
    ids=["namespace", "template", "profile", "incarnation (so cluster)", "lifetime", "slots"],
)
def test_a_chain_ends_when_a_shared_value_changes(
    change: Callable[[Decision], Decision], further: dict[str, Any]
) -> None:
    shelf = Shelf()
    shelf.put(a_decision())
    assert shelf.put(change(a_decision(sequence=2)), **further) == 2


def test_no_delta_refers_to_a_deleted_key_frame() -> None:
    shelf = Shelf()
    assert [shelf.put(a_decision(sequence=i)) for i in (1, 2)] == [1, 1]
    assert shelf.chains.base_sequences(1) == {1}
    shelf.chains.keep_only(1, set())
    assert shelf.put(a_decision(sequence=3)) == 3


def test_the_memory_of_open_chains_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_chains, "MAX_KEY_FRAME_BYTES", 5000)
    shelf = Shelf()
    for i in range(1, 50):
        decision = a_decision(sequence=i)
        shelf.put(replace(decision, pod=replace(decision.pod, digest=f"d{i}")))
    assert 1 < len(shelf.chains.base_sequences(1)) < 10


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda blob: blob[:-1], "not zstd"),
        (lambda blob: blob[:20] + bytes([blob[20] ^ 1]) + blob[21:], "not zstd"),
        (lambda blob: bytes(8) + blob[8:], "not the one that this decision was stored against"),
    ],
    ids=["cut off", "a flipped bit", "another key frame"],
)
def test_a_damaged_delta_is_refused(damage: Callable[[bytes], bytes], said: str) -> None:
    shelf = Shelf()
    for i in (1, 2):
        shelf.put(a_decision(sequence=i, points=POINTS))
    with pytest.raises(CodecError, match=said):
        decompress_blob(damage(shelf.blobs[2]), lambda: shelf.blobs[1])


def test_a_decision_stored_before_chains_existed_is_read() -> None:
    assert decode_decision(decompress_blob(codec.compress(codec.encode(a_decision())), None)) == a_decision()


def test_fields_of_a_newer_writer_are_kept() -> None:
    """A later version of the service can read these fields from what this version stored."""
    document = msgspec.msgpack.decode(codec.encode(a_decision())[codec.HEADER_BYTES :])
    raw = b"\0" * codec.HEADER_BYTES + msgspec.msgpack.encode(document | {"not_yet": [1, 2]})
    _, blob = OpenChains().pack(1, a_decision(), codec.find_feasible(a_decision()), raw, MONDAY_US)
    assert decode_decision(decompress_blob(blob, None)) == a_decision()
    assert b"not_yet" in codec.decompress(blob, 1 << 20)
