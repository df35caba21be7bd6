"""Running simulated clusters, and a real kubectl."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from herodotus_sim import SimulatedCluster
from tests.sim.client import SimClient


@pytest.fixture
def serve() -> Iterator[Callable[..., SimClient]]:
    """Start clusters with settings of their own; all end with the test, threads included."""
    started: list[SimClient] = []

    def start(**settings: Any) -> SimClient:
        started.append(SimClient(SimulatedCluster(**settings).start()))
        return started[-1]

    yield start
    for api in started:
        for stream in api.streams:
            stream.close()
        api.sim.stop()
    assert [t.name for t in threading.enumerate() if t.name.startswith("sim-")] == []


@pytest.fixture
def api(serve: Callable[..., SimClient]) -> SimClient:
    return serve()


@pytest.fixture(params=["venv", "PATH"])
def make_kubectl(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[SimClient], Callable[..., str]]:
    """Return a function that runs a real kubectl on a cluster: the project's own, or the machine's."""
    own = str(Path(sys.executable).with_name("kubectl"))
    path = os.pathsep.join(p for p in os.get_exec_path() if p != str(Path(sys.executable).parent))
    program = shutil.which(own if request.param == "venv" else "kubectl", path=path)
    if program is None:
        pytest.skip(f"no kubectl in {'the virtual environment' if request.param == 'venv' else 'PATH'}")

    def for_api(api: SimClient) -> Callable[..., str]:
        config = api.sim.write_kubeconfig(tmp_path / "kubeconfig")
        environment = {"KUBECONFIG": str(config), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}

        def run(*arguments: str, stdin: str = "", code: int = 0) -> str:
            done = subprocess.run(
                [program, *arguments],
                input=stdin,
                env=environment,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            assert done.returncode == code, done.stderr
            return done.stdout if code == 0 else done.stderr

        return run

    return for_api


@pytest.fixture
def kubectl(api: SimClient, make_kubectl: Callable[[SimClient], Callable[..., str]]) -> Callable[..., str]:
    return make_kubectl(api)
