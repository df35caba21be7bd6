"""Records what a real control plane says about CEL expressions: `python -m tests.golden.cel.record [FILE]`.

It asks again about every expression of the recording beside this module, and about those in FILE, one a line.

The API server's verdict is the response to the dry run of a DeviceClass. The value of an expression on a device is what
kube-scheduler does with a pod whose claim has the expression as its selector, on a node that has only that device: the
claim is allocated, cannot be allocated, or the attempt ends with an error. Requests have admin access, so that a device
can be allocated any number of times.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.e2e.control_plane import TOKEN, ControlPlane, assets
from tests.processes import Process, eventually, free_port

Json = dict[str, Any]
RECORDING: Final = Path(__file__).with_name("recording.jsonl.gz")
DRIVER: Final = "gpu.example.com"
LONGEST_EVALUATED: Final = 1500  # characters: longer expressions test limits of the compiler
_AT_ONCE: Final = 120  # pods
_DECIDED_S: Final = 180.0
PANIC: Final = "the API server panics and closes the connection"
_API: Final = "/apis/resource.k8s.io/v1"
_CLASSES: Final = f"{_API}/deviceclasses"
_RUNTIME_ERROR: Final = "CEL runtime error: "

DEVICES: Final[dict[str, Json]] = {
    "full": {
        "attributes": {
            "model": {"string": "A100"},
            "index": {"int": 3},
            "ecc": {"bool": True},
            "driverVersion": {"version": "2.0.0"},
            "other.example.org/name": {"string": "x"},
        },
        "capacity": {"memory": {"value": "40Gi"}},
    },
    "other": {
        "attributes": {
            "model": {"string": "a100-sxm é"},
            "index": {"int": 0},
            "numa": {"int": 0},
            "driverVersion": {"version": "1.9.9-rc.1+build.5"},
        },
        "capacity": {"memory": {"value": "80G"}, "cores": {"value": "1500m"}},
        "allowMultipleAllocations": True,
    },
    "types": {
        "attributes": {
            "model": {"int": 7},
            "index": {"string": "3"},
            "ecc": {"string": "true"},
            "numa": {"bool": False},
            "driverVersion": {"string": "2.0.0"},
        },
        "capacity": {"memory": {"value": "1500m"}},
    },
    "bare": {"attributes": {}, "capacity": {}},
}


class VerdictRecorder:
    """Sends requests to a control plane and collects its answers."""

    def __init__(self, url: str) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self._client = httpx.Client(base_url=url, verify=False, headers=headers, timeout=60.0)

    def close(self) -> None:
        self._client.close()

    def _create(self, path: str, document: Json) -> Json:
        response = self._client.post(path, json=document)
        if response.is_error:
            raise RuntimeError(f"{path}: {response.text}")
        created: Json = response.json()
        return created

    def refusal(self, expression: str) -> str | None:
        """Return why the API server refuses an expression, or None if it compiles."""
        document = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "dry"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
        try:
            response = self._client.post(f"{_CLASSES}?dryRun=All", json=document)
        except httpx.RemoteProtocolError:
            return PANIC
        if response.is_success:
            return None
        message: str = response.json()["message"]
        return message.partition("spec.selectors[0].cel.expression: ")[2]

    def prepare(self) -> None:
        """Create the nodes with a device each."""
        self._client.patch(
            "/api/v1/namespaces/default",
            json={"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}},
            headers={"Content-Type": "application/merge-patch+json"},
        ).raise_for_status()
        self._create(_CLASSES, {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "any"}})
        for name, device in DEVICES.items():
            self._create(
                "/api/v1/nodes",
                {
                    "metadata": {"name": name, "labels": {"device": name}},
                    "status": {"allocatable": {"cpu": "1000", "memory": "1000Gi", "pods": "100000"}},
                },
            )
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": [{"name": "device", **device}]}
            slice_ = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}}
            self._create(f"{_API}/resourceslices", {**slice_, "spec": spec})

    def evaluate(self, batch: list[tuple[str, str]]) -> list[Json]:
        """Return what kube-scheduler makes of pairs of expression and device."""
        for number, (expression, device) in enumerate(batch):
            self._create_pod(f"p{number}", expression, device)
        pods: list[Json] = []

        def decided() -> bool:
            pods[:] = self._client.get("/api/v1/namespaces/default/pods").json()["items"]
            return all(_verdict(pod) is not None for pod in pods)

        eventually(decided, "kube-scheduler to decide every pod", _DECIDED_S, every_s=0.5)
        verdicts = {pod["metadata"]["name"]: _verdict(pod) for pod in pods}
        for path in ("/api/v1/namespaces/default/pods", f"{_API}/namespaces/default/resourceclaims"):
            self._remove(path)
        return [
            {"expression": expression, "device": device, "value": verdicts[f"p{number}"]}
            for number, (expression, device) in enumerate(batch)
        ]

    def _create_pod(self, name: str, expression: str, device: str) -> None:
        selectors = [{"cel": {"expression": expression}}]
        exactly = {"deviceClassName": "any", "adminAccess": True, "selectors": selectors}
        claim = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        path = f"{_API}/namespaces/default/resourceclaims"
        self._create(path, {**kind, "metadata": {"name": name}, "spec": claim})
        container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "device"}]}}
        spec = {
            "nodeSelector": {"device": device},
            "containers": [container],
            "resourceClaims": [{"name": "device", "resourceClaimName": name}],
            "terminationGracePeriodSeconds": 0,
        }
        self._create("/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})

    def _remove(self, path: str) -> None:
        """Delete all objects of a collection; no controller runs that would remove the finalizers of claims."""
        for item in self._client.get(path).json()["items"]:
            name = item["metadata"]["name"]
            self._client.delete(f"{path}/{name}?gracePeriodSeconds=0")
            if item["metadata"].get("finalizers"):
                self._client.patch(
                    f"{path}/{name}",
                    json={"metadata": {"finalizers": None}},
                    headers={"Content-Type": "application/merge-patch+json"},
                )
        eventually(lambda: not self._client.get(path).json()["items"], f"{path} to be empty", 60.0, every_s=0.2)


def _verdict(pod: Json) -> bool | str | None:
    """Return whether the device matched, the error, or None for a pod that is not decided yet."""
    if pod["spec"].get("nodeName"):
        return True
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            message: str = condition["message"]
            if _RUNTIME_ERROR in message:
                return message.partition(_RUNTIME_ERROR)[2]
            if "cannot allocate all claims" in message:
                return False
            raise RuntimeError(message)
    return None


def start_scheduler(binary: Path, kubeconfig: Path, directory: Path) -> Process:
    """Start kube-scheduler with its default plugins."""
    config = directory / "scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
    }
    config.write_text(yaml.safe_dump(document))
    command = [str(binary), f"--config={config}", f"--secure-port={free_port()}", "--bind-address=127.0.0.1"]
    return Process("kube-scheduler", [*command, f"--cert-dir={directory / 'certs'}"], directory / "scheduler.log")


def pairs(expressions: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the devices on which each expression is evaluated: one, if it does not read the device."""
    for expression in expressions:
        if len(expression) <= LONGEST_EVALUATED:
            for device in DEVICES if "device" in expression else ("full",):
                yield expression, device


def read_recording() -> list[Json]:
    """Return the lines of the present recording."""
    return [json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).decode().splitlines()]


def recorded_expressions() -> list[str]:
    """Return every expression whose verdict is recorded."""
    return [line["expression"] for line in read_recording() if "refusal" in line]


def record(plane: ControlPlane, binaries: Path, directory: Path, expressions: Iterable[str]) -> Iterator[Json]:
    """Yield the lines of the recording: devices, verdicts of the API server, values."""
    for name, device in DEVICES.items():
        yield {"name": name, "driver": DRIVER, **device}
    recorder = VerdictRecorder(plane.url)
    compiled = []
    for expression in expressions:
        refusal = recorder.refusal(expression)
        yield {"expression": expression, "refusal": refusal}
        if refusal is None:
            compiled.append(expression)
    recorder.prepare()
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(plane.kubeconfig()))
    scheduler = start_scheduler(binaries / "kube-scheduler", kubeconfig, directory)
    try:
        wanted = list(pairs(compiled))
        for start in range(0, len(wanted), _AT_ONCE):
            began = time.monotonic()
            yield from recorder.evaluate(wanted[start : start + _AT_ONCE])
            print(f"{start + _AT_ONCE}/{len(wanted)} {time.monotonic() - began:.1f} s", file=sys.stderr)
    finally:
        scheduler.stop()
        recorder.close()


def main() -> None:
    """Write the recording anew."""
    binaries = assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        raise SystemExit("error: etcd, kube-apiserver and kube-scheduler are needed in KUBEBUILDER_ASSETS")
    added = [line for file in sys.argv[1:] for line in Path(file).read_text().splitlines()]
    expressions = list(dict.fromkeys([*recorded_expressions(), *added]))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        plane = ControlPlane(binaries, directory)
        try:
            plane.wait_until_ready()
            lines = [json.dumps(line, ensure_ascii=False) for line in record(plane, binaries, directory, expressions)]
        finally:
            plane.stop()
    with RECORDING.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    main()
