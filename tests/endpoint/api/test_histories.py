"""A node's history: every number equals a count over the stored decisions, one node and one decision at a time."""

import tempfile
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_answers.explain import compute_margin, weigh_scores
from herodotus_answers.node_results import list_rejections
from herodotus_endpoint.store import Store, rollups
from herodotus_record import codec
from herodotus_record.model import Code, Decision, Evaluation, FilterColumn, Owner
from herodotus_record.units import format_timestamp
from tests.builders import CLUSTER, CORDONED, FILTERS, INSUFFICIENT_CPU, MONDAY_US, TAINTED, a_decision, a_table
from tests.endpoint.service import API, Service, a_service, rows

NODES = ("worker-1", "worker-2", "", "worker-3", "worker-4")
TABLE = a_table(NODES)
VERDICTS = {"NodeUnschedulable": CORDONED, "TaintToleration": TAINTED, "NodeResourcesFit": INSUFFICIENT_CPU}
HOUR_US = 3_600_000_000
OTHER = "00000000-0000-4000-8000-0000000000bb"  # an incarnation in another cluster

rejected = st.dictionaries(
    st.sampled_from([n for n in NODES if n]),
    st.sets(st.sampled_from(sorted(VERDICTS)), min_size=1).map(lambda names: {n: VERDICTS[n] for n in names}),
)
points = st.fixed_dictionaries(
    {n: st.fixed_dictionaries({p: st.integers(0, 3) for p in ("TaintToleration", "ImageLocality")}) for n in NODES if n}
)
owners = st.sampled_from([None, Owner("StatefulSet", "db"), Owner("ReplicaSet", "web-5d9f")])


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    decision = a_decision(
        nodes=NODES,
        rejected=draw(rejected),
        points=draw(points),
        owner=draw(owners),
        started_us=MONDAY_US - draw(st.integers(0, 3)) * HOUR_US,
        profile=draw(st.sampled_from(["one", "two"])),
    )
    labels = {"pod-template-hash": "5d9f"} if decision.pod.owner else {}
    skipped = tuple(replace(f, skipped=f.plugin == "NodePorts") for f in decision.filters)
    decision = replace(decision, filters=skipped, pod=replace(decision.pod, labels=labels))
    if decision.chosen != 0 and not decision.rank[0] and draw(st.booleans()):
        decision = replace(decision, evaluation=array("B", [Evaluation.NOT_SAMPLED, *decision.evaluation[1:]]))
    return decision


def brute_force(sample: list[Decision], node: str) -> dict[str, Any]:
    """Compute the numbers of a history with the functions of `explain`."""
    slot, count = NODES.index(node), Counter[Any]()
    for d in sample:
        evaluated = d.evaluation[slot] == Evaluation.EVALUATED
        feasible, chosen = bool(d.rank[slot]), d.chosen == slot
        count["considered"] += 1
        count["evaluated"] += evaluated
        count["feasible"] += feasible
        count["chosen"] += chosen
        rejections = list_rejections(d, slot)
        for i, (plugin, verdict) in enumerate(rejections):
            count["rejected", plugin] += 1
            count["decisive", plugin] += i == 0
            for reason in verdict.reasons:
                count["reason", plugin, reason.code] += 1
        for f in d.filters:
            count["ran", f.plugin] += evaluated and not f.skipped
        if feasible and len(d.totals):
            assert d.chosen is not None
            count["scored"] += 1
            count["total"] += d.totals[slot]
            for plugin, got in weigh_scores(d, slot).items():
                count["score", plugin] += got
                count["cost", plugin] += 0 if chosen else got - weigh_scores(d, d.chosen)[plugin]
            count["lost"] += not chosen
            count["behind"] += d.totals[d.chosen] - d.totals[slot]
        lead = compute_margin(d)
        if chosen and lead:
            count["won"] += 1
            count["lead"] += lead.points
            count["ties" if d.ties else ("carried", lead.shares[0][0])] += 1
        if chosen:
            owner = {"ReplicaSet": "Deployment/web", "StatefulSet": "StatefulSet/db"}
            count["workload", owner[d.pod.owner.kind] if d.pod.owner else f"Pod/{d.pod.name}"] += 1
    return {k: v for k, v in count.items() if v}


def as_counts(history: Any) -> dict[str, Any]:
    """Return the same numbers from the document."""
    count: dict[Any, Any] = {k: history[k] for k in ("considered", "evaluated", "feasible", "chosen")}
    assert history["notEvaluated"] == count["considered"] - count["evaluated"]
    feasible, evaluated = count["feasible"], count["evaluated"]
    rate = feasible / evaluated if evaluated else None
    assert history["eligibility"] == {"feasible": feasible, "evaluated": evaluated, "rate": rate}
    for f in history["filters"]:
        plugin = f["plugin"]
        count |= {("rejected", plugin): f["rejected"], ("decisive", plugin): f["decisive"]}
        count["ran", plugin] = f["evaluated"]
        count |= {("reason", plugin, r["code"]): r["count"] for r in f["reasons"]}
        assert f["passed"] == f["evaluated"] - f["rejected"]
        assert f["rate"] == (f["passed"] / f["evaluated"] if f["evaluated"] else None)
    scores, won, lost = history["scores"], history["won"], history["lost"]
    count |= {"scored": scores["attempts"], "total": scores["accumulated"], "won": won["contested"]}
    count |= {("score", p["plugin"]): p["accumulated"] for p in scores["plugins"]}
    count |= {"ties": won["ties"], "lost": lost["count"]}
    count |= {"lead": round((won["meanMargin"] or 0) * won["contested"])}
    count |= {"behind": round((lost["meanBehind"] or 0) * lost["count"])}
    count |= {("carried", p): n for p, n in won["carriedBy"].items()}
    count |= {("cost", p): round(mean * lost["count"]) for p, mean in lost["costsMost"].items()}
    count |= {("workload", w["workload"]): w["count"] for w in history["workloads"]}
    assert won["count"] == won["uncontested"] + won["ties"] + sum(won["carriedBy"].values()) == count["chosen"]
    return {k: v for k, v in count.items() if v}


@settings(max_examples=25, deadline=None)
@given(st.lists(decisions(), min_size=1, max_size=12), st.integers(1, 4))
def test_history_counts_the_stored_decisions(sample: list[Decision], batches: int) -> None:
    sample = [replace(d, sequence=i + 1, id=f"d-{i}") for i, d in enumerate(sample)]
    with tempfile.TemporaryDirectory() as folder:
        service = a_service(Path(folder))
        service.stored(rows(TABLE))
        for start in range(batches):
            service.stored(*sample[start::batches])
        for node in filter(None, NODES):
            history = service.history(node)
            expected = brute_force(sample, node)
            costs = {k: v for k, v in expected.items() if k[0] == "cost" and v > 0}  # only what cost it points is told
            assert as_counts(history) == {k: v for k, v in expected.items() if k not in costs}
        service.store.close()


def placed(pod: str, sequence: int, started_us: int = MONDAY_US, **kwargs: Any) -> Decision:
    return a_decision(pod=pod, nodes=NODES, sequence=sequence, started_us=started_us, **kwargs)


def test_recent_decisions_have_the_results_of_the_node(service: Service) -> None:
    lead = {"worker-1": {"NodeResourcesFit": 40}, "worker-2": {"NodeResourcesFit": 10, "ImageLocality": 5}}
    others = {n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES if n and n != "worker-1"}
    sampled = placed("e", 5, rejected={"worker-1": {"NodeName": CORDONED}})
    service.stored(
        rows(TABLE),
        placed("a", 1, points=lead),
        placed("b", 2, points={"worker-2": {"ImageLocality": 9}, "worker-1": {"ImageLocality": 2}}),
        placed("c", 3, rejected={"worker-1": {"TaintToleration": TAINTED, "NodeResourcesFit": INSUFFICIENT_CPU}}),
        placed("d", 4, rejected=others),
        replace(sampled, evaluation=array("B", [Evaluation.NOT_SAMPLED, *sampled.evaluation[1:]])),
        placed("f", 6),
        replace(
            placed("g", 7, points={"worker-1": {"ImageLocality": 9}, "worker-2": {"ImageLocality": 2}}),
            chosen=1,
        ),
        replace(
            placed("h", 8, rejected={"worker-2": {"NodeResourcesFit": INSUFFICIENT_CPU}}),
            chosen=1,
        ),
    )
    keys = ("result", "rank", "total", "points", "decidedBy", "rejectedBy", "why")
    history = service.history("worker-1")
    assert {r["pod"]: {k: r[k] for k in keys if k in r} for r in history["recent"]} == {
        "h": {"result": "lost", "rank": 1, "total": 0, "points": None, "decidedBy": None},
        "g": {"result": "lost", "rank": 1, "total": 9, "points": -7, "decidedBy": None},
        "f": {"result": "chosen", "rank": 1, "total": 0, "points": 0, "decidedBy": "tie"},
        "e": {"result": "not-evaluated", "why": "not-sampled"},
        "d": {"result": "chosen", "rank": 1, "total": None, "points": None, "decidedBy": None},
        "c": {"result": "rejected", "rejectedBy": "TaintToleration"},
        "b": {"result": "lost", "rank": 2, "total": 2, "points": 7, "decidedBy": "ImageLocality"},
        "a": {"result": "chosen", "rank": 1, "total": 40, "points": 25, "decidedBy": "NodeResourcesFit"},
    }
    assert history["recentOf"] == 50


@pytest.mark.parametrize(
    ("since", "considered", "start"),
    [
        (None, 2, "2026-02-28T13:00:00.000000+00:00"),
        ("0", 0, "2026-03-01T13:00:00.000000+00:00"),
        ("60", 1, "2026-03-01T12:00:00.000000+00:00"),
        ("3600", 1, "2026-03-01T12:00:00.000000+00:00"),
        ("2026-03-01T09:30:00Z", 2, "2026-03-01T09:00:00.000000+00:00"),
        ("2026-02-01T00:00:00+02:00", 3, "2026-01-31T22:00:00.000000+00:00"),
        ("999999999999", 3, "1970-01-01T00:00:00.000000+00:00"),
    ],
    ids=["a day by default", "now", "a minute", "an hour", "since a time", "with an offset", "ever"],
)
def test_the_window_is_rounded_to_hours_and_stated(
    service: Service, since: str | None, considered: int, start: str
) -> None:
    times = (MONDAY_US, MONDAY_US - 3 * HOUR_US, MONDAY_US - 48 * HOUR_US)
    service.stored(rows(TABLE), *(placed(f"p-{i}", i + 1, at) for i, at in enumerate(times)))
    history = service.history("worker-1", **({"since": since} if since else {}))
    assert (history["considered"], history["window"]["from"]) == (considered, start)


@pytest.mark.parametrize(
    ("hours", "spans"),
    [
        ([-3, 0], [(-3, 1), (-2, 0), (-1, 0), (0, 1), (1, 0)]),
        ([0, 2], [(0, 1), (1, 1)]),
        ([2], [(1, 1)]),
        ([-96, 0], [(-96, 1), *((n, 0) for n in range(-93, 0, 3)), (0, 1)]),
    ],
    ids=["by the hour", "a clock ahead of the service's counts as now", "all of it ahead", "by more hours"],
)
def test_history_over_time_counts_each_decision_in_one_span(
    service: Service, hours: list[int], spans: list[tuple[int, int]]
) -> None:
    service.stored(rows(TABLE), *(placed(f"p-{i}", i + 1, MONDAY_US + h * HOUR_US) for i, h in enumerate(hours)))
    over_time = service.history("worker-1", since="999999999999")["overTime"]
    first_us = MONDAY_US // HOUR_US * HOUR_US
    assert [(span["from"], span["considered"]) for span in over_time] == [
        (format_timestamp(first_us + hour * HOUR_US), considered) for hour, considered in spans
    ]


def test_node_without_decisions_is_not_found(service: Service) -> None:
    service.stored(rows(a_table(["worker-1", "worker-2", "worker-5"])), a_decision(nodes=("worker-1", "worker-2")))
    for node in ("worker-5", "worker1"):
        status = service.error(f"{API}/nodehistories/{node}")
        assert (status["code"], status["message"]) == (404, f'no decision considered node "{node}"')
        assert set(status["details"]["similar"]) == {"worker-1", "worker-2"}


def test_without_records_every_name_is_unknown(service: Service) -> None:
    """The error differs from that for an unknown name."""
    paths = ("nodehistories/n", "namespaces/shop/podexplanations/p", "namespaces/shop/workloadplacements/deployment.d")
    errors = [service.error(f"{API}/{path}") for path in paths]
    assert [(status["code"], status["details"].get("noRecords")) for status in errors] == [(404, True)] * 3
    service.stored(rows(a_table(["worker-1"])), a_decision(nodes=("worker-1",)))
    assert not any("noRecords" in service.error(f"{API}/{path}")["details"] for path in paths)


def test_nodes_of_two_clusters_are_distinguished(service: Service) -> None:
    service.stored(rows(TABLE), placed("here", 1), placed("here-too", 2))
    service.stored(rows(TABLE, incarnation=OTHER, cluster="c2"), placed("there", 1, incarnation=OTHER, cluster="c2"))
    error = service.error(f"{API}/nodehistories/worker-1")
    assert (error["code"], "name one (cluster=, or --cluster of the plugin)" in error["message"]) == (400, True)
    assert service.history("worker-1", cluster=CLUSTER)["considered"] == 2
    assert service.history("worker-1", cluster="c2")["considered"] == 1
    assert [r["pod"] for r in service.history("worker-1", cluster="c2")["recent"]] == ["there"]


def test_rejections_are_counted_by_code_and_resource(service: Service) -> None:
    memory = replace(
        INSUFFICIENT_CPU,
        reasons=(*INSUFFICIENT_CPU.reasons, replace(INSUFFICIENT_CPU.reasons[0], params={"resource": "memory"})),
    )
    fit = FilterColumn(
        FILTERS[-1],
        verdicts=(INSUFFICIENT_CPU.__class__(Code.SUCCESS), INSUFFICIENT_CPU, memory),
        ids=array("B", [1, 2, 0, 0, 0]),
    )
    base = placed(
        "p", 1, rejected={"worker-1": {"NodeResourcesFit": INSUFFICIENT_CPU}, "worker-2": {"NodeResourcesFit": memory}}
    )
    service.stored(rows(TABLE), replace(base, filters=(*base.filters[:-1], fit)))
    found = {n: service.history(n)["filters"][-1]["reasons"] for n in ("worker-1", "worker-2")}
    cpu = {"code": "insufficient", "resource": "cpu", "text": "Insufficient cpu", "count": 1}
    assert found == {
        "worker-1": [cpu],
        "worker-2": [cpu, cpu | {"resource": "memory", "text": "Insufficient memory"}],
    }


def test_cached_rollups_equal_those_in_the_database(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds after writes of another process and failed transactions, and for a full cache."""
    unpacked: list[bytes] = []
    unpack = rollups.Rollup.unpack

    def count_and_unpack(blob: bytes) -> rollups.Rollup:
        unpacked.append(blob)
        return unpack(blob)

    monkeypatch.setattr(rollups.Rollup, "unpack", count_and_unpack)
    service.stored(rows(TABLE), placed("a", 1))
    service.stored(placed("b", 2))
    assert (service.history("worker-1")["considered"], unpacked) == (2, [])
    other = Store(str(service.store.database.writing_engine().url))
    other.writer.store([(frame, codec.encode(frame)) for frame in (placed("c", 3),)])
    other.close()
    service.stored(placed("d", 4))
    assert (service.history("worker-1")["considered"], len(unpacked)) == (4, 2), "once by each"
    lost = placed("e", 5)
    monkeypatch.setattr(rollups, "MAX_CACHED_BYTES", 1)  # of the cache that replaces this one: it holds one rollup
    with monkeypatch.context() as failing:
        failing.setattr("herodotus_endpoint.store.incarnations.save", fail)
        with pytest.raises(RuntimeError):
            service.store.writer.store([(lost, codec.encode(lost))])
    service.stored(placed("f", 6))
    assert (service.history("worker-1")["considered"], len(unpacked)) == (5, 3)
    service.stored(rows(TABLE, incarnation=OTHER, cluster="c2"), placed("there", 1, incarnation=OTHER, cluster="c2"))
    service.stored(placed("g", 7))
    assert (service.history("worker-1", cluster=CLUSTER)["considered"], len(unpacked)) == (6, 4)


def fail(*_: Any) -> None:
    raise RuntimeError("at the last step")
