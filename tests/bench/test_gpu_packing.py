"""The experiment of FGD: which pods arrive in which order, and how the allocation is read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.gpu_packing import AllocationWatcher, arrange, find_demand, measure
from scheduler.offline.simulate.fragmentation import TaskDemand
from scheduler.offline.traces.document import PodArrived
from scheduler.offline.traces.importing import GPU_MILLI, import_openb
from tests.scheduler.builders import make_pod

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},128000,262144,8,T4\n" for i in range(4))
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "".join(
    f"p{i},1000,1024,1,{milli},{models}\n" for i, (milli, models) in enumerate([(150, ""), (300, "T4|A10")] * 4)
)


@pytest.fixture
def lists(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    return nodes, pods


def test_every_listed_pod_arrives_before_drawn_ones_until_enough_is_requested(lists: tuple[Path, Path]) -> None:
    listed = [each for each in import_openb(*lists) if isinstance(each, PodArrived)]
    arrivals = arrange(listed, 10_400, random.Random(1))
    names = [each.pod.metadata.name.rpartition("-")[0] for each in arrivals]
    assert sorted(names[:8]) == sorted(each.pod.metadata.name for each in listed)
    assert len({each.pod.metadata.uid for each in arrivals}) == len(arrivals)
    assert 10_400 - 300 <= sum(find_demand(each).gpu_milli for each in arrivals) <= 10_400
    assert max(each.at_s for each in arrivals) < 60
    assert [each.at_s for each in arrivals] == sorted(each.at_s for each in arrivals)


def test_a_demand_has_the_models_that_a_pod_allows(lists: tuple[Path, Path]) -> None:
    listed = [each for each in import_openb(*lists) if isinstance(each, PodArrived)]
    assert [find_demand(each) for each in listed[:2]] == [
        TaskDemand(0.0, 1000, 150),
        TaskDemand(0.0, 1000, 300, ("A10", "T4")),
    ]


def test_the_allocation_is_the_mean_while_the_requested_percentage_rounds_to_it() -> None:
    watcher = AllocationWatcher(1000)
    for number, (milli, node) in enumerate([(500, "n"), (497, "n"), (4, ""), (200, "n")]):
        pod = make_pod(f"p{number}").request({GPU_MILLI: str(milli)}).info()
        watcher.arrived(0.0, pod)
        watcher.decided(0.0, pod, node)
    assert watcher.find_allocated(50) == 50
    assert watcher.find_allocated(100) == pytest.approx(99.7)  # after 99.7 and 100.1 percent


@pytest.mark.parametrize(
    "title",
    ["Random", "BestFit", "FGD", "FGD, equals drawn", "FGD, equals packed", "MostAllocated", "defaults of v1.36"],
)
def test_every_policy_runs_and_a_seed_determines_it(title: str, lists: tuple[Path, Path]) -> None:
    first = measure(*lists, title, 1)
    assert first == measure(*lists, title, 1)
    assert 0 < first[0] <= first[1] <= 100
