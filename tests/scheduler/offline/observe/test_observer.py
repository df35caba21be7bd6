"""The observer with its real parts in one process: only the API server is missing, and the clock is ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from herodotus_answers.headlines import format_headline
from herodotus_kube.watch import ListResult
from herodotus_record import notes
from herodotus_record.model import (
    REPEATS_PHASE,
    Agreement,
    Cause,
    Code,
    Decision,
    DecisionPath,
    Outcome,
    Reconstruction,
    Source,
)
from scheduler.backend.event_handlers import PODS
from scheduler.config.load import parse_config
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.offline.observe.window import ReorderWindow
from tests.scheduler import spools, storage
from tests.scheduler.builders import PROFILE, PodBuilder, expression, make_node, make_pod, term
from tests.support.observer_world import AGREE, LARGE, SMALL, ObserverWorld, waiting


@pytest.fixture
def world(tmp_path: Path) -> ObserverWorld:
    return ObserverWorld(tmp_path / "spool")


def rejected(pod: PodBuilder, message: str) -> PodBuilder:
    pod.json["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ]
    return pod


def test_a_binding_to_the_best_node_agrees(world: ObserverWorld) -> None:
    world.start(SMALL, LARGE)
    world.pod("ADDED", waiting())
    world.pod("MODIFIED", waiting().node("large"))
    assert world.found == []  # held back
    world.pause()
    assert world.found == [("p", "large", AGREE)]
    (decision,), (outcome,) = spools.of(Decision, world.spool), spools.of(Outcome, world.spool)
    assert (decision.key.source, decision.path, decision.nodes_feasible) == (
        Source.RECONSTRUCTED,
        DecisionPath.SCORED,
        2,
    )
    assert (outcome.phase, outcome.status, outcome.node, outcome.final) == ("Bind", Code.SUCCESS, "large", True)


def test_the_time_of_a_record_is_when_its_outcome_was_seen(world: ObserverWorld) -> None:
    world.start(SMALL, LARGE)
    world.pod("ADDED", waiting())
    world.pod("MODIFIED", waiting().node("large"))
    world.now += 3600.0  # an observer that is far behind
    before_us = time.time_ns() // 1000
    world.observer.step(0.0)
    after_us = time.time_ns() // 1000
    (decision,) = spools.of(Decision, world.spool)
    assert before_us <= decision.times.started_us + 3_600_000_000 <= after_us


def test_a_pod_that_waited_before_the_observer_started_is_known(world: ObserverWorld) -> None:
    world.start(SMALL, LARGE, pods=(waiting(),))
    world.pod("MODIFIED", waiting().node("large"))
    world.pause()
    assert world.found == [("p", "large", AGREE)]


def test_a_pod_created_on_a_node_was_never_scheduled(world: ObserverWorld) -> None:
    world.start(SMALL, LARGE)
    world.pod("ADDED", waiting().node("small"))
    world.pause()
    assert world.found == []


def test_pods_of_other_schedulers_only_count_on_their_nodes(world: ObserverWorld) -> None:
    other = make_pod("other").request(cpu="7").with_spec(schedulerName="somebody")
    world.start(SMALL, LARGE)
    world.pod("ADDED", other)
    world.pod("MODIFIED", other.node("large"))
    world.pod("ADDED", waiting(cpu="2"))
    world.pod("MODIFIED", waiting(cpu="2").node("small"))
    world.pause()
    assert world.found == [("p", "small", AGREE)]


class TestInFlight:
    """Two nodes of 4 cpu; whoever comes second goes where the first is not."""

    A, B = make_node("a").allocatable(cpu="4"), make_node("b").allocatable(cpu="4")

    def started(self, world: ObserverWorld) -> None:
        world.start(self.A, self.B, pods=(waiting("old", "1").node("a"), waiting("p"), waiting("q", "2")))

    def test_a_binding_seen_before_it_was_decided_after(self, world: ObserverWorld) -> None:
        """Pod p went to b, which had fewer pods; then q could choose either. The binding of q is seen first."""
        self.started(world)
        world.pod("MODIFIED", waiting("q", "2").node("b"))
        world.pod("MODIFIED", waiting("p").node("b"))
        world.pause()
        assert world.found == [("q", "b", AGREE), ("p", "b", Reconstruction(Agreement.IN_WINDOW, None, -1))]

    def test_a_binding_seen_after_it_was_decided_before(self, world: ObserverWorld) -> None:
        """Pod q took 2 of b, so that p preferred a. The binding of p is seen first."""
        world.start(self.A, self.B, pods=(waiting("old", "1").node("a"), waiting("p"), waiting("q", "2")))
        world.pod("MODIFIED", waiting("p").node("a"))
        world.pod("MODIFIED", waiting("q", "2").node("b"))
        world.pause()
        assert world.found == [("p", "a", Reconstruction(Agreement.IN_WINDOW, None, 1)), ("q", "b", AGREE)]

    def test_older_events_were_known_to_the_scheduler(self, world: ObserverWorld) -> None:
        self.started(world)
        world.pod("MODIFIED", waiting("q", "2").node("b"))
        world.pause()
        world.pod("ADDED", waiting("r", "1").node("b"))
        world.pause()
        world.pod("MODIFIED", waiting("p").node("b"))
        world.pause()
        assert world.found[-1] == ("p", "b", Reconstruction(Agreement.DISAGREE, Cause.UNEXPLAINED))

    def test_a_pod_that_went_before_the_binding_was_seen_was_there_when_it_was_decided(
        self, world: ObserverWorld
    ) -> None:
        """Node b was full until q was deleted, so p went to a."""
        world.start(self.A, self.B, pods=(waiting("old", "1").node("a"), waiting("q", "2").node("b"), waiting("p")))
        world.pod("DELETED", waiting("q", "2").node("b"))
        world.pod("MODIFIED", waiting("p").node("a"))
        world.pause()
        assert world.found == [("p", "a", Reconstruction(Agreement.IN_WINDOW, None, 0, -1))]

    def test_a_pod_that_finished_counts_as_one_that_went(self, world: ObserverWorld) -> None:
        world.start(self.A, self.B, pods=(waiting("old", "1").node("a"), waiting("q", "2").node("b"), waiting("p")))
        world.pod("MODIFIED", waiting("q", "2").node("b").phase("Succeeded"))
        world.pod("MODIFIED", waiting("p").node("a"))
        world.pause()
        assert world.found == [("p", "a", Reconstruction(Agreement.IN_WINDOW, None, 0, -1))]

    def test_a_pod_deleted_shortly_after_a_decision_may_have_been_missing_in_it(self, world: ObserverWorld) -> None:
        world.start(self.A, self.B, pods=(waiting("old", "2").node("a"), waiting("q", "1").node("b"), waiting("p")))
        world.pod("MODIFIED", waiting("p").node("a"))
        world.pod("DELETED", waiting("old", "2").node("a"))
        world.pause()
        assert world.found == [("p", "a", Reconstruction(Agreement.IN_WINDOW, None, 0, 1))]

    def test_a_binding_and_a_deletion_may_both_be_out_of_order(self, world: ObserverWorld) -> None:
        """The binding of q to a was decided after that of p, and r was still on b."""
        pods = (waiting("r", "2").node("b"), waiting("old", "1").node("a"), waiting("p"), waiting("q", "2"))
        world.start(self.A, self.B, pods=pods)
        world.pod("MODIFIED", waiting("q", "2").node("a"))
        world.pod("DELETED", waiting("r", "2").node("b"))
        world.pod("MODIFIED", waiting("p").node("a"))
        world.pause()
        assert world.found[-1] == ("p", "a", Reconstruction(Agreement.IN_WINDOW, None, -1, -1))

    def test_the_cache_is_as_it_was_afterwards(self, world: ObserverWorld) -> None:
        self.started(world)
        world.pod("ADDED", waiting("r", "1").node("a"))
        world.pod("MODIFIED", waiting("q", "2").node("a"))
        world.pod("DELETED", waiting("r", "1").node("a"))
        world.pod("MODIFIED", waiting("p").node("a"))  # no order explains it
        world.pause()
        assert [r.agreement for _, _, r in world.found if r] == [Agreement.DISAGREE, Agreement.DISAGREE]
        columns = world.observer._cache.columns
        assert {n: int(columns.requested("cpu")[columns.index[n]]) for n in "ab"} == {"a": 4000, "b": 0}


SELECTED = {"volume.kubernetes.io/selected-node": "large"}


class TestVolumes:
    """A claim that waits for its first consumer: the scheduler selects a node on it, and later binds the pod."""

    def claiming(self, cpu: str = "1") -> PodBuilder:
        claims = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        return waiting(cpu=cpu).with_spec(volumes=claims)

    def started(self, world: ObserverWorld, cpu: str = "1") -> None:
        sizes = {"small": "2", "large": "8"}
        world.start(*(make_node(n).allocatable(cpu=cpu).label(storage.HOST, n) for n, cpu in sizes.items()))
        world.set(storage.storage_class(), storage.claim("data"))
        world.pod("ADDED", self.claiming(cpu))
        world.pause()

    def provisioned(self, world: ObserverWorld, node: str) -> None:
        selected = {"volume.kubernetes.io/selected-node": node}
        world.set(storage.claim("data", annotations=selected, version="2"))
        within = term(expression(storage.HOST, "In", node))
        world.set(storage.volume("made", claim="default/data", claim_uid="uid-data", within=within, version="3"))
        world.set(storage.claim("data", volume="made", annotations=selected | storage.BOUND, version="4"))

    def test_writes_for_a_failed_pod_are_reverted(self, world: ObserverWorld) -> None:
        """Seen at the binding, the volume allows one node alone; the decision was among two."""
        self.started(world)
        self.provisioned(world, "large")
        world.pod("MODIFIED", self.claiming().node("large"))
        world.pause()
        assert world.found == [("p", "large", AGREE)]
        (decision,) = spools.of(Decision, world.spool)
        assert (decision.path, decision.nodes_feasible) == (DecisionPath.SCORED, 2)
        objects = world.shared.objects
        assert [v.metadata.resource_version for v in objects.all(PersistentVolume)] == ["3"]
        assert [c.metadata.resource_version for c in objects.all(PersistentVolumeClaim)] == ["4"]

    def test_the_decision_was_taken_when_the_claim_was_written(self, world: ObserverWorld) -> None:
        """What was bound while the volume was made was not there yet, however long that took."""
        self.started(world)
        world.set(storage.claim("data", annotations=SELECTED, version="2"))
        world.pod("ADDED", waiting("q", "7"))
        world.pod("MODIFIED", waiting("q", "7").node("large"))
        world.pause()
        self.provisioned(world, "large")
        world.pod("MODIFIED", self.claiming().node("large"))
        world.pause()
        assert world.found[-1] == ("p", "large", Reconstruction(Agreement.AGREE, None, -1))

    def test_pod_with_a_volume_in_creation_counts_on_the_selected_node(self, world: ObserverWorld) -> None:
        """Pod p took large long before its binding is seen, so q had to go to small."""
        self.started(world, cpu="7")
        world.set(storage.claim("data", annotations=SELECTED, version="2"))
        world.pause()
        world.pod("ADDED", waiting("q", "2"))
        world.pod("MODIFIED", waiting("q", "2").node("small"))
        world.pause()
        world.pod("MODIFIED", self.claiming("7").node("large"))
        world.pause()
        assert world.found == [("q", "small", AGREE), ("p", "large", Reconstruction(Agreement.AGREE, None, -1))]
        assert [int(n) for n in world.shared.cache.columns.requested("cpu")[:2]] == [2000, 7000]

    def test_its_claim_may_be_seen_after_a_binding_that_was_decided_later(self, world: ObserverWorld) -> None:
        """The volume of p takes longer than the window, so only its claim, not its binding, explains q's node."""
        self.started(world, cpu="7")
        world.pod("ADDED", waiting("q", "2"))
        world.pod("MODIFIED", waiting("q", "2").node("small"))
        world.set(storage.claim("data", annotations=SELECTED, version="2"))
        world.pause()
        assert world.found == [("q", "small", Reconstruction(Agreement.IN_WINDOW, None, 1))]

    def test_writes_for_a_shared_claim_are_kept(self, world: ObserverWorld) -> None:
        """The claim of p selected large. Pod q came later, when large was full: earlier states do not matter to it."""
        self.started(world)
        world.set(storage.claim("data", annotations=SELECTED, version="2"))
        world.pause()
        other = waiting("q", "2").with_spec(volumes=self.claiming().spec["volumes"])
        for pod in (waiting("r", "7"), other):
            world.pod("ADDED", pod)
        world.pod("MODIFIED", waiting("r", "7").node("large"))
        world.pause()
        world.pod("MODIFIED", other.node("small"))
        world.pause()
        name, node, found = world.found[-1]
        assert (name, node, found and found.in_flight) == ("q", "small", 0)

    @pytest.mark.parametrize(
        "how",
        [
            pytest.param(lambda world, p: world.set(storage.claim("data", version="3")), id="the node is taken back"),
            pytest.param(lambda world, p: world.pod("MODIFIED", rejected(p, "no room")), id="the pod is rejected"),
            pytest.param(lambda world, p: world.pod("DELETED", p), id="the pod goes"),
        ],
    )
    def test_it_counts_there_no_longer_than_that(
        self, world: ObserverWorld, how: Callable[[ObserverWorld, PodBuilder], None]
    ) -> None:
        self.started(world, cpu="7")
        world.set(storage.claim("data", annotations=SELECTED, version="2"))
        world.pause()
        how(world, self.claiming("7"))
        world.pause()
        assert [int(n) for n in world.shared.cache.columns.requested("cpu")[:2]] == [0, 0]

    @pytest.mark.parametrize(
        "before", [pytest.param(True, id="the pod first"), pytest.param(False, id="the claim first")]
    )
    def test_immediate_binding_is_left_to_the_controller(self, world: ObserverWorld, before: bool) -> None:
        """The claim was bound by its controller before the pod was decided, which it had to be."""
        world.start(*(make_node(n).label(storage.HOST, n) for n in ("small", "large")))
        world.set(storage.storage_class(mode=storage.IMMEDIATE), storage.claim("data"))
        if before:
            world.pod("ADDED", self.claiming())
        within = term(expression(storage.HOST, "In", "small"))
        world.set(storage.volume("made", claim="default/data", claim_uid="uid-data", within=within, version="2"))
        world.set(storage.claim("data", volume="made", version="3"))
        world.pause()
        if not before:
            world.pod("ADDED", self.claiming())
        world.pod("MODIFIED", self.claiming().node("small"))
        world.pause()
        assert world.found == [("p", "small", AGREE)]

    def test_writes_of_another_process_are_kept(self, world: ObserverWorld) -> None:
        """A watch that was interrupted shows it bound at once; its successor is bound where its volume is."""
        sizes = {"small": "2", "large": "8"}
        world.start(*(make_node(n).allocatable(cpu=cpu).label(storage.HOST, n) for n, cpu in sizes.items()))
        world.set(storage.storage_class(), storage.claim("data"))
        self.provisioned(world, "small")
        first, second = (waiting(n).with_spec(volumes=self.claiming().spec["volumes"]) for n in ("data-0", "data-1"))
        world.pod("ADDED", first.node("small"))
        world.pause()
        world.pod("DELETED", first)
        world.pod("ADDED", second)
        world.pause()
        world.pod("MODIFIED", second.node("small"))
        world.pause()
        assert world.found == [("data-1", "small", AGREE)]

    def test_the_next_pod_finds_the_claim_as_it_is(self, world: ObserverWorld) -> None:
        self.started(world)
        self.provisioned(world, "large")
        world.pod("MODIFIED", self.claiming().node("large"))
        other = make_pod("q").with_spec(volumes=self.claiming().spec["volumes"])
        world.pod("ADDED", other)
        world.pod("MODIFIED", other.node("large"))
        world.pause()
        last = spools.of(Decision, world.spool)[-1]
        assert (last.pod.name, last.path, last.nodes_feasible) == ("q", DecisionPath.ONLY_FEASIBLE, 1)


class TestRejected:
    FULL = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims."

    def test_no_node_and_none_that_fits_agree(self, world: ObserverWorld) -> None:
        world.start(SMALL)
        world.pod("ADDED", waiting(cpu="3"))
        world.pod("MODIFIED", rejected(waiting(cpu="3"), self.FULL))
        world.pause()
        assert world.found == [("p", None, AGREE)]
        (decision,) = spools.of(Decision, world.spool)
        assert (decision.message, decision.path, decision.final) == (self.FULL, DecisionPath.NONE, True)
        assert [(s.changes[0].code, s.is_checked) for s in decision.suggestions] == [
            ("set-request", True),
            ("add-node", False),
        ]
        assert any(
            mark.startswith("the evaluation gives another message: 0/1 nodes")
            for mark in notes.format_decision_notes(decision)
        )

    def test_an_unchanged_condition_is_no_new_attempt(self, world: ObserverWorld) -> None:
        world.start(SMALL)
        world.pod("ADDED", waiting(cpu="3"))
        world.pod("MODIFIED", rejected(waiting(cpu="3"), self.FULL))
        world.pod("MODIFIED", rejected(waiting(cpu="3"), self.FULL).label("touched", "yes"))
        world.pause()
        world.pod("MODIFIED", rejected(waiting(cpu="3"), "0/2 nodes are available"))
        world.pause()
        assert [d.key.attempt for d in spools.of(Decision, world.spool)] == [1, 2]

    def test_equal_attempts_within_a_second_are_counted_on_their_record(self, world: ObserverWorld) -> None:
        """As by the scheduler's recorder. The count is written without a further attempt."""
        recorder = world.observer._recorder
        recorder._now_us = lambda: round(world.now * 1e6)
        world.start(SMALL)
        world.observer._window = ReorderWindow(0.0)
        for _ in range(5):
            world.pod("ADDED", waiting(cpu="3"))
            world.pod("MODIFIED", rejected(waiting(cpu="3"), self.FULL))
            world.pod("DELETED", waiting(cpu="3"))
        recorder._checked_s = float("-inf")
        world.pause()
        assert (len(spools.of(Decision, world.spool)), recorder.repeated) == (1, 4)
        assert [(o.phase, o.repeats) for o in spools.of(Outcome, world.spool)] == [(REPEATS_PHASE, 4)]

    def test_a_node_that_fits_makes_it_a_disagreement(self, world: ObserverWorld) -> None:
        world.start(SMALL)
        world.pod("ADDED", waiting())
        world.pod("MODIFIED", rejected(waiting(), self.FULL))
        world.pause()
        assert world.found == [("p", None, Reconstruction(Agreement.DISAGREE, Cause.STALE_VIEW))]
        (decision,) = spools.of(Decision, world.spool)
        assert format_headline(decision, spools.table(world.spool)) == (
            f"By {PROFILE}: {self.FULL} The evaluation finds 1 feasible node, small the best: it must have seen another"
            " state of the cluster."
        )


CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: {PROFILE}}}]
"""
SCORE_ONLY_MINE = CONFIG.replace("}]", ", plugins: {score: {enabled: [{name: Mine, weight: 5}]}}}]")
EXTENDED = CONFIG + "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]\n"


@pytest.mark.parametrize(
    ("config", "node", "cause"),
    [
        pytest.param(SCORE_ONLY_MINE, "small", Cause.UNKNOWN_PLUGIN, id="a plugin that is not known"),
        pytest.param(EXTENDED, "small", Cause.EXTENDERS, id="extenders"),
        pytest.param(CONFIG, "small", Cause.UNEXPLAINED, id="a worse node"),
        pytest.param(CONFIG, "full", Cause.STALE_VIEW, id="a node that does not fit"),
        pytest.param(CONFIG, "gone", Cause.STALE_VIEW, id="a node that is not there"),
    ],
)
def test_a_disagreement_has_its_cause(tmp_path: Path, config: str, node: str, cause: Cause) -> None:
    world = ObserverWorld(tmp_path / "spool", parse_config(config))
    world.start(SMALL, LARGE, make_node("full").allocatable(cpu="500m"))
    world.pod("ADDED", waiting())
    world.pod("MODIFIED", waiting().node(node))
    world.pause()
    assert [r for _, _, r in world.found] == [Reconstruction(Agreement.DISAGREE, cause)]
    exposition = generate_latest(world.metrics.registry).decode()
    assert f'agreement="disagree",cause="{cause.value}",scheduler="{PROFILE}"' in exposition


def test_sampling_explains_what_may_have_been_left_out(tmp_path: Path) -> None:
    """Of 200 nodes that fit 100 are looked at: 100 better ones may have been left out, 101 may not."""
    for better, cause in ((100, Cause.SAMPLING), (101, Cause.UNEXPLAINED)):
        world = ObserverWorld(tmp_path / str(better), parse_config(CONFIG + "percentageOfNodesToScore: 50\n"))
        nodes = [make_node(f"n{i}").allocatable(cpu="8" if i < better else "2") for i in range(200)]
        world.start(*nodes)
        world.pod("ADDED", waiting())
        world.pod("MODIFIED", waiting().node("n199"))
        world.pause()
        assert [r for _, _, r in world.found] == [Reconstruction(Agreement.DISAGREE, cause)]


def test_an_interrupted_watch_is_not_judged(world: ObserverWorld) -> None:
    world.start(SMALL, LARGE, pods=(waiting(),))
    world.observer.inbox.put(ListResult(PODS, [waiting().node("small").obj()]))
    world.observer.step(0.0)
    world.pause()
    assert world.found == [("p", "small", Reconstruction(Agreement.UNKNOWN, Cause.NOT_WATCHED))]


def test_worse_node_is_reported_with_its_score_difference(world: ObserverWorld) -> None:
    world.start(SMALL, LARGE)
    world.pod("ADDED", waiting())
    world.pod("MODIFIED", waiting().node("small"))
    world.pause()
    (decision,) = spools.of(Decision, world.spool)
    said = format_headline(decision, spools.table(world.spool))
    assert said.startswith(f"On small, by {PROFILE}. The evaluation puts large ")
    assert "NodeResourcesFit +" in said
    assert said.endswith(": nothing on record explains it, unless its configuration is not the observer's (--config).")


MIB = 1 << 20


@pytest.mark.parametrize(
    ("had", "cause"),
    [
        pytest.param(8, Cause.IMAGE_COUNTS, id="as many as made it the best had the image when the node last changed"),
        pytest.param(0, Cause.UNEXPLAINED, id="no more than now had it"),
    ],
)
def test_a_stale_count_of_an_image_is_a_cause(tmp_path: Path, had: int, cause: Cause) -> None:
    """`small` has the image and did not change while other nodes that had it were replaced by nodes without it."""
    world = ObserverWorld(tmp_path / "spool")
    small = make_node("small").allocatable(cpu="100", memory="100Gi").image(900 * MIB, "db:1")
    large = make_node("large").allocatable(cpu="120", memory="120Gi")
    others = [make_node(f"o{i}").allocatable(cpu="1m") for i in range(8)]
    for other in others[:had]:
        other.image(900 * MIB, "db:1")
    world.start(small, large, *others)
    for other in others:
        world.node("DELETED", other)
    for i in range(8):
        world.node("ADDED", make_node(f"e{i}").allocatable(cpu="1m"))
    world.pause()
    world.pause()
    pod = make_pod("p").image("db:1").request(cpu="50", memory="50Gi")
    profile = world.observer.frameworks[PROFILE].profile
    fewest, most = world.observer._image_counts.points(profile, pod.info(), world.shared.cache.columns)
    slot = world.shared.cache.columns.index["small"]
    assert (fewest[slot], most[slot]) == (3, 39 if had else 3)  # of ten nodes one has the image, nine had
    world.pod("ADDED", pod)
    world.pod("MODIFIED", make_pod("p").image("db:1").request(cpu="50", memory="50Gi").node("small"))
    world.pause()
    world.pause()
    assert [r for _, _, r in world.found] == [Reconstruction(Agreement.DISAGREE, cause)]


EQUAL = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {PROFILE}
"""
UNSPREAD = EQUAL + "  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: []}}]\n"


@pytest.mark.parametrize(
    ("config", "between_s", "agreement", "cause"),
    [
        pytest.param(UNSPREAD, 0.05, Agreement.DISAGREE, Cause.BATCHING, id="the next node of the ranking"),
        pytest.param(EQUAL, 0.05, Agreement.IN_WINDOW, None, id="never with default spreading"),
        pytest.param(UNSPREAD, 5.0, Agreement.DISAGREE, Cause.UNEXPLAINED, id="the ranking is too old"),
    ],
)
def test_a_node_of_an_equal_pods_ranking_is_a_cause(
    tmp_path: Path, config: str, between_s: float, agreement: Agreement, cause: Cause | None
) -> None:
    """`best` is full with the first pod. The ranking of then has `second` next; meanwhile `third` became the better."""

    def pod(name: str) -> PodBuilder:
        return make_pod(name).request(cpu="1").label("app", "web")

    world = ObserverWorld(tmp_path / "spool", parse_config(config))
    filler = make_pod("filler").request(cpu="3500m").node("third").scheduler("another")
    nodes = [make_node("best").allocatable(cpu="8", pods="1"), make_node("second").allocatable(cpu="4")]
    world.start(*nodes, make_node("third").allocatable(cpu="6"), pods=(filler,))
    world.pod("ADDED", pod("p"))
    world.pod("MODIFIED", pod("p").node("best"))
    world.pod("DELETED", filler)
    world.now += between_s
    world.pod("ADDED", pod("q"))
    world.pod("MODIFIED", pod("q").node("second"))
    world.pause()
    world.pause()
    (_, _, first), (_, node, second) = world.found
    assert first is not None
    assert second is not None
    assert (first.agreement, node) == (Agreement.AGREE, "second")
    assert (second.agreement, second.cause) == (agreement, cause)
