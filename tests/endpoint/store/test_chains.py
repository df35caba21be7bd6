"""Stored decisions are decoded unchanged, chains end where they must, and damage is detected."""

from array import array
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_endpoint.store import delta_chains
from herodotus_endpoint.store.delta_chains import LIFETIME_S, MAX_MEMBERS, OpenChains, decode_decision, decompress_blob
from herodotus_record import codec
from herodotus_record.codec import CodecError
from herodotus_record.model import Decision
from tests.builders import CORDONED, MONDAY_US, a_decision

POINTS = {"worker-1": {"ImageLocality": 10}, "worker-2": {"NodeResourcesFit": 30}}


class Shelf:
    """A fake table of blobs: decisions are packed one after the other and read back."""

    def __init__(self) -> None:
        self.chains = OpenChains()
        self.blobs: dict[int, bytes] = {}
        self.base_of: dict[int, int] = {}

    def put(self, decision: Decision, *, incarnation: int = 1, at_us: int = MONDAY_US) -> int:
        base, blob = self.chains.pack(
            incarnation, decision, codec.find_feasible(decision), codec.encode(decision), at_us
        )
        self.blobs[decision.sequence], self.base_of[decision.sequence] = blob, base
        return base

    def get(self, sequence: int) -> Decision:
        base = self.base_of[sequence]
        return decode_decision(
            decompress_blob(self.blobs[sequence], None if base == sequence else lambda: self.blobs[base])
        )


def test_every_decision_of_a_chain_is_decoded_unchanged() -> None:
    shelf = Shelf()
    sent = [a_decision(sequence=i, points=POINTS, rejected={"worker-3": {"NodeName": CORDONED}}) for i in range(1, 90)]
    for decision in sent:
        shelf.put(decision)
    assert [shelf.get(d.sequence) for d in sent] == sent
    assert [s for s, base in shelf.base_of.items() if s == base] == [1, 1 + MAX_MEMBERS, 1 + 2 * MAX_MEMBERS]


@pytest.mark.parametrize("best", [4, 5])
def test_a_rank_is_decoded_unchanged_where_a_rejected_node_has_the_lowest_total(best: int) -> None:
    points = {"worker-1": {"NodeResourcesFit": best}, "worker-2": {"NodeResourcesFit": best - 1}}
    decision = a_decision(points=points, rejected={"worker-3": {"NodeName": CORDONED}})
    shelf = Shelf()
    shelf.put(decision)
    assert shelf.get(1) == decision


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
    change: Callable[[Decision], Decision], further: dict[str, int]
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


def test_fields_of_a_newer_writer_are_kept() -> None:
    """A later version of the service can read these fields from what this version stored."""
    document = msgspec.msgpack.decode(codec.encode(a_decision())[codec.HEADER_BYTES :])
    raw = b"\0" * codec.HEADER_BYTES + msgspec.msgpack.encode(document | {"not_yet": [1, 2]})
    _, blob = OpenChains().pack(1, a_decision(), codec.find_feasible(a_decision()), raw, MONDAY_US)
    assert decode_decision(decompress_blob(blob, None)) == a_decision()
    assert b"not_yet" in codec.decompress(blob, 1 << 20)
