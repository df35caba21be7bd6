"""A decisions service whose records hold canaries, for the tests of what readers are shown."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_endpoint.resources import CLUSTER as CLUSTER_RESOURCE
from herodotus_endpoint.resources import CLUSTER_REVIEW, RESOURCES
from herodotus_endpoint.store import Pruner, RetentionLimits
from herodotus_record import codec
from herodotus_record.codec.deltas import DeltaWriter
from herodotus_record.discloses import Discloses
from herodotus_record.model import (
    NODE_GROUPS_PHASE,
    Code,
    Decision,
    Frame,
    Gap,
    Outcome,
    Owner,
    PluginVerdict,
    Reason,
    Source,
    Verdict,
)
from herodotus_serving import logs
from tests.builders import CLUSTER, CORDONED, INCARNATION, INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.access.canaries import (
    HIDDEN_NAMESPACE,
    MARK,
    NODES,
    SHOWN,
    Plantation,
)
from tests.endpoint.reviewer import Reviewer
from tests.endpoint.service import Service, a_service, rows

OTHER_CLUSTER = "00000000-0000-4000-8000-00000000d2d2"
LOG = "of-a-log"
DAY_S = 86_400
WORKERS = ("worker-1", "worker-2")
OLD_US = MONDAY_US - 10 * DAY_S * 1_000_000
FULL = {node: {"NodeAffinity": CORDONED, "NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}
SOME = {NODES[2]: {"NodeAffinity": INSUFFICIENT_CPU}}
OWNER = Owner("ReplicaSet", "plain")
PRE_FILTERED = (PluginVerdict("VolumeBinding", Verdict(Code.UNSCHEDULABLE)),)
READERS = ("tenant", "outsider", "admin", "node-reader")
NAMESPACE_OF = {"outsider": "outside", "tenant": "shop", "node-reader": "outside", "admin": "shop"}


@dataclass
class Scene:
    """A service whose records hold canaries, and the log lines that the service wrote."""

    service: Service
    planted: Plantation
    decisions: list[Decision]
    log: list[str]
    folder: Path
    reviewed: dict[str, Decision]  # what a scheduler answers to a review, by namespace
    cluster: ClusterReviewStatus  # what it answers to a question about the cluster

    def decisions_in(self, namespace: str) -> list[Decision]:
        found = [d for d in self.decisions if d.pod.namespace == namespace and d.key.cluster == CLUSTER]
        return found or [d for d in self.decisions if d.pod.namespace == "outside"]

    def may_see(self, reader: str, word: str) -> bool:
        """Return whether the declaration of the text with this canary shows it to the reader."""
        if reader == "admin":
            return True
        canary = self.planted.known.get(word)
        if canary is None:  # as where a name is cut off
            return any(self.may_see(reader, whole) for whole in self.planted.known if whole.startswith(word))
        if canary.record.startswith("elsewhere"):
            return False
        if canary.discloses in SHOWN:
            # the outsider may read no record that has a canary in a node's name
            shown = {NAMESPACE_OF[reader]} | ({""} if reader == "tenant" else set())
            return reader == "node-reader" or canary.namespace in shown
        return canary.discloses is Discloses.THIS_POD and canary.namespace == NAMESPACE_OF[reader]


def records(planted: Plantation) -> Iterator[Frame]:
    """Yield the frames of all kinds of records, of a readable and a hidden namespace and of another cluster."""
    yield rows(a_table(NODES))
    yield rows(a_table(NODES), incarnation=LOG)
    yield rows(a_table(NODES), incarnation="elsewhere", cluster=OTHER_CLUSTER)
    number = itertools.count(1)
    for namespace, name in (("shop", ""), (HIDDEN_NAMESPACE, "hidden-")):
        for record, arguments in (
            ("rejected", {"rejected": FULL}),
            ("placed", {"rejected": SOME, "points": {NODES[1]: {"ImageLocality": 9}}}),
            ("failed", {"rejected": SOME}),
            ("pre-filtered", {"pre_filters": PRE_FILTERED}),
            ("seen", {"rejected": FULL}),
            ("pruned", {"rejected": FULL, "started_us": OLD_US}),
            ("pruned-placed", {"rejected": SOME, "started_us": OLD_US}),
        ):
            found = planted.decision(f"{name}{record}", namespace, sequence=next(number), **arguments)
            if record == "seen":
                found = replace(found, key=replace(found.key, source=Source.RECONSTRUCTED))
                yield found
                yield read_from_log(found)
                continue
            yield found
            if found.chosen is None:
                again = replace(found, id=f"{found.id}.again", sequence=next(number))
                yield replace(again, key=replace(again.key, attempt=2), notes=(), text_notes=())
            yield from outcomes(planted, found, number)
    table = a_table(WORKERS)
    plain = a_decision(pod="plain", namespace="outside", nodes=table.names, incarnation="outside", owner=OWNER)
    yield from (rows(table, incarnation="outside"), plain, bound(plain, table))
    yield a_decision(pod="plain", nodes=NODES, owner=OWNER, sequence=next(number))
    gpu = Verdict(Code.UNSCHEDULABLE, (Reason("insufficient", {"resource": "example.com/gpu"}),))
    no_gpu = {node: {"NodeResourcesFit": gpu} for node in NODES}
    yield a_decision(pod="plain-gpu", nodes=NODES, rejected=no_gpu, owner=OWNER, sequence=next(number))
    elsewhere = planted.decision(
        "elsewhere", "shop", rejected=FULL, sequence=1, incarnation="elsewhere", cluster=OTHER_CLUSTER
    )
    yield elsewhere
    gap = Gap(INCARNATION, next(number), 9_000, 9_000, "", MONDAY_US)
    yield planted.frame("gap", HIDDEN_NAMESPACE, gap)


def read_from_log(seen: Decision) -> Decision:
    """Return a record of the same attempt as the scheduler's log has it."""
    key = replace(seen.key, source=Source.LOGGED, incarnation=LOG, pod_uid=f"{seen.pod.namespace}/{seen.pod.name}")
    return replace(seen, id=f"{seen.id}.log", key=key, unknown=("key.podUID", "scores.raw"))


def outcomes(planted: Plantation, decision: Decision, number: Iterator[int]) -> Iterator[Outcome]:
    """Yield evictions as this version and as an earlier one records them, and the result of a placed decision."""
    record, namespace = f"{decision.id.removeprefix(f'{MARK}-')}-outcome", decision.pod.namespace
    if decision.chosen is None:
        base = bound(replace(decision, chosen=0), a_table(NODES), sequence=next(number), status=Code.ERROR)
        first = planted.frame(record, namespace, replace(base, phase="Evict", final=False))
        yield replace(first, phase="Evict", message="")
        yield replace(first, phase="Evict", reason=None, sequence=next(number))
        yield replace(first, phase=NODE_GROUPS_PHASE, message="", reason=None, sequence=next(number))
    else:
        status = Code.ERROR if "failed" in decision.id else Code.SUCCESS
        last = planted.frame(record, namespace, bound(decision, a_table(NODES), sequence=next(number), status=status))
        yield replace(last, phase="Bind", reason=None)


def allowed_rights() -> set[tuple[str, str, str, str]]:
    """Return the rights of the readers: of one namespace, of nodes and other facts without a namespace, and all.

    The tenant may also ask about the whole cluster.
    """
    found = {("admin", "get", "clusters", ""), ("tenant", "create", CLUSTER_REVIEW.plural, "")}
    found |= {*((user, "get", "/metrics", "") for user in ("node-reader", "admin"))}
    for kind in RESOURCES:
        for verb in ("get", "list", "watch", "create"):
            found |= {("admin", verb, kind.plural, namespace) for namespace in ("", "*")}
            if kind.namespaced:
                found |= {(user, verb, kind.plural, NAMESPACE_OF[user]) for user in ("outsider", "tenant")}
            elif (kind, verb) != (CLUSTER_RESOURCE, "get"):  # which opens the records of every other cluster
                found.add(("node-reader", verb, kind.plural, ""))
    return found


class _Lines(logging.Handler):
    """Keeps the log lines that the service writes at its default level."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(logs.FORMAT))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def open_scene(folder: Path, url: str = "") -> Iterator[Scene]:
    """Store the records through ingest, delta-encoded; those of ten days ago are pruned to summaries."""
    api = Reviewer(tokens={reader: (reader, "") for reader in READERS}, allowed=allowed_rights())
    service = a_service(folder, url=url, access=api.access())
    root, handler = logging.getLogger(), _Lines()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    planted = Plantation()
    frames = list(records(planted))
    now_s = service.clock.now_s
    for old in (True, False):
        service.clock.now_s = now_s - 10 * DAY_S if old else now_s
        send(service, [frame for frame in frames if old == is_old(frame)])
    pruned = Pruner(service.store, RetentionLimits(max_age_s=7 * DAY_S, unbounded=True)).prune()
    assert pruned.summarised
    full = {node: {"NodeAffinity": CORDONED} for node in WORKERS}
    answer = {name: planted.decision(f"review-{name}", name, WORKERS, rejected=full) for name in ("shop", "outside")}
    decisions = [frame for frame in frames if isinstance(frame, Decision)]
    about_cluster = planted.cluster_review("review-cluster", "shop")
    yield Scene(service, planted, decisions, handler.lines, folder, answer, about_cluster)
    service.store.close()
    root.removeHandler(handler)
    root.setLevel(level)


def is_old(frame: Frame) -> bool:
    """Return whether retention is to prune the frame; node tables are needed by it and by others."""
    at_us = frame.times.started_us if isinstance(frame, Decision) else getattr(frame, "at_us", OLD_US)
    return bool(at_us < MONDAY_US)


def send(service: Service, frames: list[Frame]) -> None:
    """Send the frames as a scheduler's shipper does: batches of one cluster, decisions as deltas."""
    by_cluster: dict[str, list[bytes]] = {}
    writers: dict[str, DeltaWriter] = {}
    cluster_of: dict[str, str] = {"elsewhere": OTHER_CLUSTER}
    for frame in frames:
        incarnation = frame.key.incarnation if isinstance(frame, Decision) else frame.incarnation
        cluster = cluster_of.get(incarnation, CLUSTER)
        writer = writers.setdefault(cluster, DeltaWriter())
        encoded = writer.encode(frame) if isinstance(frame, Decision) else codec.encode(frame)
        by_cluster.setdefault(cluster, []).append(encoded)
    for batch in by_cluster.values():
        answer = service.post(b"".join(batch))
        assert answer.status_code == 200, answer.text
