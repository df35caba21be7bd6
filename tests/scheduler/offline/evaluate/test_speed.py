"""The first pod after loading is no slower than the next ones: what plugins keep is built with the cluster."""

import time

import msgspec
import pytest

from scheduler.config import Configuration
from scheduler.engine.manifests.cluster import LoadedCluster, SourceManifest, load_cluster
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate.engine import Engine
from tests.scheduler.offline.evaluate.mixed_cluster import objects, pods_to_evaluate

LIMIT = 0.15  # of what loading takes: twice what is promised (50 ms) where it was measured; 0.03 and less are needed


@pytest.fixture(scope="module")
def loaded() -> tuple[LoadedCluster, float]:
    """Return the cluster, and the processor seconds of this thread that loading it took."""
    start = time.thread_time()
    cluster = load_cluster(SourceManifest("bench", content) for content in objects(1000, 20_000))
    return cluster, time.thread_time() - start


@pytest.mark.parametrize("shape", ["everything", "bound claim", "hard spread"])
def test_a_pod_on_a_thousand_nodes_with_twenty_thousand_pods(loaded: tuple[LoadedCluster, float], shape: str) -> None:
    cluster, loading_s = loaded
    engine = Engine(cluster, Configuration(), IN_TREE)
    pod = PodInfo(msgspec.convert(pods_to_evaluate()[shape], Pod))
    start = time.thread_time()
    engine.evaluate(pod)
    assert time.thread_time() - start < LIMIT * loading_s
