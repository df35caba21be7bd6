"""docs/examples/simulate-job.yaml: its pods together write the figures that one command with all seeds writes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from herodotus_sim import SimulatedCluster
from scheduler.offline.traces.document import write_trace
from scheduler.offline.traces.importing import GPU_MILLI, import_csv
from tests.cli.service import command
from tests.processes import ROOT, eventually

pq = pytest.importorskip("pyarrow.parquet")

Json = dict[str, Any]
EXAMPLES = ROOT / "docs/examples"
MANIFEST = EXAMPLES / "simulate-job.yaml"
PLUGIN = EXAMPLES / "fragmentation_score.py"
PODS = "/api/v1/namespaces/default/pods"
INDEX = "batch.kubernetes.io/job-completion-index"
SEEDS = 4
FIT = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]\n"
FGD = (
    "profiles: [{plugins: {multiPoint: {enabled: [{name: 'fragmentation_score:FragmentationScore', weight: 100}]}},"
    " pluginConfig: [{name: FragmentationScore, args: {tasks: [{share: 1.0, cpuMilli: 1000, gpuMilli: 500}]}}]}]\n"
)
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def write_volume(folder: Path, packed: str) -> None:
    """Write the files of the manifest's volume `traces`, with `packed` in packed.yaml."""
    folder.mkdir()
    (folder / "stock.yaml").write_text(HEAD)
    (folder / "packed.yaml").write_text(HEAD + packed)
    nodes, pods = folder / "nodes.csv", folder / "pods.csv"
    nodes.write_text(f"name,cpu,memory,{GPU_MILLI}\n" + "".join(f"n{i},4,16Gi,2000\n" for i in range(4)))
    pods.write_text(f"name,arrives_s,runs_s,cpu,{GPU_MILLI}\n" + "".join(f"p{i},{i},20,1,500\n" for i in range(12)))
    shutil.copy(PLUGIN, folder)
    write_trace(folder / "day.trace", import_csv(nodes, pods))


def run_container(pod: Json, volumes: dict[str, Path]) -> int:
    """Run the program of a pod's container, as a kubelet would, with its volumes in these folders."""
    (container,) = pod["spec"]["containers"]
    index = pod["metadata"]["labels"][INDEX]
    assert f"metadata.labels['{INDEX}']" in str(container["env"])
    words = [word.replace("$(JOB_COMPLETION_INDEX)", index) for word in container["args"]]
    for mount in container["volumeMounts"]:
        if mount["name"] in volumes:
            words = [word.replace(f"{mount['mountPath']}/", f"{volumes[mount['name']]}/") for word in words]
    path = next(each["value"] for each in container["env"] if each["name"] == "PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(volumes[path.strip("/")])
        patch.delitem(sys.modules, PLUGIN.stem, raising=False)
        return command(*words, "--processes", "1").code


def read_rows(*files: Path) -> list[Json]:
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(({**row, "configuration": Path(row["configuration"]).name} for row in rows), key=str)


@pytest.mark.parametrize("packed", [FIT, FGD], ids=["strategy", "plugin-of-the-user"])
def test_pods_of_the_job_write_the_figures_of_all_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str
) -> None:
    volumes = {name: tmp_path / name for name in ("traces", "results")}
    write_volume(volumes["traces"], packed)
    volumes["results"].mkdir()
    pods: list[Json] = []
    manifest = yaml.safe_load(MANIFEST.read_text())
    manifest["spec"] |= {"completions": SEEDS, "parallelism": 2}
    with SimulatedCluster(run_controllers=True) as sim, httpx.Client(base_url=sim.url) as http:
        assert http.post("/apis/batch/v1/namespaces/default/jobs", json=manifest).status_code == 201

        def run_next() -> bool:
            """Run the pods that wait; return whether the Job is complete."""
            pods[:] = http.get(PODS).json()["items"]
            for pod in pods:
                if pod["status"]["phase"] == "Pending":
                    phase = "Failed" if run_container(pod, volumes) else "Succeeded"
                    path = f"{PODS}/{pod['metadata']['name']}/status"
                    headers = {"Content-Type": "application/merge-patch+json"}
                    assert http.patch(path, json={"status": {"phase": phase}}, headers=headers).status_code == 200
            job = http.get("/apis/batch/v1/namespaces/default/jobs/simulate").json()
            assert not job["status"].get("failed")
            return any(each["type"] == "Complete" for each in job["status"].get("conditions") or ())

        eventually(run_next, "the Job to be complete")
    parts = sorted(volumes["results"].glob("*.parquet"))
    assert [part.name for part in parts] == [f"{seed}.parquet" for seed in range(SEEDS)]
    assert run_container(pods[0], volumes) == 0  # in place of one that was killed after its table had its name
    configs = [f"--config={volumes['traces'] / name}.yaml" for name in ("stock", "packed")]
    whole = tmp_path / "whole.parquet"
    monkeypatch.syspath_prepend(volumes["traces"])
    asked = ["simulate", str(volumes["traces"] / "day.trace"), *configs, f"--seeds={SEEDS}", f"--parquet={whole}"]
    assert command(*asked).code == 0
    assert read_rows(*parts) == read_rows(whole)
