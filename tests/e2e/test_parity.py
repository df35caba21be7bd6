"""On random clusters our engine decides as the real kube-scheduler does, also where it emulates an older version.

PARITY_SEEDS (`1-40`), PARITY_PODS and PARITY_NODES make the run longer or larger (`make parity`). PARITY_GATES are
feature gates for every seed (`SchedulerAsyncPreemption=false`), or `flipped`. PARITY_EMULATED are versions that
kube-scheduler emulates (`1.33,1.34,1.35`). PARITY_CASES is a folder for the cases that differ.
"""

import os
import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scheduler.engine.rules.feature_gates import parse_feature_gates
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.e2e.device_parity import DeviceParity
from tests.e2e.parity import Figures, Parity
from tests.e2e.real_cluster import run_api_server
from tests.e2e.real_scheduler import GateSettings, format_gates

NOT_FOUND = "NOT COMPARED WITH A REAL kube-scheduler: no kube-scheduler beside etcd and kube-apiserver"
PODS = int(os.environ.get("PARITY_PODS", "30"))
FEW_PODS = int(os.environ.get("PARITY_PODS", "12"))  # where kube-scheduler emulates a version
NODES = int(os.environ.get("PARITY_NODES", "0")) or None
EMULATED = ("1.35", "1.34", "1.33")  # what kube-scheduler v1.36 emulates; the last with another API server
SMALL_SEED = 405  # 12 nodes, and 4 with devices
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
# Where these gates are off the API server drops pods' spec.resources and status.resources, which our engine counts.
LEFT_TO_API_SERVER = ("PodLevelResources", "InPlacePodLevelResourcesVerticalScaling")
CASES = Path(os.environ["PARITY_CASES"]) if "PARITY_CASES" in os.environ else None


def runs() -> Iterator[tuple[int, GateSettings]]:
    """Return the seeds with their settings.

    By default these are two seeds that cover every feature, one of them with the gates flipped too, and one seed for
    each emulated version. PARITY_SEEDS is `1-40`, `7`, or a comma-separated list.
    """
    gates = os.environ.get("PARITY_GATES", "")
    set_gates = FLIPPED if gates == "flipped" else parse_feature_gates(gates)
    for emulated in os.environ.get("PARITY_EMULATED", "").split(","):
        for part in os.environ.get("PARITY_SEEDS", "403,406").split(","):
            first, _, last = part.partition("-")
            for seed in range(int(first), int(last or first) + 1):
                yield seed, GateSettings(set_gates, emulated)
    if "PARITY_SEEDS" not in os.environ:
        yield 403, GateSettings(FLIPPED)
        yield from ((SMALL_SEED, GateSettings(emulated=version)) for version in EMULATED)


def device_runs() -> Iterator[tuple[int, GateSettings]]:
    """Return the seeds of `runs`; where gates are flipped, about half of the gates of devices are off."""
    for seed, settings in runs():
        if settings.gates is not FLIPPED:
            yield seed, settings
            continue
        rng = random.Random(f"gates {seed}")
        flipped = {name: False for name in DEVICE_GATES if rng.random() < 0.5}
        if "DRAResourceClaimDeviceStatus" in flipped:
            dependent = ("DRADeviceBindingConditions", "DRAResourceClaimGranularStatusAuthorization")
            flipped |= dict.fromkeys(dependent, False)
        yield seed, GateSettings(flipped)


def select_api_gates(settings: GateSettings) -> dict[str, bool]:
    """Return the feature gates of an API server for a kube-scheduler with these settings."""
    off = {name: False for name in LEFT_TO_API_SERVER if not settings.rules.enabled(name)}
    return {"TaintTolerationComparisonOperators": True, **off}  # it accepts Lt and Gt


def name_run(value: object) -> str:
    """Return a part of a test's name for its seed or its settings."""
    if isinstance(value, GateSettings):
        return value.emulated or format_gates(value.gates)[:20]
    return str(value)


class ApiServers:
    """The API server of the present test, which is replaced if a test needs one with other feature gates."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._binaries, self._directory = binaries, directory
        self._closing = ExitStack()
        self._running: tuple[dict[str, bool], Cluster] | None = None

    def serve(self, settings: GateSettings) -> Cluster:
        """Return a client of an API server for a kube-scheduler with these settings."""
        gates = select_api_gates(settings)
        if self._running is None or self._running[0] != gates:
            self.stop()
            folder = self._directory / uuid.uuid4().hex
            folder.mkdir()
            flag = f"--feature-gates={format_gates(gates)}"
            self._running = gates, self._closing.enter_context(run_api_server(self._binaries, folder, flag))
        return self._running[1]

    def stop(self) -> None:
        self._closing.close()


@pytest.fixture(scope="module")
def api_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServers]:
    """Run control planes for this module, one at a time."""
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip(NOT_FOUND)
    servers = ApiServers(binaries, tmp_path_factory.mktemp("parity"))
    yield servers
    servers.stop()


@pytest.fixture(scope="module")
def total() -> Iterator[list[Figures]]:
    """Collect the figures of every seed; print their sum at the end."""
    figures: list[Figures] = []
    yield figures
    print(f"\n{len(figures)} clusters: {sum(figures, Figures())}")


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "settings"), list(runs()), ids=name_run)
def test_decisions_equal_those_of_kube_scheduler(
    api_servers: ApiServers, total: list[Figures], tmp_path: Path, seed: int, settings: GateSettings
) -> None:
    binaries = control_plane.assets()
    assert binaries is not None
    parity = Parity(api_servers.serve(settings), binaries / "kube-scheduler", tmp_path, seed, NODES, CASES, settings)
    try:
        for number in range(FEW_PODS if settings.emulated else PODS):
            parity.decide(number)
        parity.compare_events()
    finally:
        parity.stop()
        total.append(parity.figures)
    print(parity.figures)
    assert not parity.figures.disagreements, "\n".join(parity.figures.disagreements[:20])


@pytest.mark.e2e
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "settings"), list(device_runs()), ids=name_run)
def test_decisions_about_devices_equal_those_of_kube_scheduler(
    api_servers: ApiServers, total: list[Figures], tmp_path: Path, seed: int, settings: GateSettings
) -> None:
    binaries = control_plane.assets()
    assert binaries is not None
    parity = DeviceParity(api_servers.serve(settings), binaries / "kube-scheduler", tmp_path, seed, CASES, settings)
    try:
        for number in range(FEW_PODS if settings.emulated else PODS):
            parity.decide(number)
    finally:
        parity.stop()
        total.append(parity.figures)
    print(parity.figures)
    assert not parity.figures.disagreements, "\n".join(parity.figures.disagreements[:20])
