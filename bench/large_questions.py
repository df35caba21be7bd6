"""`python -m bench.large_questions`: what-ifs made to be large, for a scheduler that places ordinary pods meanwhile.

python -m bench.large_questions [--nodes 5000] [--seconds 20] [KIND…]

The program starts a simulated cluster, a decisions service and a scheduler. Each question asks for 100 replicas and has
nearly the largest body that the service takes. It prints a row per kind: how long the answer took and what it says, the
scheduler's memory before, at most and afterwards, the largest memory of the forked copy, and how long ordinary pods
waited for their node meanwhile. The copy's memory has the pages that it shares with the scheduler; the process that
sends records, another child of the scheduler, takes 50 MiB, so no smaller figure is shown. Exit code 1 if the scheduler
was restarted or a question had no answer.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from bench import manifests
from bench.processes import (
    API,
    DecisionsService,
    PeakMemory,
    children,
    connect,
    exit_on_sigterm,
    peak_mib,
    resident_mib,
)
from herodotus_sim import SimulatedCluster
from tests.processes import Process, python

BODY_BYTES: Final = (1 << 20) - 4096  # the largest body of a ClusterReview is 1 MiB
TEXT_BYTES: Final = (256 << 10) - 4096  # and that of a PlacementReview, which also takes YAML, 256 KiB
ANSWER_S: Final = 60.0
SAMPLE_S: Final = 0.02
SCHEDULER: Final = "herodotus-scheduler"
REPLICAS: Final = 100
Json = dict[str, Any]


def fill(build_part: Callable[[int], str], join: str = ",", room: int = BODY_BYTES) -> str:
    """Return numbered parts, joined by `join`, as many as fit into `room` characters."""
    parts, size = list[str](), 0
    for number in itertools.count():
        part = build_part(number)
        size += len(part) + len(join)
        if size > room:
            return join.join(parts)
        parts.append(part)
    raise AssertionError("count() has no end")


def write_pod(spec: str = "", labels: str = "", requests: str = "") -> str:
    """Return a pod in JSON. The arguments are JSON members to insert into its spec, labels and container's requests."""
    container = f'{{"name":"c","resources":{{"requests":{{{requests}}}}}}}'
    more = f",{spec}" if spec else ""
    metadata = f'{{"name":"web","labels":{{{labels}}}}}'
    spec = f'{{"schedulerName":"{SCHEDULER}","containers":[{container}]{more}}}'
    return f'{{"kind":"Pod","apiVersion":"v1","metadata":{metadata},"spec":{spec}}}'


def write_terms() -> str:
    """Return a pod in JSON with as many preferred anti-affinity terms as fit into a request.

    Each term has its own selector.
    """
    term = (
        '{{"weight":1,"podAffinityTerm":{{"topologyKey":"kubernetes.io/hostname",'
        '"labelSelector":{{"matchLabels":{{"k{}":"v"}}}}}}}}'
    )
    terms = fill(lambda i: term.format(i))
    return write_pod(
        f'"affinity":{{"podAntiAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":[{terms}]}}}}'
    )


def write_keys() -> str:
    """Return a pod in JSON whose node affinity names as many label keys as fit into a request."""
    keys = fill(lambda i: f'{{"key":"k{i}","operator":"DoesNotExist"}}')
    terms = f'"nodeSelectorTerms":[{{"matchExpressions":[{keys}]}}]'
    return write_pod(f'"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{{terms}}}}}}}')


def write_aliases() -> str:
    """Return YAML in which each of 30 anchors names the one before twice: 2**30 values if they were copied."""
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 30))]
    return "\n".join(
        [
            *lines,
            "kind: Pod",
            "metadata: {name: web}",
            f"spec: {{schedulerName: {SCHEDULER}, containers: [{{name: c, x: *a29}}]}}",
        ]
    )


QUESTIONS: Final[dict[str, Callable[[], str]]] = {
    "plain": write_pod,
    "names, 0": lambda: write_pod(requests=fill(lambda i: f'"example.com/r{i}":"0"')),
    "names, 1": lambda: write_pod(requests=fill(lambda i: f'"example.com/r{i}":"1"')),
    "terms": write_terms,
    "keys": write_keys,
    "labels": lambda: write_pod(labels=fill(lambda i: f'"k{i}":"v"')),
    "spreads": lambda: write_pod(
        '"topologySpreadConstraints":['
        + fill(lambda i: f'{{"maxSkew":1,"topologyKey":"k{i}","whenUnsatisfiable":"ScheduleAnyway"}}')
        + "]"
    ),
    "nesting": lambda: write_pod('"x":' + "[" * (TEXT_BYTES // 2) + "]" * (TEXT_BYTES // 2)),
    "YAML text": lambda: (
        f"kind: Pod\nmetadata: {{name: web}}\nspec:\n  schedulerName: {SCHEDULER}\n  containers:\n"
        + fill(lambda i: f"  - {{name: c{i}, image: x}}", "\n", TEXT_BYTES * 9 // 10)
    ),
    "YAML aliases": write_aliases,
}
"""Functions that write a manifest, by kind."""


class OrdinaryPods:
    """Creates pods one after the other in a thread, and measures how long each waits for its node."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster, self._stop = cluster, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.waits_s: list[float] = []

    def start(self) -> None:
        """Begin to create pods."""
        self._thread.start()

    def close(self) -> None:
        """Stop creating pods, after the pod that waits for its node now."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            name = f"ordinary-{number}"
            spec = {"schedulerName": SCHEDULER, "containers": [{"name": "c", "image": "x"}]}
            metadata = {"name": name, "namespace": "default"}
            began = time.monotonic()
            self._cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            while not self._cluster.get("Pod", "default", name)["spec"].get("nodeName") and not self._stop.is_set():
                time.sleep(0.002)
            self.waits_s.append(time.monotonic() - began)
            self._cluster.delete("Pod", "default", name)


def ask(port: int, manifest: str) -> tuple[int, str]:
    """Ask where pods would be placed; return the status code with how many fit, or with the error's message.

    A manifest in JSON is asked about in a ClusterReview, as pods to create. Any other text, and JSON with "[[", is sent
    as the manifest of a PlacementReview.
    """
    spec: Json
    if manifest.startswith("{") and "[[" not in manifest:
        change = {"kind": "Create", "object": json.loads(manifest), "replicas": REPLICAS, "namespace": "default"}
        path, kind, spec = f"{API}/clusterreviews", "ClusterReview", {"changes": [change]}
    else:
        path, kind = f"{API}/namespaces/default/placementreviews", "PlacementReview"
        spec = {"manifest": manifest, "replicas": REPLICAS}
    while True:
        code, document = _post(port, path, {"kind": kind, "spec": spec})
        status = document.get("status")
        if not isinstance(status, dict):
            return code, str(document.get("message"))
        if status.get("phase") != "Running":
            placed = status.get("placements", ())
            return code, f"{status.get('fits', sum(bool(pod['node']) for pod in placed))} fit"
        spec = {"continue": status["continue"]}


def _post(port: int, path: str, document: Json) -> tuple[int, Json]:
    with closing(connect(port, tls=False, timeout_s=ANSWER_S)) as connection:
        body = json.dumps(document, separators=(",", ":"))
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@contextmanager
def run_scheduler(folder: Path, cluster: SimulatedCluster, endpoint: str) -> Iterator[Process]:
    """Run a scheduler that answers reviews while the block runs."""
    kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
    flags = ["--kubeconfig", str(kubeconfig), "--spool", str(folder / "spool"), "--secure-port", "0"]
    command = python("scheduler", "run", *flags, "--endpoint", endpoint)
    process = Process("scheduler", command, folder / "scheduler.log")
    try:
        yield process
    finally:
        process.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask every question and print a row for each; return 1 if one had no answer or the scheduler ended."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_questions", description="Questions made to be large.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=20.0, help="without questions (default %(default)s)")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(QUESTIONS)} (default all)")
    args = parser.parse_args(arguments)
    exit_on_sigterm()
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        nodes = [manifests.node(i) for i in range(args.nodes)]
        cluster = running.enter_context(SimulatedCluster(objects=nodes))
        service = DecisionsService(folder, "--data", str(folder / "data"))
        running.callback(service.stop)
        scheduler = running.enter_context(run_scheduler(folder, cluster, service.url))
        while ask(service.port, write_pod())[0] != 201:  # until the scheduler has listed the cluster
            time.sleep(1)
        return int(_measure(cluster, service.port, scheduler.pid, args))


def _measure(cluster: SimulatedCluster, port: int, scheduler: int, args: argparse.Namespace) -> bool:
    pods = OrdinaryPods(cluster)
    pods.start()

    def copy_mib() -> float:
        """Return the peak memory of the largest child process."""
        return max((peak_mib([pid]) for pid in children(scheduler)), default=0.0)

    time.sleep(args.seconds)
    titles = f"{'BEFORE':>6} {'PEAK':>5} {'AFTER':>5} {'COPY':>5}"
    print(f"{'QUESTION':13} {'KIB':>5} {'S':>5} {titles} {'PODS':>5} {'P50 MS':>7} {'MAX MS':>7}  ANSWER")
    _print_row("none", pods.waits_s, "")
    failed = False
    for kind in args.kinds or QUESTIONS:
        manifest, before, first = QUESTIONS[kind](), resident_mib([scheduler]), len(pods.waits_s)
        began = time.monotonic()
        with PeakMemory(lambda: resident_mib([scheduler]), SAMPLE_S) as own, PeakMemory(copy_mib, SAMPLE_S) as copy:
            try:
                code, answer = ask(port, manifest)
            except (OSError, http.client.HTTPException) as e:
                code, answer, failed = 0, type(e).__name__, True
            took_s = time.monotonic() - began
            time.sleep(1)
        after = resident_mib([scheduler])
        figures = f"{before:6.0f} {own.mib:5.0f} {after:5.0f} {copy.mib:5.0f}"
        _print_row(
            kind, pods.waits_s[first:], f"{code} {answer[:100]}", f"{len(manifest) >> 10:5} {took_s:5.1f} {figures}"
        )
        failed |= not after
    pods.close()
    return failed


def _print_row(kind: str, waits_s: Sequence[float], answer: str, figures: str = "") -> None:
    waits = sorted(waits_s) or [0.0]
    times = f"{len(waits_s):5} {waits[len(waits) // 2] * 1e3:7.0f} {waits[-1] * 1e3:7.0f}"
    print(f"{kind:13} {figures:35} {times}  {answer}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
