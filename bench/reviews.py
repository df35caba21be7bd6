"""Measures what reviews (`scheduler.reviews`) cost the scheduling loop.

It alternates steps without reviews and steps during consecutive reviews. A step is a pod's complete way through the
loop's thread: the event, the cycle, the record, the assumed pod; in a dry run, so that no request is awaited. It counts
the thread's processor time, with the kernel's part: page tables copied at a fork, and pages written while the copy
exists. The loop's state is that of `mixed`.
"""

from __future__ import annotations

import gc
import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import mixed
from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record import codec
from herodotus_record.templates import parse_pod_template
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.backend.queue import SchedulingQueue
from scheduler.config import Configuration, build_profile
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import Origin
from scheduler.engine.whatif.placement import CopiedCluster, place
from scheduler.engine.whatif.pods import build_pods
from scheduler.live.bind_requests import BindRequests
from scheduler.live.loop import Loop, LoopOptions
from scheduler.live.metrics import SchedulerMetrics
from scheduler.live.plugin_handle import ApiHandle
from scheduler.live.scheduler import BackgroundThreads, Scheduler
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from scheduler.reviews.forked_copies import ForkedCopies, Report

STEPS: Final = 400  # steps of each kind per round
SEED: Final = 1


@dataclass(frozen=True)
class Steps:
    """Processor times of the loop's steps."""

    seconds: list[float]

    def ms(self, share: float) -> float:
        """Return a percentile in milliseconds."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))] * 1000


@dataclass(frozen=True)
class ReviewResult:
    """The loop's steps while no review runs (`alone`) and during reviews (`reviewed`), and each review's seconds.

    A review's time is from the question to the last frame of its answer.
    """

    alone: Steps
    reviewed: Steps
    reviews_s: list[float]


def measure(nodes: int, pods: int, replicas: int, rounds: int) -> ReviewResult:
    """Measure steps without and with reviews, in turn."""
    with tempfile.TemporaryDirectory() as directory:
        rig = _Rig(Path(directory), nodes, pods)
        alone, reviewed, reviews = Steps([]), Steps([]), list[float]()
        rig.steps(STEPS)  # Warm the caches of pod templates.
        for _ in range(rounds):
            alone.seconds.extend(rig.steps(STEPS))
            stop = threading.Event()
            asker = threading.Thread(target=rig.review, args=(replicas, stop, reviews))
            asker.start()
            reviewed.seconds.extend(rig.steps(STEPS))
            stop.set()
            while asker.is_alive():  # The thread may still wait for a forked copy.
                rig.loop.step(0.01)
        rig.loop.binder.close()
        return ReviewResult(alone, reviewed, reviews)


class _Rig:
    def __init__(self, spool: Path, nodes: int, pods: int) -> None:
        self.shared = ClusterState()
        profile = build_profile(Configuration(), 0, IN_TREE, ApiHandle(self.shared, preempts=True, evicts=False))
        self.framework = Framework(profile, time.monotonic, (), self.shared.nominator)
        recorder = Recorder(lambda incarnation: Spool(spool, incarnation, 8 << 30), Origin("bench", "bench"), "0")
        frameworks = {profile.scheduler_name: self.framework}
        scheduler = Scheduler(
            frameworks=frameworks,
            cluster=self.shared,
            queue=SchedulingQueue.for_profiles(frameworks),
            recorder=recorder,
            metrics=SchedulerMetrics(),
            requests=BindRequests(recorder),
            threads=BackgroundThreads(1),
        )
        self.loop = Loop(scheduler, LoopOptions(dry_run=True))
        made: dict[str, list[Any]] = {"Node": [], "Pod": []}
        for content in mixed.objects(nodes, pods):
            if content["kind"] in made:
                made[content["kind"]].append(content)
        self.loop.inbox.put(ListResult(NODES, [msgspec.convert(n, Node) for n in made["Node"]]))
        self.loop.inbox.put(ListResult(PODS, [msgspec.convert(p, Pod) for p in made["Pod"]]))
        self.loop.step(0.0)
        gc.collect()
        gc.freeze()  # as the scheduler's `run` does
        self._pods = self._endless()
        self._template = next(iter(mixed.pods_to_evaluate().values()))

    def _endless(self) -> Iterator[Pod]:
        shapes = [
            content
            for name, content in mixed.pods_to_evaluate().items()
            if "claim" not in name and "volume" not in name
        ]
        for number in itertools.count():
            content = dict(shapes[number % len(shapes)])
            name = f"waiting-{number}"
            metadata = content["metadata"] | {"name": name, "namespace": "default", "uid": name}
            spec = content["spec"] | {"schedulerName": self.framework.profile.scheduler_name}
            yield msgspec.convert(content | {"metadata": metadata, "spec": spec}, Pod)

    def steps(self, count: int) -> list[float]:
        """Schedule `count` new pods in a dry run and return the processor seconds of the loop's thread for each."""
        taken = []
        for pod in itertools.islice(self._pods, count):
            self.loop.inbox.put(WatchEvent(PODS, "ADDED", pod))
            started = time.thread_time()
            self.loop.step(0.0)
            taken.append(time.thread_time() - started)
        return taken

    def review(self, replicas: int, stop: threading.Event, seconds: list[float]) -> None:
        """Run reviews one after another until `stop` is set."""
        copies, origin = ForkedCopies(self.loop), Origin("bench", "bench")
        template = parse_pod_template({"kind": "Pod"} | self._template)
        pods = build_pods(template, "default", self.framework.profile.scheduler_name, replicas, {})
        columns = self.shared.cache.columns

        def placed(_report: Report) -> bytes:
            copy = CopiedCluster(columns, self.shared.objects)
            return b"".join(map(codec.encode, place(self.framework, copy, pods, origin, SEED)))

        while not stop.is_set():
            started = time.perf_counter()
            copies.run(placed, 60.0)
            seconds.append(time.perf_counter() - started)
