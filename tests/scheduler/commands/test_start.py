"""What a scheduler has imported when it decides its first pod, and its shipper: more would only make them late.

Its garbage collections leave out what was imported, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from herodotus_sim import SimulatedCluster
from tests.processes import PATIENCE_S, ROOT
from tests.sim.client import a_pod

HEAVY = {
    "kubernetes",  # its `__init__`: the whole package, and whatever validators of JSON schemas there are, for a second
    "kubernetes.client.models.v1_pod",
    "kubernetes.dynamic",
    "jsonschema",
    "kubernetes_validate",
    "flask",
    "sqlalchemy",
    "rich",  # httpx's own command line, with click and pygments
    "pygments",
    "scheduler.engine.whatif.changes",  # answers to questions, which come later or never
    "scheduler.reviews.trials",
    "herodotus_answers.placement_review",
}
RUN = """
import json, os, sys
from scheduler.commands import main
from scheduler.live import loop

def first(*_):
    print(json.dumps(sorted(sys.modules)), flush=True)
    os._exit(0)

loop.schedule = first
main.main(sys.argv[1:])
"""


def test_nothing_heavy_is_imported_before_the_first_cycle(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}
    with SimulatedCluster([node, a_pod("web", schedulerName="herodotus-scheduler")]) as cluster:
        kubeconfig = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        options = ["--kubeconfig", str(kubeconfig), "--spool", str(tmp_path / "spool"), "--secure-port", "0"]
        run = subprocess.run(
            [sys.executable, "-c", RUN, "run", *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
    imported = set(json.loads(run.stdout))
    assert "scheduler.engine.framework.runtime" in imported
    assert imported & HEAVY == set()
    others = {name for name in imported if name.startswith("scheduler.offline.")}
    others |= imported & {f"scheduler.commands.{name}" for name in ("import_trace", "observe", "read_log", "snapshot")}
    assert others == {"scheduler.offline.traces"}, "only the package, for the error that `main` reports"


def test_the_shipper_imports_nothing_of_scheduling() -> None:
    code = "import json, sys, scheduler.commands.ship; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    imported = set(json.loads(run.stdout))
    assert imported & HEAVY == set()
    ours = {name for name in imported if name.startswith("scheduler.")}
    assert {name for name in ours if not name.startswith("scheduler.recorder")} == {
        "scheduler.commands",
        "scheduler.commands.ship",
    }


def test_garbage_collections_leave_out_imported_objects() -> None:
    code = (
        "import gc, sys; from herodotus_serving.programs import run_scheduler; sys.argv = ['', 'run', '--help']\n"
        "try:\n    run_scheduler()\n"
        "except SystemExit:\n    print(gc.isenabled(), gc.get_freeze_count() > 10 * gc.get_count()[0])"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "True True"
