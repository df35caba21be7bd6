"""Export and import: another database gives the same answers, also if files are imported in parts."""

import base64
import io
import json
import stat
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from herodotus_endpoint.__main__ import main
from herodotus_endpoint.exchange.json_lines import LineError, LineReader, LineWriter
from herodotus_endpoint.store import Pruner, RetentionLimits, Store
from herodotus_endpoint.store.export import ExportSelection, export_decisions
from herodotus_endpoint.store.schema import DECISIONS
from herodotus_record import codec
from herodotus_record.model import Decision, Frame, Gap, NodeRows, NodeTable
from scheduler.commands.snapshot import _order
from tests.builders import CLUSTER, INCARNATION, INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.service import API, Service, an_empty_file
from tests.support.clock import Clock

NODES = [f"worker-{i}" for i in range(1, 13)]
TABLE = a_table(NODES)
ROWS = TABLE.rows(CLUSTER, INCARNATION)
POINTS = {node: {"NodeResourcesFit": i} for i, node in enumerate(NODES)}
HOUR_US = 3_600_000_000
AGAIN = "00000000-0000-4000-8000-0000000000bb"

Open = Callable[..., Store]


@pytest.fixture
def opened(tmp_path: Path, postgresql_database: Callable[[], str]) -> Iterator[Open]:
    """Return a function that opens an empty `sqlite` or `postgresql` database; the test moves `clock`."""
    stores: list[Store] = []

    def open_one(kind: str, clock: Clock | None = None) -> Store:
        url = postgresql_database() if kind == "postgresql" else an_empty_file(tmp_path / f"{len(stores)}.db")
        clock = clock or Clock()
        stores.append(Store(url, clock, clock))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@dataclass
class RecordedScheduler:
    """One incarnation of a scheduler whose nodes change between decisions."""

    incarnation: str = INCARNATION
    table: NodeTable = field(default_factory=lambda: a_table(NODES))
    sequence: int = 0
    frames: list[Frame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.frames.append(self.table.rows(CLUSTER, self.incarnation))

    def decide(self, **changes: Any) -> Decision:
        self.sequence += 1
        given: dict[str, Any] = {"nodes": self.table.names, "generation": self.table.generation, "points": POINTS}
        given |= changes
        prefix = "p" if self.incarnation == INCARNATION else "q"
        d = a_decision(pod=f"{prefix}-{self.sequence}", sequence=self.sequence, incarnation=self.incarnation, **given)
        d = replace(d, id=f"{self.incarnation[-2:]}-{d.id}", seed=self.sequence)
        self.frames.append(d)
        return d

    def bind(self, d: Decision) -> None:
        self.sequence += 1
        self.frames.append(bound(d, self.table, sequence=self.sequence))

    def node(self, slot: int, name: str, *, gpus: bool = False) -> None:
        """Assign a node to a slot, "" for none; some nodes have other resources than the rest."""
        base = self.table.generation
        had = {"cpu": 4000 + base} | ({"gpu": 8} if gpus else {})
        rows = NodeRows(
            CLUSTER, self.incarnation, base, base + 1, tuple(had), array("q", [slot]), array("q", [base + 1]),
            (name,), (f"uid-{name}-{base}" if name else "",),
            tuple(array("q", [n if name else 0]) for n in had.values()), tuple(array("q", [0]) for _ in had),
        )  # fmt: skip
        self.table.apply(rows)
        self.frames.append(rows)


def a_past(seed: int, steps: int) -> list[Frame]:
    """Return the frames of two schedulers, one after the other."""
    random, frames = Random(seed), list[Frame]()
    for incarnation in (INCARNATION, AGAIN):
        scheduler, open_ones = RecordedScheduler(incarnation), list[Decision]()
        for step in range(steps):
            match random.choice(("decide", "decide", "bind", "node")):
                case "decide":
                    live = [n for n in scheduler.table.names if n]
                    rejected = {n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in live if random.random() < 0.3}
                    where = {"namespace": random.choice(("shop", "bank")), "started_us": MONDAY_US + step * HOUR_US}
                    d = scheduler.decide(rejected=rejected, **where)
                    open_ones += [d] if d.chosen is not None else []
                case "bind" if open_ones:
                    scheduler.bind(open_ones.pop(0))
                case _:
                    name = random.choice(("", f"fresh-{step}", f"worker-{step}"))
                    scheduler.node(random.randrange(len(NODES) + 2), name, gpus=random.random() < 0.5)
        frames += scheduler.frames
    return frames


def put(store: Store, *frames: Frame) -> None:
    store.writer.store((frame, codec.encode(frame)) for frame in frames)


def lines(store: Store, what: ExportSelection = ExportSelection()) -> list[bytes]:  # noqa: B008
    writing = LineWriter()
    return [writing.line(found) for found in export_decisions(store, what)]


def take(store: Store, given_: list[bytes]) -> int:
    """Import lines and return the number of new decisions."""
    read = LineReader().lines(io.BytesIO(b"".join(given_)))
    return store.writer.store((frame for line in read for frame in line.frames), imported=True).decisions


def answers(store: Store, what: ExportSelection = ExportSelection()) -> list[Any]:  # noqa: B008
    """Return all answers about the selected decisions, without ingest times."""
    records = []
    columns = [
        c
        for c in DECISIONS.c
        if c.name not in ("id", "incarnation_id", "ingested_us", "frame", "base", "frame_bytes", "checksum")
    ]
    with store.snapshot() as connection:
        rows = connection.execute(sa.select(*columns).where(what.where).order_by(DECISIONS.c.id)).all()
    for row in rows:
        found = store.reader.decision_by_id(row.namespace, row.decision_id)
        assert found is not None
        t = found.table
        amounts = (t.names, t.uids, t.since, list(t.allocatable), list(t.requested))
        records.append((tuple(row), found.decision, found.outcomes, found.ordinal, found.attempts, amounts))
    return records


def histories(store: Store) -> dict[str, Any]:
    with store.snapshot() as connection:
        names = connection.execute(sa.text("SELECT DISTINCT name FROM nodes WHERE considered")).scalars().all()
    return {name: store.reader.sum_node_history(name) for name in sorted(names)}


@pytest.mark.parametrize(("source", "to"), [("sqlite", "postgresql"), ("postgresql", "sqlite")])
def test_imported_decisions_give_the_same_answers(opened: Open, source: str, to: str) -> None:
    """Histories are equal too, also after imports in two parts, in the wrong order and repeated."""
    one, other = opened(source), opened(to)
    put(one, *a_past(7, 60))
    written = lines(one)
    assert take(other, written) == len(written) > 20
    assert (answers(other), histories(other)) == (answers(one), histories(one))
    assert take(other, written) == 0
    assert answers(other) == answers(one)
    assert (other.reader.measure_sizes().missing, other.reader.measure_sizes().lost) == (0, 0)
    assert other.reader.measure_sizes().rows == one.reader.measure_sizes().rows


@settings(max_examples=8)
@example(812, 15, 2)  # a free slot is the first known row of its slot
@example(3078, 24, 6)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 40), cut=st.integers(0, 40))
def test_parts_imported_in_any_order_give_the_complete_data(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int, cut: int
) -> None:
    """Each part gives the answers of the source, also if it lacks decisions, node rows and outcomes in between."""
    folder = tmp_path_factory.mktemp("parts")
    with (
        closing(Store(an_empty_file(folder / "a.db"), Clock())) as one,
        closing(Store(an_empty_file(folder / "b.db"), Clock())) as other,
    ):
        put(one, *a_past(seed, steps))
        parts = [
            ExportSelection(namespace="shop", until_us=MONDAY_US + cut * HOUR_US),
            ExportSelection(namespace="bank"),
            ExportSelection(namespace="shop", since_us=MONDAY_US + cut * HOUR_US),
        ]
        Random(seed).shuffle(parts)
        for part in parts:
            take(other, lines(one, part))
            # attempts are counted over what is stored, and no two decisions here are of one pod
            assert answers(other, part) == answers(one, part)
        assert sorted(answers(other), key=str) == sorted(answers(one), key=str)
        assert histories(other) == histories(one)
        assert other.reader.measure_sizes().missing == 0


def test_summaries_are_imported_as_summaries(opened: Open) -> None:
    """They keep their nodes and outcomes, and are not counted in histories."""
    clock = Clock()
    one, other = opened("sqlite", clock), opened("postgresql")
    put(one, *a_past(7, 30))
    clock.now_s += 8 * 86_400
    assert Pruner(one, RetentionLimits()).prune().summarised > 5
    assert take(other, lines(one)) == len(answers(one))
    assert answers(other) == answers(one)
    assert other.reader.measure_sizes().tiers["full"].decisions == 0
    assert take(other, lines(one)) == 0
    assert answers(other) == answers(one)
    assert (other.reader.measure_sizes().missing, histories(other)) == (0, {})


def test_a_scheduler_continues_after_an_import(opened: Open) -> None:
    """Repeated frames are stored once, sequences left out of the file are not lost, and gaps are still detected."""
    one, other = opened("sqlite"), opened("sqlite")
    past = RecordedScheduler()
    sent = [past.decide(namespace="shop" if i % 2 else "bank") for i in range(6)]
    past.bind(sent[5])
    put(one, *past.frames)
    take(other, lines(one, ExportSelection(namespace="shop")))
    past.decide()
    put(one, past.frames[-1])
    put(other, *past.frames)
    assert sorted(answers(other), key=str) == sorted(answers(one), key=str)
    past.sequence += 3
    put(other, past.frames[0], past.decide(), Gap(INCARNATION, 20, 13, 14, "the spool was full", 0))
    sizes = other.reader.measure_sizes()
    assert (sizes.missing, sizes.lost) == (3 + 5, 2), "9 to 11, 15 to 19; 13 and 14"
    put(other, *past.frames[:9])
    assert other.reader.measure_sizes().rows == sizes.rows


def test_an_import_fills_in_missing_records(opened: Open) -> None:
    """After the loss of a database, earlier records are missing in the new one until they are imported."""
    one, other = opened("sqlite"), opened("sqlite")
    past = RecordedScheduler()
    for _ in range(5):
        past.decide()
    put(one, *past.frames)
    later = past.decide()
    put(other, past.table.rows(CLUSTER, INCARNATION), later)
    assert other.reader.measure_sizes().missing == 5
    assert take(other, lines(one)) == 5
    assert (other.reader.measure_sizes().missing, len(answers(other))) == (0, 6)


def test_importing_an_older_attempt_does_not_make_a_pod_pending(opened: Open, service: Service) -> None:
    """The pod's latest attempt is still the one that started last."""
    one, nowhere = opened("sqlite"), {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}
    failed = a_decision(pod="p", nodes=NODES, rejected=nowhere)
    put(one, ROWS, failed, a_decision(pod="other", nodes=NODES, rejected=nowhere, sequence=2))
    service.stored(ROWS, a_decision(pod="p", nodes=NODES, sequence=5, attempt=2, started_us=MONDAY_US + HOUR_US))
    assert take(service.store, lines(one)) == 2
    assert [pod["pod"] for pod in service.get(f"{API}/pendingpods")["pods"]] == ["other"]
    assert service.explain("p")["outcome"]["state"] == "Binding"


def test_a_later_export_adds_outcomes_of_open_decisions(opened: Open) -> None:
    one, other = opened("sqlite"), opened("sqlite")
    past = RecordedScheduler()
    d = past.decide()
    put(one, *past.frames)
    take(other, lines(one))
    past.bind(d)
    put(one, past.frames[-1])
    assert answers(other) != answers(one)
    assert take(other, lines(one)) == 0
    assert answers(other) == answers(one)


def test_unknown_fields_are_exported_and_imported(opened: Open) -> None:
    """Fields of a newer scheduler thus reach a newer service."""
    store = opened("sqlite")
    d = a_decision(nodes=NODES)
    payload = msgspec.msgpack.encode(
        msgspec.msgpack.decode(codec.encode(d)[codec.HEADER_BYTES :]) | {"invented_later": "kept"}
    )
    store.writer.store([(ROWS, codec.encode(ROWS)), (d, codec.build_frame(1, payload))])
    frame = base64.b64decode(json.loads(lines(store)[0])["import"]["frames"][-1])
    assert msgspec.msgpack.decode(frame[codec.HEADER_BYTES :])["invented_later"] == "kept"


def damaged(line: bytes) -> dict[str, bytes]:
    """Return damaged copies of a line, by what is wrong with each."""
    document = json.loads(line)
    frames = [base64.b64decode(f) for f in document["import"]["frames"]]

    def with_frames(*changed: bytes) -> bytes:
        content = {**document["import"], "frames": [base64.b64encode(f).decode() for f in changed]}
        return json.dumps(document | {"import": content}).encode() + b"\n"

    decision = frames[-1]
    return {
        "cut off": line[: line.rindex(b'"frames"')],
        "no JSON": b"\x00\x01\n",
        "another kind": json.dumps({"apiVersion": "v1", "kind": "Pod"}).encode() + b"\n",
        "a newer API": json.dumps(document | {"apiVersion": "herodotus.dev/v9"}).encode() + b"\n",
        "the plugin's": json.dumps({k: v for k, v in document.items() if k != "import"}).encode() + b"\n",
        "a flipped bit": with_frames(decision[:-1] + bytes([decision[-1] ^ 1])),
        "a newer frame": with_frames(decision[:2] + b"\x09" + decision[3:]),
        "no decision": with_frames(codec.encode(ROWS)),
        "no frames": with_frames(),
        "another's outcome": with_frames(decision, codec.encode(bound(a_decision(sequence=90), TABLE))),
        "out of bounds": with_frames(codec.encode(replace(a_decision(), sequence=1 << 60))),
    }


REASONS = {
    "cut off": "JSON is malformed",
    "no JSON": "JSON is malformed",
    "another kind": "a document of 'v1 Pod'",
    "a newer API": "a document of 'herodotus.dev/v9 Decision'",
    "the plugin's": "there is nothing to import: it was not written by `export`",
    "a flipped bit": "checksum does not match",
    "a newer frame": f"frame version 9 is not known to version {codec.VERSION}",
    "no decision": "frames without a decision",
    "no frames": "frames without a decision",
    "another's outcome": "frames are not those of one decision",
    "out of bounds": "sequence is 1152921504606846976",
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_line_that_cannot_be_imported_is_refused_with_its_number(
    opened: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Earlier lines stay imported, and the import continues when the line is corrected."""
    one = opened("sqlite")
    put(one, ROWS, *(a_decision(pod=f"p-{i}", nodes=NODES, sequence=i) for i in range(1, 6)))
    written = lines(one)
    file, to = tmp_path / "given.jsonl", ["--data", str(tmp_path / "to")]
    file.write_bytes(b"".join([*written[:3], damaged(written[3])[kind], *written[4:]]))
    assert main(["import", str(file), *to]) == 1
    errors = capsys.readouterr().err
    assert f"cannot import {file}: line 4: " in errors
    assert REASONS[kind] in errors
    assert "3 decisions of the lines before it were imported and stay" in errors
    file.write_bytes(b"".join(written))
    assert main(["import", str(file), *to]) == 0
    assert capsys.readouterr().out == "2 decisions imported, 3 stored already\n"


def test_a_line_is_refused_without_the_line_of_its_node_rows(opened: Open) -> None:
    """This holds even if the database has newer rows of the scheduler, because some could be missing."""
    one, other = opened("sqlite"), opened("sqlite")
    past = RecordedScheduler()
    for i in range(4):
        past.decide()
        past.node(i, f"fresh-{i}")
    put(one, *past.frames)
    put(other, past.table.rows(CLUSTER, INCARNATION))
    written = lines(one)
    with pytest.raises(
        LineError, match=r"line 3: its node table continues that of decision .*, whose line is not before it"
    ):
        take(other, [*written[:2], written[3]])
    assert take(other, [*written[:2], *written]) == 4, "from the start again, in one file"


def test_a_line_that_the_database_refuses_is_reported_with_its_number(
    opened: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scheduler is known in another cluster."""
    one = opened("sqlite")
    put(one, ROWS, *(a_decision(pod=f"p-{i}", nodes=NODES, sequence=i) for i in (1, 2)))
    other = RecordedScheduler(AGAIN)
    (table,) = other.frames
    assert isinstance(table, NodeRows)
    put(one, replace(table, cluster="one"), replace(d := other.decide(), key=replace(d.key, cluster="one")))
    file = tmp_path / "given.jsonl"
    file.write_bytes(b"".join(lines(one)))
    with closing(Store(an_empty_file(tmp_path / "herodotus.db"), Clock())) as to:
        put(to, replace(TABLE.rows(CLUSTER, AGAIN), cluster="two"))
    assert main(["import", str(file), "--data", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert f"line 3: incarnation {AGAIN} belongs to cluster two, not one; 2 decisions of the lines before it" in errors


def test_export_filters_select_decisions(opened: Open) -> None:
    """Filters are the start time, namespace and cluster, alone and combined."""
    store = opened("sqlite")
    past = RecordedScheduler()
    for hour, namespace in enumerate(("shop", "bank", "shop", "bank")):
        past.decide(namespace=namespace, started_us=MONDAY_US + hour * HOUR_US)
    put(store, *past.frames)
    selections = {
        "all": ExportSelection(),
        "since": ExportSelection(since_us=MONDAY_US + HOUR_US),
        "until": ExportSelection(until_us=MONDAY_US + HOUR_US),
        "namespace": ExportSelection(namespace="bank"),
        "both": ExportSelection(since_us=MONDAY_US + 2 * HOUR_US, namespace="bank"),
        "cluster": ExportSelection(cluster=CLUSTER),
        "another": ExportSelection(cluster="another"),
    }
    found = {how: [json.loads(line) for line in lines(store, what)] for how, what in selections.items()}
    assert {how: [d["spec"]["pod"]["name"] for d in documents] for how, documents in found.items()} == {
        "all": ["p-1", "p-2", "p-3", "p-4"],
        "since": ["p-2", "p-3", "p-4"],
        "until": ["p-1"],
        "namespace": ["p-2", "p-4"],
        "both": ["p-4"],
        "cluster": ["p-1", "p-2", "p-3", "p-4"],
        "another": [],
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Create a data directory with two decisions; the second pod fits nowhere."""
    nowhere = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}
    placed = a_decision(nodes=NODES[:3], points=POINTS, rejected={"worker-1": {"NodeResourcesFit": INSUFFICIENT_CPU}})
    with closing(Store(an_empty_file(tmp_path / "herodotus.db"), Clock())) as store:
        put(store, ROWS, placed, bound(placed, TABLE), a_decision(pod="big", nodes=NODES, rejected=nowhere, sequence=3))
    return tmp_path


def test_each_line_is_a_complete_record(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has what `-o json --full` prints, with the pod's UID and the time for replay."""
    assert main(["export", "--data", str(data), "--since", "2026-03-01T12:00:00Z", "-o", str(data / "out.jsonl")]) == 0
    assert capsys.readouterr() == ("", "2 decisions exported\n")
    documents = [json.loads(line) for line in (data / "out.jsonl").read_text().splitlines()]
    assert [(d["kind"], d["metadata"]["creationTimestamp"], d["spec"]["pod"]["uid"]) for d in documents] == [
        ("Decision", "2026-03-01T12:00:00.000000+00:00", "uid-shop-checkout-7d9f-x2k"),
        ("Decision", "2026-03-01T12:00:00.000000+00:00", "uid-shop-big"),
    ]
    assert documents[0]["spec"]["totals"] == {"worker-2": 1, "worker-3": 2}
    assert documents[0]["status"]["outcomes"][0]["phase"] == "Bind"
    assert _order(data / "out.jsonl") == {"uid-shop-big": 0, "uid-shop-checkout-7d9f-x2k": 1}, "as `replay` reads it"
    assert [d["import"]["rowsAfter"] for d in documents] == [None, documents[0]["metadata"]["name"]]
    assert stat.S_IMODE((data / "out.jsonl").stat().st_mode) == 0o600


def test_export_to_a_dash_writes_to_standard_output(
    data: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    assert main(["export", "--data", str(data), "-o", "-"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 2
    assert not (data / "-").exists()


def test_parquet_tables_have_the_recorded_values(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--data", str(data), "--format", "parquet", "-o", str(data / "out")]) == 0
    decisions = pq.read_table(data / "out" / "decisions.parquet").to_pylist()
    assert [(d["pod"], d["state"], d["node"], d["nodes_feasible"]) for d in decisions] == [
        ("checkout-7d9f-x2k", "Bound", "worker-3", 2),
        ("big", "Unschedulable", None, 0),
    ]
    assert decisions[0]["started"].isoformat() == "2026-03-01T12:00:00+00:00"
    assert [d["ended"] is None for d in decisions] == [False, True]
    scores = pq.read_table(data / "out" / "scores.parquet").to_pylist()
    fit = [s for s in scores if s["plugin"] == "NodeResourcesFit"]
    common = {"decision": decisions[0]["decision"], "plugin": "NodeResourcesFit", "weight": 1}
    assert fit == [
        common | {"node": "worker-2", "raw": 1, "normalized": 1, "weighted": 1, "total": 1, "rank": 2, "chosen": False},
        common | {"node": "worker-3", "raw": 2, "normalized": 2, "weighted": 2, "total": 2, "rank": 1, "chosen": True},
    ]
    assert len(scores) == 3 * 2, "each plugin and feasible node"
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (data / "out", data / "out" / "scores.parquet")]
    assert modes == [0o700, 0o600]
    assert main(["import", str(data / "out" / "scores.parquet"), "--data", str(data)]) == 1
    assert "line 1: JSON is malformed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "--data", "{data}/none"], "none/herodotus.db: there is no such file"),
        (["export", "--data", "{data}", "-o", "{data}/herodotus.db"], "herodotus.db: it is there already"),
        (["export", "--data", "{data}", "-o", "{data}/no/out.jsonl"], "no/out.jsonl: No such file or directory"),
        (["export", "--data", "{data}", "--format", "parquet"], "--format parquet needs -o DIRECTORY"),
        (["export", "--data", "{data}", "--format", "parquet", "-o", "-"], "--format parquet needs -o DIRECTORY"),
        (["import", "{data}/none.jsonl", "--data", "{data}"], "none.jsonl: No such file or directory"),
    ],
    ids=["no database", "a file that is there", "no folder", "parquet to a pipe", "parquet to -", "no file"],
)
def test_impossible_exports_and_imports_are_refused_with_the_reason(
    data: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(p.name for p in data.iterdir())
    assert main([word.format(data=data) for word in arguments]) == 1
    assert message in capsys.readouterr().err
    assert sorted(p.name for p in data.iterdir()) == before


@pytest.mark.parametrize("time", ["yesterday", "2026-03-01T12:00:00", "7w"])
def test_an_invalid_time_is_a_usage_error(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["export", "--since", time])
    assert f"'{time}' is neither a time such as 12h or 7d, nor 2026-03-01T12:00:00Z" in capsys.readouterr().err


def test_memory_is_independent_of_the_size_of_the_export(opened: Open) -> None:
    """Five times as many decisions need the same memory, because pages are read one by one."""
    one = opened("sqlite")
    nodes = [f"worker-{i}" for i in range(100)]
    put(one, a_table(nodes).rows(CLUSTER, INCARNATION))
    namespaces = ["few" if i <= 32 else "many" for i in range(1, 161)]
    put(
        one,
        *(
            a_decision(pod=f"p-{i}", namespace=namespace, nodes=nodes, sequence=i)
            for i, namespace in enumerate(namespaces, 1)
        ),
    )

    def peak(what: ExportSelection) -> int:
        tracemalloc.reset_peak()
        writing = LineWriter()
        written = (writing.line(found) for found in export_decisions(one, what))
        assert sum(1 for _ in written) in (160, 32)
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        peak(ExportSelection(namespace="few"))  # what is kept between decisions is there now
        few, many = peak(ExportSelection(namespace="few")), peak(ExportSelection())
    finally:
        tracemalloc.stop()
    assert many < 1.5 * few
