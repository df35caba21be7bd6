"""On random clusters our engine decides as the real kube-scheduler does.

PARITY_SEEDS (`1-40`), PARITY_PODS and PARITY_NODES make the run longer or larger (`make parity`). PARITY_GATES are
feature gates for every seed (`SchedulerAsyncPreemption=false`), or `flipped`. PARITY_CASES is a folder for the cases
that differ.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.engine.rules.feature_gates import parse_feature_gates
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.e2e.device_parity import DeviceParity
from tests.e2e.parity import Figures, Parity
from tests.e2e.real_cluster import run_api_server
from tests.e2e.real_scheduler import format_gates

NOT_FOUND = "NOT COMPARED WITH A REAL kube-scheduler: no kube-scheduler beside etcd and kube-apiserver"
PODS = int(os.environ.get("PARITY_PODS", "30"))
NODES = int(os.environ.get("PARITY_NODES", "0")) or None
# Every gate that both programs switch and that decides something, with the other value than its default.
FLIPPED = {
    "SchedulerAsyncPreemption": False,
    "SchedulerPopFromBackoffQ": False,
    "SchedulerAsyncAPICalls": True,
    "NominatedNodeNameForExpectation": False,
    "OpportunisticBatching": False,
    "TaintTolerationComparisonOperators": True,
    "MatchLabelKeysInPodTopologySpread": False,
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": False,
    "NodeDeclaredFeatures": False,
    "ExtendWebSocketsToKubelet": False,
    "RestartAllContainersOnContainerExits": False,
    "InPlacePodVerticalScalingInitContainers": False,
    "InPlacePodLevelResourcesVerticalScaling": False,
}
# The gates of devices, of which each seed with flipped gates turns some off.
DEVICE_GATES = (
    "DRAPrioritizedList",
    "DRAExtendedResource",
    "DRAConsumableCapacity",
    "DRAPartitionableDevices",
    "DRADeviceTaints",
    "DRADeviceBindingConditions",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
)
CASES = Path(os.environ["PARITY_CASES"]) if "PARITY_CASES" in os.environ else None


def runs() -> Iterator[tuple[int, dict[str, bool]]]:
    """Return the seeds and gates: by default two seeds that cover every feature, and one with the gates flipped.

    PARITY_SEEDS is `1-40`, `7`, or a comma-separated list.
    """
    gates = os.environ.get("PARITY_GATES", "")
    for part in os.environ.get("PARITY_SEEDS", "403,406").split(","):
        first, _, last = part.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            yield seed, FLIPPED if gates == "flipped" else parse_feature_gates(gates)
    if "PARITY_SEEDS" not in os.environ:
        yield 403, FLIPPED


def device_runs() -> Iterator[tuple[int, dict[str, bool]]]:
    """Return the seeds of `runs`; where gates are flipped, about half of the gates of devices are off."""
    for seed, gates in runs():
        if gates is not FLIPPED:
            yield seed, gates
            continue
        rng = random.Random(f"gates {seed}")
        flipped = {name: False for name in DEVICE_GATES if rng.random() < 0.5}
        if "DRAResourceClaimDeviceStatus" in flipped:
            dependent = ("DRADeviceBindingConditions", "DRAResourceClaimGranularStatusAuthorization")
            flipped |= dict.fromkeys(dependent, False)
        yield seed, flipped


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a control plane for this module."""
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip(NOT_FOUND)
    directory = tmp_path_factory.mktemp("parity")
    gates = "--feature-gates=TaintTolerationComparisonOperators=true"  # the API server accepts Lt and Gt
    with run_api_server(binaries, directory, gates) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def total() -> Iterator[list[Figures]]:
    """Collect the figures of every seed; print their sum at the end."""
    figures: list[Figures] = []
    yield figures
    print(f"\n{len(figures)} clusters: {sum(figures, Figures())}")


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "gates"), list(runs()), ids=lambda v: str(v) if isinstance(v, int) else format_gates(v)[:20]
)
def test_decisions_equal_those_of_kube_scheduler(
    real: Cluster, total: list[Figures], tmp_path: Path, seed: int, gates: dict[str, bool]
) -> None:
    binaries = control_plane.assets()
    assert binaries is not None
    parity = Parity(real, binaries / "kube-scheduler", tmp_path, seed, NODES, CASES, gates)
    try:
        for number in range(PODS):
            parity.decide(number)
        parity.compare_events()
    finally:
        parity.stop()
        total.append(parity.figures)
    print(parity.figures)
    assert not parity.figures.disagreements, "\n".join(parity.figures.disagreements[:20])


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "gates"), list(device_runs()), ids=lambda v: str(v) if isinstance(v, int) else format_gates(v)[:20]
)
def test_decisions_about_devices_equal_those_of_kube_scheduler(
    real: Cluster, total: list[Figures], tmp_path: Path, seed: int, gates: dict[str, bool]
) -> None:
    binaries = control_plane.assets()
    assert binaries is not None
    parity = DeviceParity(real, binaries / "kube-scheduler", tmp_path, seed, CASES, gates)
    try:
        for number in range(PODS):
            parity.decide(number)
    finally:
        parity.stop()
        total.append(parity.figures)
    print(parity.figures)
    assert not parity.figures.disagreements, "\n".join(parity.figures.disagreements[:20])
