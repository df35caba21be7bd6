"""Allocated GPUs of a list of pods that arrive in random order until more are requested than there are.

The experiment of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), section 6.2, on lists of openb, Alibaba's
trace of GPU clusters. The pods of a list arrive once, shuffled, then others drawn from the list, until they request
130 % of all GPUs. No pod ends, and a pod without a node is not tried again. Each run is a simulation of
`scheduler.offline.simulate`, with a plugin that keeps shares on single GPUs.

Owns: arrivals, policies, the measurement. Does not own: the simulation, the score FGD (`docs/examples`).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import to_builtins
from msgspec.structs import replace

from herodotus_record.units import pluralize
from scheduler.config import Configuration, parse_config
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import MAX_NODE_SCORE, Mask, Scores
from scheduler.engine.framework.plugin import Handle
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.registry import Registry, with_plugin
from scheduler.offline.simulate.fragmentation import TaskDemand
from scheduler.offline.simulate.gpu_shares import GpuChoices, GpuShares
from scheduler.offline.simulate.moments import list_frequent
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces.document import NodeAdded, PodArrived
from scheduler.offline.traces.importing import GPU_MILLI, MODEL_LABEL, import_openb

sys.path.append(str(Path(__file__).parents[1] / "docs/examples"))
from fragmentation_score import FragmentationScore

Json = dict[str, Any]

ARRIVED: Final = 1.3  # requested GPUs by all GPUs
MEASURED: Final = (100, 130)  # requested percentages at which the allocation is reported
FIRST_SEED: Final = 42
_MOST_CPU_MILLI: Final = 128_000  # of a node, in the authors' BestFit
_MOST_GPU_MILLI: Final = 8_000


class FirstOfEquals(GpuShares):
    """A policy that takes the first of equally good nodes, in the order in which the nodes joined.

    The authors' simulator orders the nodes at random at the start of a run and does so, where kube-scheduler draws.
    """

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Return the points, and 100 for the first of the best nodes alone."""
        points = np.where(feasible, np.minimum(raw, 99), 0)
        points[np.where(feasible, raw, -1).argmax()] = 100
        return points


class DrawnGpu(GpuShares):
    """The authors' Random: any node with room, and on it any GPU with room."""

    name = "DrawnGpu"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._random = random.Random(0)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return 0 for all nodes. A profile without scores would take the first node with room."""
        return np.zeros(nodes.slots, np.int64)

    def choose(self, pod: PodInfo, row: NodeColumns, choices: GpuChoices) -> int:
        """Return a choice that fits."""
        return int(self._random.choice(np.flatnonzero(choices.fits[0])))


class BestFit(GpuShares):
    """The authors' BestFit: the node with least cpu and GPUs left, and on it the GPU with least left."""

    name = "BestFit"

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return 100 for a node with nothing left, down to 0 for an empty one of the largest."""
        cpu = nodes.allocatable("cpu") - nodes.requested("cpu") - pod.requests.get("cpu", 0)
        gpu = nodes.allocatable(GPU_MILLI) - nodes.requested(GPU_MILLI) - self.requested(pod)
        left = cpu / _MOST_CPU_MILLI / 2 + gpu / _MOST_GPU_MILLI / 2
        return np.clip(100 * (1 - left), 0, 100).astype(np.int64)


class FirstBestFit(FirstOfEquals, BestFit):
    """BestFit with the authors' choice among equals."""

    name = "FirstBestFit"


class FirstFragmentationScore(FirstOfEquals, FragmentationScore):
    """FGD with the authors' choice among equals."""

    name = "FirstFragmentationScore"


REGISTRY: Final = Registry(
    with_plugin(each.name, each)
    for each in (GpuShares, DrawnGpu, BestFit, FirstBestFit, FragmentationScore, FirstFragmentationScore)
)
VERSIONS: Final = tuple(f"v1.{minor}.0" for minor in range(31, 38))


class PackingPolicy(NamedTuple):
    """A way to choose nodes: a plugin that places shares on GPUs, and what scores.

    `scores` are the plugins that score, None for the default ones; each decides between nodes that are equal to those
    before it. `plugin_config` and `version` are those of the configuration. `published` is the policy's name among the
    published figures.
    """

    plugin: str
    scores: tuple[str, ...] | None = None
    plugin_config: tuple[Json, ...] = ()
    version: str = ""
    published: str = ""


_MOST_ALLOCATED: Final[Json] = {
    "name": "NodeResourcesFit",
    "args": {
        "scoringStrategy": {
            "type": "MostAllocated",
            "resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU_MILLI)],
        }
    },
}
POLICIES: Final[Mapping[str, PackingPolicy]] = {
    "Random": PackingPolicy("DrawnGpu", ("DrawnGpu",), published="01-Random"),
    "BestFit": PackingPolicy("FirstBestFit", ("FirstBestFit",), published="05-BestFit"),
    "FGD": PackingPolicy("FirstFragmentationScore", ("FirstFragmentationScore",), published="06-FGD"),
    "BestFit, equals drawn": PackingPolicy("BestFit", ("BestFit",), published="05-BestFit"),
    "FGD, equals drawn": PackingPolicy("FragmentationScore", ("FragmentationScore",), published="06-FGD"),
    "FGD, equals packed": PackingPolicy(
        "FragmentationScore", ("FragmentationScore", "NodeResourcesFit"), (_MOST_ALLOCATED,), published="06-FGD"
    ),
    "MostAllocated": PackingPolicy("GpuShares", ("NodeResourcesFit",), (_MOST_ALLOCATED,)),
    **{f"defaults of {version[:5]}": PackingPolicy("GpuShares", version=version) for version in VERSIONS},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench gpu-packing`."""
    parser.add_argument("nodes", type=Path, help="openb_node_list_gpu_node.csv, perhaps gzipped")
    parser.add_argument("pods", type=Path, nargs="+", help="lists of pods, openb_pod_list_….csv, perhaps gzipped")
    parser.add_argument("--published", type=Path, help="JSON: figures by list and policy, to compare with")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="repeatable (default: all)")
    parser.add_argument("--seeds", type=int, default=10, help="shuffles (default 10)")
    parser.add_argument("--processes", type=int, default=1)


def run(arguments: argparse.Namespace) -> int:
    """Print the mean allocation of each list and policy, and return the exit code 0."""
    published: Json = json.loads(arguments.published.read_text()) if arguments.published else {}
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    print(f"Allocated GPUs in percent, mean of {pluralize(len(seeds), 'shuffle')} +- standard deviation")
    print(f"{'PODS':26}{'POLICY':26}" + "".join(f"{f'AT {at} %':>16}{'PUBLISHED':>11}{'DIFF':>7}" for at in MEASURED))
    with ProcessPoolExecutor(arguments.processes) as processes:
        for pods in arguments.pods:
            name = pods.name.partition(".")[0]
            for title in arguments.policy or POLICIES:
                runs = [*processes.map(partial(measure, arguments.nodes, pods, title), seeds)]
                figures = published.get(name, {}).get(POLICIES[title].published, {})
                cells = [
                    _format([each[i] for each in runs], figures.get(f"gpu_allocated_at_arrived_{at}%"))
                    for i, at in enumerate(MEASURED)
                ]
                print(f"{name.removeprefix('openb_pod_list_'):26}{title:26}" + "".join(cells), flush=True)
    return 0


def _format(values: Sequence[float], published: float | None) -> str:
    mean = statistics.mean(values)
    ours = f"{mean:.2f} +- {statistics.stdev(values) if len(values) > 1 else 0:.2f}"
    return f"{ours:>16}" + (f"{published:>11.2f}{mean - published:>+7.2f}" if published is not None else f"{'':18}")


def measure(nodes: Path, pods: Path, title: str, seed: int) -> list[float]:
    """Return the percentage of all GPUs that is allocated when `MEASURED` percent have been requested."""
    events = [*import_openb(nodes, pods)]
    joining = [each for each in events if isinstance(each, NodeAdded)]
    listed = [each for each in events if isinstance(each, PodArrived)]
    total = sum(int((each.node.status.allocatable or {}).get(GPU_MILLI, 0)) for each in joining)
    draw = random.Random(seed)
    draw.shuffle(joining)
    watcher = AllocationWatcher(total)
    TraceSimulation(build_config(POLICIES[title], listed), REGISTRY, seed).run(
        [*joining, *arrange(listed, ARRIVED * total, draw)], watcher, lambda _: None
    )
    return [watcher.find_allocated(at) for at in MEASURED]


def arrange(listed: Sequence[PodArrived], gpu_milli: float, draw: random.Random) -> list[PodArrived]:
    """Return the listed pods in random order, then others drawn from them; none of them ends.

    The first that would request more than `gpu_milli` in sum is the end. All arrive within a minute, because the
    scheduling queue would try pods without a node again after five.
    """
    pods = [PodInfo(each.pod) for each in listed]
    order = [*draw.sample(range(len(pods)), len(pods))]
    requested = sum(pod.requests.get(GPU_MILLI, 0) for pod in pods)
    while requested <= gpu_milli:
        order.append(draw.randrange(len(pods)))
        requested += pods[order[-1]].requests.get(GPU_MILLI, 0)
    arrivals = []
    for at, number in enumerate(order[:-1]):
        pod = pods[number].pod
        name = f"{pod.metadata.name}-{at}"
        arrivals.append(PodArrived(at / 1000, replace(pod, metadata=replace(pod.metadata, name=name, uid=name))))
    return arrivals


def build_config(policy: PackingPolicy, listed: Sequence[PodArrived]) -> Configuration:
    """Return the configuration of a policy. FGD gets the most frequent demands of the listed pods."""
    plugin: Json = {"enabled": [{"name": policy.plugin}]}
    points: Json = {"filter": plugin, "reserve": plugin, "postFilter": {"disabled": [{"name": "*"}]}}
    if policy.scores is not None:
        points["score"] = {"disabled": [{"name": "*"}], "enabled": weigh(policy.scores)}
    plugin_config = [*policy.plugin_config]
    if issubclass(REGISTRY[policy.plugin], FragmentationScore):
        tasks = [to_builtins(replace(each, share=share)) for each, share in list_frequent(map(find_demand, listed))]
        plugin_config.append({"name": policy.plugin, "args": {"tasks": tasks}})
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": points, "pluginConfig": plugin_config}],
        "kubernetesVersion": policy.version,
    }
    return parse_config(json.dumps(document), registry=REGISTRY)


def weigh(names: Sequence[str]) -> list[Json]:
    """Return score plugins with weights by which each decides only between nodes that are equal to those before it."""
    return [{"name": name, "weight": (MAX_NODE_SCORE + 1) ** (len(names) - 1 - i)} for i, name in enumerate(names)]


def find_demand(arrival: PodArrived) -> TaskDemand:
    """Return what a pod requests, as FGD counts it."""
    requests = PodInfo(arrival.pod).requests
    affinity = arrival.pod.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    models = {
        model
        for term in (required.node_selector_terms if required else None) or ()
        for each in term.match_expressions or ()
        if each.key == MODEL_LABEL
        for model in each.values or ()
    }
    return TaskDemand(0.0, requests.get("cpu", 0), requests.get(GPU_MILLI, 0), tuple(sorted(models)))


class AllocationWatcher:
    """Measures requested and allocated GPUs after each arrival. Implements `SimulationWatcher`."""

    def __init__(self, total_milli: int) -> None:
        self._total = total_milli
        self._requested = self._allocated = 0
        self._rows: list[tuple[float, float]] = []  # percentages after each arrival

    def advance(self, now_s: float, nodes: NodeColumns, waiting: int) -> None:
        """Do nothing: the allocation changes with decisions alone."""

    def arrived(self, now_s: float, pod: PodInfo) -> None:
        """Count what the pod requests."""
        self._requested += pod.requests.get(GPU_MILLI, 0)

    def decided(self, now_s: float, pod: PodInfo, node: str) -> None:
        """Count what the pod gets, if it gets a node."""
        self._allocated += pod.requests.get(GPU_MILLI, 0) if node else 0
        self._rows.append((100 * self._requested / self._total, 100 * self._allocated / self._total))

    def preempted(self, now_s: float, victim: PodInfo) -> None:
        """Raise RuntimeError: all pods have the same priority."""
        raise RuntimeError(f"{victim.full_name} was preempted")

    def find_allocated(self, requested: int) -> float:
        """Return the mean allocation while the requested percentage rounds to `requested`, as the authors do."""
        return statistics.mean(allocated for at, allocated in self._rows if round(at) == requested)
