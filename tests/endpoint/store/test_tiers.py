"""Retention in tiers: what summaries keep, for how long, and how answers state it.

Each store test runs on SQLite and on a real PostgreSQL.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from herodotus_answers.explain import count_evaluations, count_first_rejections, count_verdicts, list_possible_changes
from herodotus_answers.headlines import format_headline
from herodotus_answers.pod import build_pod_explanation
from herodotus_endpoint.store import Pruner, PruneResult, RetentionLimits, Store, expired_chains, sqlite_url
from herodotus_endpoint.store.delta_chains import PARTITION_US
from herodotus_endpoint.store.purge import PurgeSelection, purge_decisions
from herodotus_endpoint.store.retention_limits import DAY_S, build_scopes
from herodotus_endpoint.store.schema import DECISIONS
from herodotus_endpoint.store.schema import NODES as NAMES
from herodotus_endpoint.store.summaries import (
    NEAREST_REJECTED,
    RUNNERS_UP,
    DecisionRecord,
    decode_summary,
    encode_summary,
    summarise_record,
)
from herodotus_record import codec
from herodotus_record.model import NOT_RUN, Decision, Frame, Gap, InputColumn, Inputs
from tests.builders import CLUSTER, CORDONED, INCARNATION, INSUFFICIENT_CPU, TAINTED, a_decision, a_table, bound
from tests.endpoint.service import API, Service, rows
from tests.support.answers import as_json
from tests.support.clock import Clock

NODES = [f"worker-{i}" for i in range(1, 25)]
TABLE = a_table(NODES, used={node: 100 * i for i, node in enumerate(NODES)})
ROWS = TABLE.rows(CLUSTER, INCARNATION)
REJECTED = {
    node: {"NodeUnschedulable": CORDONED}
    if i % 3
    else {"TaintToleration": TAINTED, "NodeResourcesFit": INSUFFICIENT_CPU}
    for i, node in enumerate(NODES)
}
SOME = {node: verdicts for i, (node, verdicts) in enumerate(REJECTED.items()) if i % 4 == 0}
POINTS = {node: {"NodeResourcesFit": i, "ImageLocality": 2 * (24 - i)} for i, node in enumerate(NODES)}
TIED = {node: {"ImageLocality": 7} for node in NODES}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgresql_database: Callable[[], str], clock: Clock
) -> Iterator[Store]:
    url = sqlite_url(tmp_path / "herodotus.db")
    if request.param == "postgresql":
        url = postgresql_database()
    opened = Store(url, clock, clock)
    yield opened
    opened.close()


def put(store: Store, *frames: Frame) -> None:
    store.writer.store((frame, codec.encode(frame)) for frame in frames)


def decisions(first: int, last: int, **changes: Any) -> list[Decision]:
    return [
        a_decision(pod=f"p-{i}", sequence=i, **({"nodes": NODES, "points": POINTS, "rejected": SOME} | changes))
        for i in range(first, last + 1, 2)
    ]


def with_outcomes(sent: list[Decision]) -> list[Frame]:
    return [frame for d in sent for frame in (d, bound(d, TABLE))]


def prune(store: Store, clock: Clock, **limits: Any) -> PruneResult:
    return Pruner(store, RetentionLimits(**limits)).prune()


def tiers(store: Store) -> dict[str, int]:
    return {name: tier.decisions for name, tier in store.reader.measure_sizes().tiers.items() if tier.decisions}


def read(store: Store) -> list[DecisionRecord]:
    """Return all records, oldest first."""
    rows = reversed(store.listing.decisions([], None, 1000))
    found = [store.reader.decision_by_id(row.namespace, row.decision_id) for row in rows]
    return [DecisionRecord(f.decision, f.outcomes, f.table) for f in found if f]


@pytest.mark.parametrize(
    "decision",
    [
        a_decision(nodes=NODES, points=POINTS, rejected=SOME),
        a_decision(nodes=NODES, points=TIED, rejected=SOME),
        a_decision(nodes=NODES, rejected=REJECTED),
        a_decision(nodes=NODES, rejected=dict(list(REJECTED.items())[1:])),
        a_decision(nodes=["worker-1", "", "worker-3"], points=POINTS),
        replace(a_decision(nodes=NODES, rejected=REJECTED), unknown=("seed",)),
    ],
    ids=["scored", "tied", "nowhere", "one fits", "a free slot", "a log's"],
)
def test_a_summary_has_the_counts_of_the_full_record(decision: Decision) -> None:
    """It has the same values for the nodes that it keeps, and counts for the others."""
    whole = DecisionRecord(decision, (), TABLE)
    summary = summarise_record(whole, 1)
    assert decode_summary(encode_summary(summary)) == summary
    assert summarise_record(summary, 2) == summary
    assert summary.decision.slots <= max(RUNNERS_UP + 1, NEAREST_REJECTED + 1)
    assert len(encode_summary(summary)) < 4096
    now, then = summary.decision, whole.decision
    present = {label: n for label, n in count_evaluations(then).items() if label != "absent"}
    assert count_evaluations(now) == present
    assert sorted(count_first_rejections(now), key=str) == sorted(count_first_rejections(then), key=str)
    against = [
        [n for n, v in zip(counts, f.verdicts, strict=True) if v.rejects_node or v == NOT_RUN]
        for counts, f in zip(count_verdicts(now), now.filters, strict=True)
    ]
    assert against == [
        [n for n, v in zip(counts, f.verdicts, strict=True) if v.rejects_node or v == NOT_RUN]
        for counts, f in zip(count_verdicts(then), then.filters, strict=True)
    ]
    assert format_headline(now, summary.table) == format_headline(then, whole.table)
    assert list_possible_changes(now, summary.table) == list_possible_changes(then, whole.table)
    short, long = (as_json(build_pod_explanation(w.decision, (), w.table)) for w in (summary, whole))
    same = ("outcome", "nodes", "filters", "margin", "preFilters", "message", "scorePlugins", "preemption", "pod")
    assert {k: short[k] for k in same} == {k: long[k] for k in same}
    assert len(short["ranking"]) + short["rankingOmitted"] == len(long["ranking"]) + long["rankingOmitted"]
    assert short["ranking"] == long["ranking"][: len(short["ranking"])]
    counts = [
        (g["plugin"], g["count"], g["alsoRejectedBy"], len(g["nodes"]) + g["nodesOmitted"]) for g in long["rejections"]
    ]
    assert [(g["plugin"], g["count"], g["alsoRejectedBy"], g["count"]) for g in short["rejections"]] == counts
    assert (short["pruned"], long["pruned"]) == (
        {
            "at": "1970-01-01T00:00:00.000001+00:00",
            "keptNodes": summary.decision.slots,
            "text": f"the full record was pruned on 1970-01-01; kept: {summary.decision.slots} of"
            f" {decision.nodes_total} nodes (the best, and the nearest of those rejected), and how many nodes got each"
            " verdict",
        },
        None,
    )


def test_full_records_become_summaries_which_are_deleted_later(store: Store, clock: Clock) -> None:
    sent = decisions(1, 69)
    put(store, ROWS, *with_outcomes(sent))
    whole = read(store)
    clock.now_s += 8 * DAY_S
    later = decisions(1001, 1003)
    put(store, *with_outcomes(later))
    assert prune(store, clock) == PruneResult(summarised=35)
    assert prune(store, clock) == PruneResult(), "a second time nothing is left to do"
    assert tiers(store) == {"full": 2, "summary": 35}
    now_us = int(clock.now_s * 1e6)
    assert read(store) == [*(summarise_record(w, now_us) for w in whole), *read(store)[-2:]]
    assert [w.decision for w in read(store)[-2:]] == later
    assert store.reader.measure_sizes().rows["outcomes"] == 2, "summaries hold theirs"
    assert store.reader.measure_sizes().tiers["summary"].bytes > 0
    put(store, *sent)
    assert tiers(store) == {"full": 2, "summary": 35}, "what is sent again is known"
    clock.now_s += 24 * DAY_S
    assert prune(store, clock) == PruneResult(summarised=2, deleted=35)
    assert tiers(store) == {"summary": 2}
    assert [w.decision.pod.name for w in read(store)] == ["p-1001", "p-1003"]


def test_a_pass_counts_what_exceeds_an_age_and_what_exceeds_a_size(store: Store, clock: Clock) -> None:
    put(store, ROWS, *decisions(1, 69))
    clock.now_s += 8 * DAY_S
    put(store, *decisions(1001, 1005))
    clock.now_s += DAY_S
    pruned = prune(store, clock, summary_max_age_s=0.0, summary_max_bytes=0, max_bytes=0)
    assert (pruned, tiers(store)) == (PruneResult(deleted=38), {})


def test_gaps_are_kept_as_long_as_summaries(store: Store, clock: Clock) -> None:
    put(store, ROWS, *decisions(1, 1), Gap(INCARNATION, 5, 3, 4, "disk full", int(clock.now_s * 1e6)))
    kept = []
    for days in (8, 20, 4):
        clock.now_s += days * DAY_S
        prune(store, clock)
        kept.append(store.reader.measure_sizes().rows["gaps"])
    assert kept == [1, 1, 0]


def test_a_late_outcome_updates_a_summary(store: Store, clock: Clock) -> None:
    (sent,) = decisions(1, 1)
    put(store, ROWS, sent)
    clock.now_s += 8 * DAY_S
    prune(store, clock)
    put(store, bound(sent, TABLE))
    assert [row.state for row in store.listing.decisions([], None, 9)] == ["Bound"]
    assert [[o.phase for o in w.outcomes] for w in read(store)] == [["Bind"]]
    put(store, *decisions(101, 101))
    clock.now_s += 8 * DAY_S
    assert prune(store, clock).summarised == 1
    assert [[o.phase for o in w.outcomes] for w in read(store)] == [["Bind"], []], "full records of its day have gone"
    prune(store, clock, summary_max_age_s=0.0)
    clock.now_s += DAY_S
    prune(store, clock, summary_max_age_s=0.0)
    assert store.reader.measure_sizes().rows["outcomes"] == 0


def test_an_outcome_that_arrives_during_summarising_is_kept(store: Store, clock: Clock) -> None:
    (sent,) = decisions(1, 1)
    put(store, ROWS, sent)
    clock.now_s += 8 * DAY_S
    with store.snapshot() as connection:
        chains, _ = expired_chains.find_expired_chains(
            connection, expired_chains.ExpiredChainQuery(0, int(clock.now_s * 1e6), 0)
        )
        prepared = [expired_chains.summarise_chain(connection, store.records, chain, 1) for chain in chains]
    put(store, bound(sent, TABLE))
    with store.writer.transaction() as connection:
        assert [expired_chains.replace_with_summaries(connection, store.database, p) for p in prepared] == [0]
    assert prune(store, clock).summarised == 1
    assert [[o.phase for o in w.outcomes] for w in read(store)] == [["Bind"]]


def test_the_name_of_a_deleted_node_is_deleted_with_its_history(store: Store, clock: Clock) -> None:
    put(store, ROWS, *decisions(1, 1))
    gone = a_table([f"later-{i}" for i in range(3)], generation=9)
    put(store, rows(gone, incarnation="another"), a_decision(nodes=gone.names, incarnation="another", generation=9))

    def known() -> set[str]:
        with store.snapshot() as connection:
            return set(connection.scalars(sa.select(NAMES.c.name)))

    everybody = known()
    assert everybody == {*filter(None, NODES), *gone.names}
    clock.now_s += 100 * DAY_S
    put(store, rows(a_table(NODES[:1], generation=1), incarnation="now"))
    prune(store, clock, summary_max_age_s=0.0, history_max_age_s=200 * DAY_S)
    assert known() == everybody, "their histories are kept"
    prune(store, clock, summary_max_age_s=0.0)
    assert known() == {NODES[0], gone.names[-1]}, "the highest id is not given out again"
    put(store, rows(a_table(NODES, generation=2), incarnation="now"))
    assert known() == {*filter(None, NODES), gone.names[-1]}


def test_one_replica_prunes_at_a_time(store: Store, clock: Clock) -> None:
    put(store, ROWS, *decisions(1, 9))
    clock.now_s += 8 * DAY_S
    with store.try_prune_lock() as alone:
        assert alone
        assert prune(store, clock).summarised == (0 if store.database.partitioned else 5), "a file has one process"
    assert prune(store, clock).summarised == (5 if store.database.partitioned else 0)


AGES = {
    "longer": ({"max_age_of": {"shop": 20 * DAY_S}}, {"shop": "full", "bank": "summary", "noisy": "summary"}),
    "shorter": (
        {"max_age_s": 20 * DAY_S, "max_age_of": {"noisy": 3600.0}},
        {"shop": "full", "bank": "full", "noisy": "summary"},
    ),
    "no summary": ({"summary_max_age_of": {"noisy": 3600.0}}, {"shop": "summary", "bank": "summary"}),
    "a cluster": ({"max_age_of": {f"{CLUSTER}/": 20 * DAY_S}}, {"shop": "full", "bank": "full", "noisy": "full"}),
    "another cluster": (
        {"max_age_of": {"another/": 20 * DAY_S, "another/shop": 90 * DAY_S}},
        {"shop": "summary", "bank": "summary", "noisy": "summary"},
    ),
    "a cluster's namespace": (
        {"max_age_of": {f"{CLUSTER}/shop": 20 * DAY_S, "shop": 3600.0, f"{CLUSTER}/": 9 * DAY_S}},
        {"shop": "full", "bank": "full", "noisy": "full"},
    ),
}


@pytest.mark.parametrize(("limits", "expected"), AGES.values(), ids=AGES)
def test_a_namespace_or_cluster_can_have_its_own_ages(
    store: Store, clock: Clock, limits: dict[str, Any], expected: dict[str, str]
) -> None:
    """Also longer ages: on PostgreSQL such records leave their partition before it is dropped and stay readable."""
    each = {"shop": range(1, 20, 2), "bank": range(21, 40, 2), "noisy": range(41, 60, 2)}
    sent = [
        a_decision(pod=f"p-{i}", namespace=name, sequence=i, nodes=NODES, points=POINTS)
        for name, numbers in each.items()
        for i in numbers
    ]
    put(store, ROWS, *with_outcomes(sent))
    clock.now_s += 8 * DAY_S
    put(store, *decisions(1001, 1001, namespace="today"))
    prune(store, clock, **limits)
    found: dict[str, set[str]] = {}
    for whole in read(store):
        tier = "summary" if whole.decision.summary else "full"
        found.setdefault(whole.decision.pod.namespace, set()).add(tier)
        assert len(whole.outcomes) == (whole.decision.pod.namespace != "today")
    assert found == {name: {tier} for name, tier in (expected | {"today": "full"}).items()}
    if store.database.partitioned and "full" not in {expected.get(n) for n in each} - {"full"}:
        with store.snapshot() as connection:
            names = connection.scalars(sa.text("SELECT relname FROM pg_class WHERE relname LIKE 'decisions_p_____'"))
            old = [
                name
                for name in names
                if int(name.removeprefix("decisions_p")) * PARTITION_US < sent[0].times.started_us
            ]
        assert old == []


def test_every_decision_is_in_one_scope(store: Store, clock: Clock) -> None:
    """The most specific age applies."""
    limits = RetentionLimits(max_age_of={"a": 1.0, "c1/a": 2.0, "c2/": 3.0}, summary_max_age_of={"b": 4.0})
    expected = {("c1", "a"): 2.0, ("c2", "a"): 1.0, ("c3", "a"): 1.0, ("c2", "b"): 3.0, ("c2", "c"): 3.0}
    for cluster in ("c1", "c2", "c3"):
        sent = [a_decision(cluster=cluster, incarnation=cluster, namespace=n, sequence=i) for i, n in enumerate("abc")]
        put(store, a_table(["worker-1", "worker-3", "worker-3"]).rows(cluster, cluster), *sent)
    found: dict[tuple[str, str], float] = {}
    with store.snapshot() as connection:
        for scope in build_scopes(limits):
            for row in connection.execute(sa.select(DECISIONS).where(scope.where)):
                assert (row.cluster, row.namespace) not in found
                found[row.cluster, row.namespace] = scope.full_s
    assert found == {(c, n): expected.get((c, n), 7 * DAY_S) for c in ("c1", "c2", "c3") for n in "abc"}


def test_records_over_the_size_limit_become_summaries(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest records are summarised first, and no more than necessary."""
    monkeypatch.setattr(expired_chains, "CHAINS_PER_STEP", 1)
    for batch in range(4):
        put(store, ROWS, *with_outcomes(decisions(100 * batch + 1, 100 * batch + 59)))
        clock.now_s += PARTITION_US / 1e6
    live = store.reader.measure_sizes().live_bytes
    result = prune(store, clock, max_bytes=live - 1)
    assert result.deleted == 0
    assert 0 < result.summarised < 120
    assert tiers(store) == {"full": 120 - result.summarised, "summary": result.summarised}
    places = ["summary" if w.decision.summary else "full" for w in read(store)]
    assert places == sorted(places, reverse=True), "the newest stay whole"


def test_summaries_have_their_own_size_limit(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_chains, "CHAINS_PER_STEP", 1)
    for batch in range(4):
        put(store, ROWS, *decisions(1000 * batch + 1, 1000 * batch + 19))
        clock.now_s += DAY_S
    clock.now_s += 8 * DAY_S
    prune(store, clock)
    bytes_before = store.reader.measure_sizes().tiers["summary"].bytes
    result = prune(store, clock, summary_max_bytes=bytes_before // 2)
    assert 0 < result.deleted < 40
    assert store.reader.measure_sizes().tiers["summary"].bytes <= bytes_before // 2
    assert [w.decision.pod.name for w in read(store)][-1] == "p-3019"


def test_a_late_summary_expires_by_the_age_of_its_decision(store: Store, clock: Clock) -> None:
    """Summaries of later decisions were deleted before it became a summary."""
    limits: dict[str, Any] = {
        "max_age_of": {"shop": 20 * DAY_S},
        "summary_max_age_s": 15 * DAY_S,
        "summary_max_age_of": {"shop": 25 * DAY_S},
    }
    put(store, ROWS, *decisions(1, 3), *decisions(5, 7, namespace="bank"))
    pruner = Pruner(store, RetentionLimits(**limits))
    found = []
    for day in (8, 17, 22, 28):
        clock.now_s = Clock().now_s + day * DAY_S
        pruner.prune()
        found.append(tiers(store))
    assert found == [{"full": 2, "summary": 2}, {"full": 2}, {"summary": 2}, {}]


def test_a_kill_between_two_steps_loses_and_duplicates_nothing(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds after any step, and the next pass continues."""
    put(store, ROWS, *with_outcomes(decisions(1, 199, nodes=NODES[:3])), *decisions(301, 319))
    clock.now_s += 8 * DAY_S
    put(store, *decisions(1001, 1001))
    names = [w.decision.pod.name for w in read(store)]
    real = expired_chains.replace_with_summaries

    def killed(*args: Any) -> int:
        real(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(expired_chains, "replace_with_summaries", killed)
    monkeypatch.setattr(expired_chains, "CHAINS_PER_STEP", 1)
    with pytest.raises(KeyboardInterrupt):
        prune(store, clock)
    assert tiers(store) == {"full": 111}, "the step was not committed"
    calls = []

    def killed_later(*args: Any) -> int:
        calls.append(args)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(expired_chains, "replace_with_summaries", killed_later)
    with pytest.raises(KeyboardInterrupt):
        prune(store, clock)
    left = tiers(store)
    assert 0 < left["summary"] < 110
    assert sum(left.values()) == 111
    assert [w.decision.pod.name for w in read(store)] == names
    monkeypatch.setattr(expired_chains, "replace_with_summaries", real)
    assert prune(store, clock).summarised == 110 - left["summary"]
    assert [(w.decision.pod.name, len(w.outcomes)) for w in read(store)] == [(n, int(n[2:]) < 200) for n in names]


def test_retention_does_not_restore_decisions_purged_meanwhile(store: Store, clock: Clock) -> None:
    """Chains that a purge compressed again are skipped until the next pass."""
    put(store, ROWS, *decisions(1, 39))
    clock.now_s += 8 * DAY_S
    with store.snapshot() as connection:
        chains, _ = expired_chains.find_expired_chains(
            connection, expired_chains.ExpiredChainQuery(0, int(clock.now_s * 1e6), 0)
        )
        prepared = [expired_chains.summarise_chain(connection, store.records, chain, 1) for chain in chains]
    assert purge_decisions(store.writer, PurgeSelection(pod_uid="uid-shop-p-1")) == 1
    with store.writer.transaction() as connection:
        assert [expired_chains.replace_with_summaries(connection, store.database, p) for p in prepared] == [0]
    assert prune(store, clock).summarised == 19
    assert purge_decisions(store.writer, PurgeSelection(pod_uid="uid-shop-p-3")) == 1
    assert [w.decision.pod.name for w in read(store)] == [f"p-{i}" for i in range(5, 40, 2)]


@pytest.fixture
def summarised_service(service: Service) -> Service:
    """Serve summaries of two attempts of a pod that fits nowhere and of one placed pod."""
    placed = a_decision(pod="placed", nodes=NODES, points=POINTS, rejected=SOME, sequence=1)
    nowhere = [
        a_decision(
            pod="nowhere", nodes=NODES, rejected=REJECTED, sequence=i, attempt=i, started_us=placed.times.started_us + i
        )
        for i in (3, 4)
    ]
    service.stored(ROWS, placed, bound(placed, TABLE), *nowhere)
    service.clock.now_s += 8 * DAY_S
    assert Pruner(service.store, RetentionLimits()).prune().summarised == 3
    return service


def test_a_node_left_out_of_a_summary_is_reported_as_pruned(summarised_service: Service) -> None:
    service = summarised_service
    assert service.explain("placed", node="worker-3")["perNode"][0]["rank"] > 0
    for path, query in (
        ("podexplanations/placed", {"node": "worker-20"}),
        ("nodecomparisons/placed", {"a": "worker-3", "b": "worker-20"}),
    ):
        status = service.error(f"{API}/namespaces/shop/{path}", **query)
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"] == (
            'what was decided about node "worker-20" is no longer kept: the full record was pruned on 2026-03-09; kept:'
            " 6 of 24 nodes (the best, and the nearest of those rejected), and how many nodes got each verdict"
        )


QUESTIONS: dict[str, Callable[[Service], Any]] = {
    "explanation": lambda s: s.explain("nowhere")["notes"],
    "every node": lambda s: s.explain("placed", all="true")["notes"],
    "attempts": lambda s: s.get(f"{API}/namespaces/shop/podhistories/nowhere")["attempts"][1]["changes"],
    "two pods": lambda s: s.get(f"{API}/namespaces/shop/podcomparisons/nowhere", **{"with": "placed"})["differences"],
    "the record": lambda s: s.get(f"{API}/namespaces/shop/decisions/placed")["spec"]["pruned"]["text"],
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_answer_names_a_pruned_record(summarised_service: Service, ask: Callable[[Service], Any]) -> None:
    assert "the full record was pruned on 2026-03-09; kept: " in str(ask(summarised_service))


def test_lists_and_aggregates_include_summaries(summarised_service: Service) -> None:
    service = summarised_service
    listed = service.get(f"{API}/namespaces/shop/decisions")["items"]
    assert [(d["spec"]["pod"]["name"], d["status"]["state"]) for d in listed] == [
        ("nowhere", "Unschedulable"),
        ("nowhere", "Unschedulable"),
        ("placed", "Bound"),
    ]
    (pending,) = service.get(f"{API}/pendingpods")["pods"]
    assert pending["pod"] == "nowhere"
    assert service.explain("nowhere")["attempt"]["attempts"] == 2
    assert service.explain("nowhere", attempt=1)["attempt"]["number"] == 3
    balance = service.get(f"{API}/balances", since=str(int(30 * DAY_S)))
    assert (balance["decisions"], balance["complete"]) == (0, False), "it needs the scores of every node"
    assert balance["headline"].startswith("Pods were placed, but"), "and does not say that none was placed"
    assert service.history("worker-2", since=str(int(30 * DAY_S)))["chosen"] == 1
    document = service.get(f"{API}/namespaces/shop/decisions/nowhere")["spec"]
    assert document["pruned"]["evaluation"] == {"evaluated": 24}
    (tainted,) = [f for f in document["pruned"]["filters"] if f["plugin"] == "TaintToleration"]
    assert [(v["code"], v["nodes"], v["first"]) for v in tainted["verdicts"]] == [
        ("Success", 16, 0),
        ("UnschedulableAndUnresolvable", 8, 8),
    ]


def test_summary_keeps_the_measurements_of_its_nodes() -> None:
    """Records of plugins that score by measurements have columns of them, too."""
    load = InputColumn("used", "%", 0, array("q", range(len(NODES))), array("B", [0] * len(NODES)))
    times = (array("q", [7]), array("q", range(len(NODES))))
    sources = tuple(Inputs(f"Load{i}", "metrics", (load,), measured) for i, measured in enumerate(times))
    decision = replace(a_decision(nodes=NODES, points=POINTS), inputs=sources)
    found = decode_summary(encode_summary(summarise_record(DecisionRecord(decision, (), TABLE), 1)))
    one, each = found.decision.inputs
    kept = [NODES.index(name) for name in found.table.names]
    assert list(one.numbers[0].values) == list(each.measured) == kept
    assert list(one.measured) == [7]
