"""The invariants of bench/reliability hold after a short run of operations, faults and killed processes.

The longer run, with other seeds: `make reliability`. A violation names the seed and the history of the pod.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.reliability.disturbances import DISTURBANCES, STALLS
from bench.reliability.driver import RunSettings, run
from bench.reliability.system import ApiProcess, Election, RealApi, SimulatedApi, System
from tests.e2e import control_plane
from tests.e2e.conftest import NO_BINARIES

SEED = 36
OPERATIONS = {"simulated": 900, "real": 500}


def api_server(kind: str, directory: Path) -> ApiProcess:
    if kind == "simulated":
        return SimulatedApi(directory)
    binaries = control_plane.assets()
    if binaries is None:
        pytest.skip(NO_BINARIES)
    return RealApi(binaries, directory)


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simulated", pytest.param("real", marks=pytest.mark.e2e)])
def test_invariants_hold_through_stalls(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round of pods has one disturbance: the storage stalls, the Lease is taken, the leader is frozen or killed.

    The longer run is `make reliability-stalls`.
    """
    monkeypatch.setattr("bench.reliability.disturbances.STALL_S", (1.0, 6.0))
    api = api_server(kind, tmp_path)
    system = System(api, tmp_path, 2, Election())
    try:
        result = run(system, RunSettings(SEED, 0, rounds=len(STALLS)))
    finally:
        system.stop()
        api.stop()
    assert result.violations == [], f"seed {SEED}\n" + "\n".join(result.violations)
    assert set(result.operations_done) == {stall.name for stall in STALLS}
    assert result.bindings == result.pods >= 20 * len(STALLS)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["simulated", pytest.param("real", marks=pytest.mark.e2e)])
def test_invariants_hold_through_operations_and_faults(kind: str, tmp_path: Path) -> None:
    """Two replicas, the service and the shipper are killed and stopped; the simulated server injects faults as well."""
    api = api_server(kind, tmp_path)
    system = System(api, tmp_path, 2, Election())
    try:
        result = run(system, RunSettings(SEED, OPERATIONS[kind]))
    finally:
        system.stop()
        api.stop()
    assert result.violations == [], f"seed {SEED}\n" + "\n".join(result.violations)
    assert result.bindings > OPERATIONS[kind] / 4
    assert result.explained == 0  # nothing was lost, so that no gap had to explain it
    assert {d.name for d in DISTURBANCES if kind == "simulated" or not d.simulated} <= set(result.operations_done)
