"""Scenes for screen tests: documents built from records as the decisions service builds them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from typing import Any

from herodotus_answers.comparison import build_node_comparison, build_pod_comparison
from herodotus_answers.pod import build_pod_explanation
from herodotus_answers.pod_history import build_pod_history
from herodotus_cli.render import attempts as attempts_screen
from herodotus_cli.render import comparison, pod, pod_on_node
from herodotus_cli.render.screen_elements import Block, ViewOptions
from herodotus_endpoint.store.summaries import DecisionRecord, summarise_record
from herodotus_record import reasons
from herodotus_record.disclosure import HIDDEN
from herodotus_record.model import (
    NOT_RUN,
    REPEATS_PHASE,
    SUCCESS,
    Candidate,
    Code,
    Decision,
    DecisionPath,
    FilterColumn,
    InputColumn,
    Inputs,
    NodeTable,
    Outcome,
    Owner,
    PluginVerdict,
    Preemption,
    Reason,
    RequeueEvent,
    Retry,
    ScoreColumn,
    ScoreReasons,
    Suggestion,
    Verdict,
)
from tests.builders import CORDONED, INSUFFICIENT_CPU, TAINTED, a_decision, a_table, bound
from tests.support.answers import as_json

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, 38, tzinfo=timezone.utc)  # 38 s after the builders' decisions start

NODES = [f"worker-{i}" for i in range(1, 13)]
USED = {"worker-1": 7520, "worker-2": 7700, "worker-4": 8000, "worker-6": 8000, "worker-12": 7900}
REJECTED = {
    **{node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in ("worker-1", "worker-2", "worker-4", "worker-6")},
    **{node: {"TaintToleration": TAINTED} for node in ("worker-9", "worker-10")},
    "worker-12": {"NodeUnschedulable": CORDONED, "NodeResourcesFit": INSUFFICIENT_CPU},
}
POINTS = {
    "worker-7": {"TaintToleration": 100, "NodeResourcesFit": 87, "ImageLocality": 94},
    "worker-3": {"TaintToleration": 100, "NodeResourcesFit": 73, "ImageLocality": 87},
    "worker-5": {"TaintToleration": 100, "NodeResourcesFit": 61, "ImageLocality": 73},
    "worker-8": {"TaintToleration": 100, "NodeResourcesFit": 61},
    "worker-11": {"TaintToleration": 100},
}
MORE_PLUGINS = {  # score plugin -> weight; with the builders' three, all in-tree ones and an out-of-tree one
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "DynamicResources": 2,
    "EnergyAwarePlacement": 1,
}


EXTENDER = "http://gpu-extender.kube-system:8888/scheduler"


@dataclass(frozen=True)
class Scene:
    """An answer document and the function that builds its screen."""

    answer: Json
    screen: Callable[[Any, ViewOptions], list[Block]] = pod.build_screen


def scenes() -> dict[str, Callable[[], Scene]]:
    """Return the function of each scene by name."""
    return {
        "placed": lambda: Scene(placed()),
        "placed-all": lambda: Scene(placed(every_node=True), all_nodes),
        "placed-explained": lambda: Scene(explained(scored_by_terms())),
        "placed-many-plugins": lambda: Scene(explained(many_plugins())),
        "only-feasible-node": lambda: Scene(only_feasible()),
        "tie": lambda: Scene(tie()),
        "binding": lambda: Scene(explained(a_placed(), outcome=False)),
        "waiting": lambda: Scene(waiting()),
        "dry-run": lambda: Scene(dry_run()),
        "bind-failed": lambda: Scene(bind_failed()),
        "result-lost": lambda: Scene(lost()),
        "pruned": lambda: Scene(pruned(a_tie())),
        "pruned-all": lambda: Scene(pruned(a_tie(), every_node=True), all_nodes),
        "pruned-pending": lambda: Scene(pruned(a_pending())),
        "second-attempt": lambda: Scene(second_attempt()),
        "pending": lambda: Scene(explained(a_pending())),
        "pending-suggestions": lambda: Scene(explained(pending_with_suggestions())),
        "pending-place": lambda: Scene(explained(a_pending()) | {"live": A_PLACE}),
        "woken": lambda: Scene(explained(woken())),
        "pending-all": lambda: Scene(explained(a_pending(), every_node=True), all_nodes),
        "prefilter-rejected": lambda: Scene(prefilter_rejected()),
        "preemption-failed": lambda: Scene(preemption_failed()),
        "preemption-would-help": lambda: Scene(preemption_would_help()),
        "node-rejected": lambda: Scene(placed(node="worker-12"), pod_on_node.build_screen),
        "node-outscored": lambda: Scene(placed(node="worker-3"), pod_on_node.build_screen),
        "node-explained": lambda: Scene(explained(scored_by_terms(), node="worker-3"), pod_on_node.build_screen),
        "node-chosen": lambda: Scene(placed(node="worker-7"), pod_on_node.build_screen),
        "node-many-plugins": lambda: Scene(
            long_names(explained(many_plugins(), node="worker-3")), pod_on_node.build_screen
        ),
        "node-all": lambda: Scene(placed(node="worker-12"), all_filters),
        "inputs": lambda: Scene(explained(measured())),
        "inputs-pending": lambda: Scene(explained(overloaded())),
        "inputs-node": lambda: Scene(explained(measured(), node="worker-3"), pod_on_node.build_screen),
        "extender-scored": lambda: Scene(explained(extender_scored())),
        "extender-refused": lambda: Scene(explained(extender_refused())),
        "extender-node": lambda: Scene(explained(extender_refused(), node="worker-3"), pod_on_node.build_screen),
        "attempts": lambda: Scene(attempts(), history_screen),
        "attempts-unchanged": lambda: Scene(unchanged_attempts(), history_screen),
        "attempts-repeated": lambda: Scene(repeated_attempts(), history_screen),
        "attempts-of-many": lambda: Scene(attempts(total=57), history_screen),
        "compared-pods": lambda: Scene(compared_pods(), comparison.build_pods_screen),
        "compared-nodes": lambda: Scene(compared_nodes("worker-7", "worker-3"), comparison.build_nodes_screen),
        "compared-with-rejected": lambda: Scene(compared_nodes("worker-12", "worker-3"), comparison.build_nodes_screen),
        "5000-nodes-attempts": lambda: Scene(many_nodes_attempts(), history_screen),
        "5000-nodes-placed": lambda: Scene(explained(large(fits=3000))),
        "5000-nodes-pending": lambda: Scene(explained(large(fits=0))),
    }


@dataclass(frozen=True)
class Recorded:
    """Return a decision in the form used for comparisons."""

    decision: Decision
    table: NodeTable
    outcomes: tuple[Outcome, ...] = ()


def attempts(*, total: int = 3) -> Json:
    """Return attempts of a pod that was pending twice, was requeued by a deleted pod, and was then placed."""
    first = a_pending()
    at = first.times.started_us
    second = replace(woken(), times=replace(first.times, started_us=at + 35_000_000))
    fits = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES if node != "worker-3"}
    third = a_decision(
        pod="payments-0",
        nodes=[*NODES, "worker-13"],
        rejected=fits | {"worker-13": {"NodeResourcesFit": INSUFFICIENT_CPU}},
        requests={"cpu": 2000},
        owner=Owner("StatefulSet", "payments"),
        started_us=at + 37_000_000,
    )
    third = replace(third, requeued_by=RequeueEvent("AssignedPodDelete", "NodeResourcesFit"))
    used = {node: 6300 + 100 * i for i, node in enumerate(NODES)} | {"worker-3": 5000, "worker-13": 7900}
    roomier = a_table([*NODES, "worker-13"], used=used)
    last = Recorded(third, roomier, (bound(third, roomier),))
    recorded = [Recorded(first, table_of(first)), Recorded(second, table_of(second)), last]
    return as_json(build_pod_history(recorded, [(n, n) for n in range(total - 2, total + 1)]))


def unchanged_attempts() -> Json:
    """Return seventeen attempts of a pending pod, of which the last sixteen changed nothing."""
    first = woken()
    at = first.times.started_us - 1_600_000_000
    tries = [replace(first, times=replace(first.times, started_us=at + i * 100_000_000)) for i in range(17)]
    return as_json(build_pod_history([Recorded(d, table_of(d)) for d in tries], [(n, n) for n in range(1, 18)]))


def repeated_attempts() -> Json:
    """Return two attempts of a pending pod in a loop, of which the first was repeated 41 times without a record."""
    first = a_pending()
    second = replace(woken(), times=replace(first.times, started_us=first.times.started_us + 35_000_000))
    counted = Outcome(
        incarnation=first.key.incarnation,
        sequence=first.sequence + 1,
        decision_id=first.id,
        decision_sequence=first.sequence,
        phase=REPEATS_PHASE,
        status=Code.SUCCESS,
        node="",
        message="",
        at_us=first.times.started_us + 900_000,
        duration_s=0.8,
        final=False,
        repeats=41,
    )
    recorded = [Recorded(first, table_of(first), (counted,)), Recorded(second, table_of(second))]
    return as_json(build_pod_history(recorded, [(1, 42), (43, 43)]))


def many_nodes_attempts() -> Json:
    before, after = large(fits=0), large(fits=3000)
    return as_json(
        build_pod_history([Recorded(before, table_of(before)), Recorded(after, table_of(after))], [(1, 1), (2, 2)])
    )


def compared_pods() -> Json:
    """Return two sibling pods, the second decided when the first one's node had less room."""
    first = a_placed()
    less = {**POINTS, "worker-7": POINTS["worker-7"] | {"NodeResourcesFit": 60}}
    second = a_placed(pod="checkout-7d9f-9pp", points=less, started_us=first.times.started_us + 12_000_000)
    pods = [Recorded(d, table_of(d), (bound(d, table_of(d)),)) for d in (first, second)]
    return as_json(build_pod_comparison(pods))


def compared_nodes(a: str, b: str) -> Json:
    decision = a_placed()
    return as_json(build_node_comparison(Recorded(decision, table_of(decision)), [a, b]))


def history_screen(answer: Json, view: ViewOptions) -> list[Block]:
    return attempts_screen.build_screen(answer, view)


def all_nodes(answer: Json, view: ViewOptions) -> list[Block]:
    return pod.build_screen(answer, view, every_node=True)


def all_filters(answer: Json, view: ViewOptions) -> list[Block]:
    return pod_on_node.build_screen(answer, view, every_node=True)


def long_names(answer: Json) -> Json:
    """Return a decision with a long node name, as clouds use, and a filter with nothing to check."""
    answer["ranking"][0]["node"] = "ip-10-0-12-34.eu-central-1.compute.internal"
    answer["filters"].append({"plugin": "VolumeZone", "skipped": True, "passed": 0, "rejected": 0})
    return answer


def a_placed(**changes: Any) -> Decision:
    owner = Owner("Deployment", "checkout")
    given: dict[str, Any] = {"nodes": NODES, "rejected": REJECTED, "points": POINTS, "owner": owner}
    return a_decision(**(given | changes))


def placed(**query: Any) -> Json:
    return explained(a_placed(), **query)


def explained(decision: Decision, *, outcome: bool = True, **query: Any) -> Json:
    """Return the explanation document; a placed pod is bound, unless `outcome` is False."""
    table = table_of(decision)
    outcomes = [bound(decision, table)] if outcome and decision.chosen is not None else []
    return as_json(build_pod_explanation(decision, outcomes, table, **query))


def scored_by_terms() -> Decision:
    """Return a decision whose record says what made up two scores of the best two nodes."""
    images = Reason("image-present", {"image": "registry.example/shop/checkout:1.9", "size": "412Mi"})
    zones = [
        Reason("spread-pods", {"key": ZONE, "domain": zone, "pods": pods}) for zone, pods in (("a", "1"), ("b", "3"))
    ]
    made_up = {
        "ImageLocality": ((images,), ()),
        "NodeResourcesFit": ((zones[0],), (zones[1],)),  # in place of a plugin that the scene does not have
    }
    return replace(
        a_placed(),
        score_reasons=tuple(
            ScoreReasons(plugin, node, found)
            for plugin, both in made_up.items()
            for node, found in zip(("worker-7", "worker-3"), both, strict=True)
        ),
    )


def table_of(decision: Decision) -> NodeTable:
    if decision.slots > len(NODES):
        names = [f"node-{i:04}" for i in range(decision.slots)]
        return a_table(names, used={name: 7800 + i % 200 for i, name in enumerate(names)})
    if decision.nodes_feasible:
        return a_table(NODES, used=USED)
    return a_table(NODES, used={node: 6300 + 100 * i for i, node in enumerate(NODES)})


def many_plugins() -> Decision:
    """Return a decision with all score plugins and long node names, too wide for 80 columns."""
    decision = a_placed()
    extra = []
    totals = array("q", decision.totals)
    for i, (plugin, weight) in enumerate(MORE_PLUGINS.items()):
        points = [(100 if i % 2 else 90 - rank * i) if rank else 0 for rank in decision.rank]
        totals = array("q", [t + p * weight for t, p in zip(totals, points, strict=True)])
        extra.append(ScoreColumn(plugin, weight, False, array("q", [p * 31 for p in points]), array("b", points)))
    skipped = ScoreColumn("NodeVolumeLimits", 1, skipped=True)
    return replace(decision, scores=(*decision.scores, *extra, skipped), totals=totals)


def only_feasible() -> Json:
    others = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES if node != "worker-7"}
    return explained(a_placed(rejected=others))


def tie() -> Json:
    return explained(a_placed(points={**POINTS, "worker-3": POINTS["worker-7"], "worker-5": POINTS["worker-7"]}))


def a_tie() -> Decision:
    """Return a tie among more nodes than a summary keeps."""
    rejected = {node: {"TaintToleration": TAINTED} for node in ("worker-9", "worker-10")}
    return a_placed(rejected=rejected, points=dict.fromkeys(NODES, POINTS["worker-7"]))


def pruned(decision: Decision, **query: Any) -> Json:
    """Return the document of a decision whose full record was pruned."""
    left = summarise_record(DecisionRecord(decision, (), table_of(decision)), int(NOW.timestamp() * 1e6))
    outcomes = [bound(decision, table_of(decision))] if decision.chosen is not None else []
    return as_json(build_pod_explanation(left.decision, outcomes, left.table, **query))


def bind_failed() -> Json:
    decision, table = a_placed(), a_table(NODES, used=USED)
    return as_json(build_pod_explanation(decision, [bound(decision, table, status=Code.ERROR)], table))


def waiting() -> Json:
    """Return a decision whose PreBind plugin waits for a volume."""
    decision, table = a_placed(), a_table(NODES, used=USED)
    message = "VolumeBinding waits for volumes of shop/data"
    waits = replace(bound(decision, table, status=Code.WAIT), phase="PreBind", message=message, final=False)
    return as_json(build_pod_explanation(decision, [waits], table))


def dry_run() -> Json:
    decision, table = a_placed(), a_table(NODES, used=USED)
    said = replace(bound(decision, table, status=Code.SKIP), phase="DryRun", message="dry run: the pod is not bound")
    return as_json(build_pod_explanation(decision, [said], table))


def lost() -> Json:
    answer = explained(a_placed(), outcome=False)
    answer["outcome"]["lost"] = True  # what the decisions service adds when another scheduler has taken over
    return answer


def second_attempt() -> Json:
    answer = explained(a_placed(attempt=2, notes=("csidrivers are not served: volume limits were not checked",)))
    answer["attempt"] |= {"attempts": 2, "failedBefore": 1, "ordinal": 2, "lastOrdinal": 2}
    return answer


def woken() -> Decision:
    """Return a pending decision that was requeued by a cluster event."""
    pending = a_pending()
    at = pending.times.started_us
    retry = Retry("unschedulable", at + 4_000_000, at + 330_000_000)
    return replace(pending, requeued_by=RequeueEvent("AssignedPodDelete", "NodeResourcesFit"), retry=retry)


ZONE = "topology.kubernetes.io/zone"
A_PLACE: Json = {
    "source": "kube-apiserver",
    "at": "2026-03-01T12:00:00.000000+00:00",
    "fate": "exists",
    "place": {
        "position": 3,
        "waiting": 7,
        "ahead": ["shop/urgent", "ml/train-0"],
        "neglected": False,
        "text": "place 3 of 7 by priority and age, first shop/urgent (priority 100)",
    },
}


def a_pending() -> Decision:
    rejected: dict[str, Mapping[str, Verdict]] = {
        node: {"TaintToleration": TAINTED} if i >= 8 else {"NodeResourcesFit": INSUFFICIENT_CPU}
        for i, node in enumerate(NODES)
    }
    rejected["worker-9"] = {"TaintToleration": TAINTED, "NodeResourcesFit": INSUFFICIENT_CPU}
    owner = Owner("StatefulSet", "payments")
    return a_decision(pod="payments-0", nodes=NODES, rejected=rejected, requests={"cpu": 2000}, owner=owner, attempt=5)


def pending_with_suggestions() -> Decision:
    """Return a rejected decision with three suggestions: one checked, one not, and one without a command."""
    lowered = {"container": "app", "group": "containers", "resource": "cpu", "from": "2", "to": "1700m"}
    patch = '{"containers":[{"name":"app","resources":{"requests":{"cpu":"1700m"}}}]}'
    tolerated = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule", "count": "2", "templateCount": "0"}
    return replace(
        a_pending(),
        suggestions=(
            Suggestion("worker-1", (Reason("set-request", lowered),), patch, is_checked=True, helps=2),
            Suggestion("worker-10", (Reason("add-toleration", tolerated),), is_checked=False),
            Suggestion("worker-9", (Reason("set-request", lowered),), HIDDEN, is_checked=True),
        ),
    )


def extender_scored() -> Decision:
    """Return a decision that an extender's points (0–10) decided."""
    decision = a_placed()
    raw = array("b", [10 if node == "worker-3" else 0 for node in NODES])
    given = ScoreColumn(EXTENDER, 2, False, raw, array("b", [10 * points for points in raw]))
    totals = array("q", [t + 20 * p for t, p in zip(decision.totals, raw, strict=True)])
    by_total = sorted({t for t, r in zip(totals, decision.rank, strict=True) if r}, reverse=True)
    rank = array("H", [1 + by_total.index(t) if r else 0 for t, r in zip(totals, decision.rank, strict=True)])
    chosen = NODES.index("worker-3")
    return replace(decision, scores=(*decision.scores, given), totals=totals, rank=rank, chosen=chosen)


def extender_refused() -> Decision:
    """Return a decision whose extender rejected one node with a message and one without."""
    left = ("worker-3", "worker-5")
    rejected = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES if node not in left}
    decision = a_decision(pod="train-0", nodes=NODES, rejected=rejected, requests={"cpu": 2000})
    no_gpu = Verdict(Code.UNSCHEDULABLE, (Reason("text", {"text": "no GPU of that kind is free"}),))
    table = (SUCCESS, NOT_RUN, no_gpu, Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
    ids = array("B", [{"worker-3": 2, "worker-5": 3}.get(node, 1) for node in NODES])
    return replace(
        decision,
        path=DecisionPath.NONE,
        chosen=None,
        nodes_feasible=0,
        filters=(*decision.filters, FilterColumn(EXTENDER, False, table, ids)),
        scores=(),
        totals=array("B"),
        rank=array("H", [0] * len(NODES)),
        message="0/12 nodes are available: 1 no GPU of that kind is free, 10 Insufficient cpu.",
    )


def prefilter_rejected() -> Json:
    no_claim = Verdict(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        (Reason("not-built", {"feature": "volume claims", "plugin": "VolumeBinding"}),),
    )
    decision = a_decision(nodes=NODES, pre_filters=(PluginVerdict("VolumeBinding", no_claim),))
    message = reasons.format_fit_error(12, [], pre_filter=reasons.format_reason(no_claim.reasons[0]))
    return explained(replace(decision, message=message))


def preemption_failed() -> Json:
    unhelpful = Verdict(Code.UNSCHEDULABLE, (Reason("no-victims"),))
    decision = a_pending()
    message = f"{decision.message} preemption: 0/12 nodes are available: 12 No preemption victims found."
    return explained(replace(decision, post_filters=(PluginVerdict("DefaultPreemption", unhelpful),), message=message))


def preemption_would_help() -> Json:
    found = Preemption(
        nominated_node="worker-2",
        candidates=(
            Candidate("worker-1", ("shop/batch-1", "shop/batch-2"), 1),
            Candidate("worker-2", ("shop/batch-3",), 0),
        ),
        evicted=False,
    )
    return explained(replace(a_pending(), preemption=found))


def measured() -> Decision:
    """Return a decision scored by price and node load, with one stale measurement."""
    found = a_placed()
    ours = [NODES.index(node) for node in POINTS]
    return replace(found, inputs=(*loads(found, ours), *prices(found, ours)))


def overloaded() -> Decision:
    """Return a pending decision with the load of the evaluated nodes."""
    found = a_pending()
    return replace(found, inputs=loads(found, range(len(NODES))))


def loads(decision: Decision, slots: Iterable[int]) -> tuple[Inputs, ...]:
    """Return inputs of SafeOverload that grow by 13.37% per slot; the third slot's are six minutes old."""
    shares = array("H", [(1337 * (slot + 1)) % 10_000 for slot in range(decision.slots)])
    at_s = decision.times.started_us // 1_000_000
    measured, stale = array("q", [at_s - 38] * decision.slots), array("B", [0] * decision.slots)
    late = list(slots)[2]
    measured[late], stale[late] = at_s - 372, 1
    names = ("used", "deviation", "risk")
    return tuple(
        Inputs(
            "SafeOverload",
            f"annotations mean-free-{resource}, std-free-{resource}",
            tuple(InputColumn(f"{resource} {name}", "%", 2, shares, stale) for name in names),
            measured,
            stale,
        )
        for resource in ("cpu", "memory")
    )


def prices(decision: Decision, slots: Iterable[int]) -> tuple[Inputs, ...]:
    """Return inputs of BestPrice for these slots only."""
    given = array("i", [50_000 * (slot + 1) for slot in range(decision.slots)])
    lacking = array("B", [slot not in slots for slot in range(decision.slots)])
    return (Inputs("BestPrice", "annotation hightower.com/cost", (InputColumn("price", "", 6, given, lacking),)),)


@cache
def large(*, fits: int) -> Decision:
    """5,000 nodes, of which the first `fits` are feasible."""
    nodes = [f"node-{i:04}" for i in range(5000)]
    rejected = {
        node: {"TaintToleration": TAINTED} if i % 10 == 9 else {"NodeResourcesFit": INSUFFICIENT_CPU}
        for i, node in enumerate(nodes)
        if i >= fits
    }
    points = {
        node: {"TaintToleration": 100, "NodeResourcesFit": i % 97, "ImageLocality": i % 7}
        for i, node in enumerate(nodes)
    }
    return a_decision(nodes=nodes, rejected=rejected, points=points, owner=Owner("Job", "nightly"))
