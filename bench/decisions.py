"""Generates real decisions: the algorithm schedules pods of many templates on a large cluster that changes.

Owns: the mix of templates, the changes, the batches as a shipper sends them. Does not own: sending and measuring.

The mix: TEMPLATES pod templates in random order; one decision in twenty is for a pod that fits on no node; a node is
removed or added every NODE_EVERY decisions; every second bound pod ends, so that the cluster stays full.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from bench import manifests
from bench.manifests import HOST, ZONE
from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Code, Frame, Times
from herodotus_record.typed_decoding import convert
from scheduler.backend.cache import Cache
from scheduler.config import Configuration, build_profile
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import AttemptData, Origin
from scheduler.offline.evaluate import NoCluster
from scheduler.recorder.recorder import PhaseResult, Recorder
from scheduler.recorder.spool import Spool
from scheduler.recorder.spool_reader import list_incarnations

TEMPLATES: Final = 20
UNSCHEDULABLE: Final = 0.05
NODE_EVERY: Final = 500
BEFORE_PER_NODE: Final = 4  # earlier pods of other templates per node


def generate(folder: Path, decisions: int, nodes: int) -> list[Path]:
    """Schedule `decisions` pods on `nodes` nodes, and return files with the records as compressed batches.

    The files are in the order in which a shipper sends them.
    """
    spool = folder / "spool"
    _decide(spool, decisions, nodes, random.Random(1))
    files = []
    for number, batch in enumerate(_batches(spool)):
        files.append(folder / f"{number:06}.batch")
        files[-1].write_bytes(codec.compress(batch))
    return files


def read_batches(files: Iterable[Path]) -> Iterator[Iterator[tuple[Frame, deltas.EncodedFrame]]]:
    """Yield, for each batch, an iterator over its decoded frames, each with the encoded form that the store keeps."""
    for file in files:
        frames = codec.split_frames(codec.decompress(file.read_bytes(), 1 << 30))
        reader = deltas.DeltaReader()
        yield (reader.read(frame) for _, frame in frames)


def _decide(spool: Path, decisions: int, nodes: int, rng: random.Random) -> None:
    cache, alive, fresh = Cache(), [f"node-{i:05}" for i in range(nodes)], nodes
    for i in range(nodes):
        cache.set_node(convert(manifests.node(i), Node))
    for i in range(nodes * BEFORE_PER_NODE):
        cache.assume(_pod(f"before-{i}", rng.randrange(TEMPLATES)), alive[i % nodes])
    framework = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), time.monotonic)
    recorder = Recorder(lambda incarnation: Spool(spool, incarnation, 1 << 40), Origin("bench-cluster", "bench"), "0")
    placed: list[PodInfo] = []
    for i in range(decisions):
        if i % NODE_EVERY == NODE_EVERY - 1:
            if (i // NODE_EVERY) % 2:
                alive.append(f"node-{fresh:05}")
                cache.set_node(convert(manifests.node(fresh), Node))
                fresh += 1
            else:
                cache.remove_node(alive.pop(rng.randrange(len(alive))))
        template = -1 if rng.random() < UNSCHEDULABLE else rng.randrange(TEMPLATES)
        info = _pod(f"pod-{i}", template)
        snapshot = cache.snapshot()
        result = schedule(framework, info, snapshot, seed=i)
        started_us = time.time_ns() // 1000
        times = Times(started_us - 900, started_us - 500, started_us, dict(result.trace.phases_s), {"active": 0.0004})
        decision = recorder.record_decision(AttemptData(info, 1, "bench", snapshot, result, times, i))
        if result.chosen is None:
            continue
        name = cache.columns.names[result.chosen]
        cache.assume(info, name)
        bound = PhaseResult("Bind", Code.SUCCESS, name, duration_s=0.002, final=True)
        recorder.record_outcome(decision, bound)
        placed.append(info)
        if len(placed) % 2 == 0:
            cache.remove_pod(placed.pop(rng.randrange(len(placed))).uid)
    recorder.close()


def _batches(spool: Path) -> Iterator[bytes]:
    for incarnation in list_incarnations(spool):
        while batch := incarnation.next_batch():
            bases = incarnation.find_delta_bases(batch.frames)
            yield b"".join(deltas.insert_bases(bases, batch.frames))
            incarnation.acknowledge(batch, len(batch.frames))


def _pod(name: str, template: int) -> PodInfo:
    """Return a pod of template number `template`. Template -1 requests more than any node has."""
    requests = {"cpu": f"{50 + 25 * (template % 5)}m", "memory": f"{128 << template % 3}Mi"}
    if template < 0:
        requests = {"cpu": "64", "memory": "512Mi"}
    app, template_hash = f"app-{template}", f"{template + 1:05}"
    labels, own = {"app": app, "pod-template-hash": template_hash}, {"app": app}
    pod = manifests.pod(name, f"team-{template % 4}", labels, requests, _shape(template, own))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-{template_hash}", "uid": app}
    pod["metadata"] |= {"uid": f"uid-{name}", "ownerReferences": [owner | {"controller": True}]}
    return PodInfo(convert(pod, Pod))


def _shape(template: int, own: dict[str, str]) -> dict[str, Any]:
    """Return the additions to a pod's spec for one of eight shapes from scheduler_perf's families.

    `own` are the pod's labels to which its constraints refer.
    """
    return (
        {},
        manifests.node_affinity(key=ZONE, values=["zone-0", "zone-1"]),
        manifests.spread("DoNotSchedule", own),
        manifests.spread("ScheduleAnyway", own),
        manifests.pod_affinity("podAffinity", ZONE, own, required=True),
        manifests.pod_affinity("podAntiAffinity", HOST, own, required=True),
        manifests.pod_affinity("podAffinity", HOST, own, required=False),
        manifests.pod_affinity("podAntiAffinity", HOST, own, required=False),
    )[template % 8]
