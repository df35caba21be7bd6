"""What reviews (`scheduler.reviews`) cost the loop: its steps without any, and with one review after the other.

A step is a pod's whole way through the loop's thread: what came in, its cycle, its record, its place; in a dry run, so
that nobody is waited for. Counted is the thread's processor time, with what the kernel does for it: copying page tables
at a fork, and pages that are written while the copy lives. The loop's state is that of `mixed`.
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
from herodotus_record import codec
from herodotus_record.templates import template_of
from scheduler.config import Configuration, build_profile
from scheduler.eventhandlers import NODES, PODS
from scheduler.framework.runtime import Framework
from scheduler.handle import ApiHandle
from scheduler.kube.watch import Changed, Listed
from scheduler.loop import Loop
from scheduler.metrics import Metrics
from scheduler.objects.types import Node, Pod
from scheduler.plugins import IN_TREE
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from scheduler.reviews.copies import Copies
from scheduler.reviews.placing import Origin, place
from scheduler.reviews.pods import pods_of
from scheduler.shared import Shared
from scheduler.writes import NoWrites

STEPS: Final = 400  # of each kind in a round
SEED: Final = 1


@dataclass(frozen=True)
class Steps:
    """Processor time of the loop's steps."""

    seconds: list[float]

    def ms(self, share: float) -> float:
        """A percentile."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))] * 1000


@dataclass(frozen=True)
class Measured:
    """`reviews_s`: from question to frames, of one pod and of `replicas`."""

    alone: Steps
    reviewed: Steps
    reviews_s: list[float]


def measure(nodes: int, pods: int, replicas: int, rounds: int) -> Measured:
    """Steps without and with reviews, in turn."""
    with tempfile.TemporaryDirectory() as directory:
        rig = _Rig(Path(directory), nodes, pods)
        alone, reviewed, reviews = Steps([]), Steps([]), list[float]()
        rig.steps(STEPS)  # templates become known
        for _ in range(rounds):
            alone.seconds.extend(rig.steps(STEPS))
            over = threading.Event()
            asker = threading.Thread(target=rig.review, args=(replicas, over, reviews))
            asker.start()
            reviewed.seconds.extend(rig.steps(STEPS))
            over.set()
            while asker.is_alive():  # it may still wait for a copy
                rig.loop.step(0.01)
        rig.loop.binder.close()
        return Measured(alone, reviewed, reviews)


class _Rig:
    def __init__(self, spool: Path, nodes: int, pods: int) -> None:
        self.shared = Shared()
        profile = build_profile(Configuration(), 0, IN_TREE, ApiHandle(self.shared, preempts=True, evicts=False))
        self.framework = Framework(profile, time.monotonic, (), self.shared.nominator)
        self.loop = Loop(
            {profile.scheduler_name: self.framework},
            Recorder(lambda incarnation: Spool(spool, incarnation, 8 << 30), "bench", "bench", "0"),
            NoWrites(),
            self.shared,
            {},
            Metrics(),
            binding_threads=1,
            dry_run=True,
        )
        made: dict[str, list[Any]] = {"Node": [], "Pod": []}
        for content in mixed.objects(nodes, pods):
            if content["kind"] in made:
                made[content["kind"]].append(content)
        self.loop.inbox.put(Listed(NODES, [msgspec.convert(n, Node) for n in made["Node"]]))
        self.loop.inbox.put(Listed(PODS, [msgspec.convert(p, Pod) for p in made["Pod"]]))
        self.loop.step(0.0)
        gc.collect()
        gc.freeze()  # as `run` does
        self._pods = self._endless()
        self._template = next(iter(mixed.waiting().values()))

    def _endless(self) -> Iterator[Pod]:
        shapes = [content for name, content in mixed.waiting().items() if "claim" not in name and "volume" not in name]
        for number in itertools.count():
            content = dict(shapes[number % len(shapes)])
            name = f"waiting-{number}"
            metadata = content["metadata"] | {"name": name, "namespace": "default", "uid": name}
            spec = content["spec"] | {"schedulerName": self.framework.profile.scheduler_name}
            yield msgspec.convert(content | {"metadata": metadata, "spec": spec}, Pod)

    def steps(self, count: int) -> list[float]:
        """Processor seconds of so many steps, each with a pod that came just before."""
        taken = []
        for pod in itertools.islice(self._pods, count):
            self.loop.inbox.put(Changed(PODS, "ADDED", pod))
            started = time.thread_time()
            self.loop.step(0.0)
            taken.append(time.thread_time() - started)
        return taken

    def review(self, replicas: int, over: threading.Event, seconds: list[float]) -> None:
        """One after the other until it is over."""
        copies, origin = Copies(self.loop), Origin("bench", "bench")
        template = template_of({"kind": "Pod"} | self._template)
        asked = pods_of(template, "default", self.framework.profile.scheduler_name, replicas, {})
        columns = self.shared.cache.columns

        def placed() -> bytes:
            return b"".join(map(codec.encode, place(self.framework, columns, asked, origin, SEED)))

        while not over.is_set():
            started = time.perf_counter()
            copies.run(placed, 60.0)
            seconds.append(time.perf_counter() - started)
