"""Records a walk through `kubectl herodotus top`: the screens after each step, as tmux captures them.

    python -m bench.top_walk OUTPUT [--cluster kubeconfig|real|simulated] [--local] [--nodes 5000] [--pods 15000]

`kubeconfig` is the cluster of KUBECONFIG, such as the demo's; `real` is etcd, kube-apiserver and kube-scheduler, found
by the envtest convention; `simulated` has many nodes. The walk is made at 80 by 24 and at 200 by 50.

Owns: the steps, and the file of screens. Does not own: the program, its speed (`top`). A step that does not show what
it has to ends the walk with an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.plugin import run_decided_cluster
from bench.top import fill
from tests.e2e.cluster import node, pod
from tests.e2e.real_cluster import run_real_cluster
from tests.processes import ROOT

SIZES: Final = ((80, 24), (200, 50))
_STEP_S: Final = 120.0
_QUIET_S: Final = 1.5  # a screen that has not changed for this long is drawn


class Step(NamedTuple):
    """Keys as tmux calls them, and a pattern of the screen that they lead to."""

    title: str
    keys: tuple[str, ...]
    shows: str


STEPS: Final = (
    Step("The first screen", (), r"FIX (?!…)|No pods wait"),
    Step("Nodes by zone, completed with Tab", ("g", "z", "Tab", "Enter"), r"by zone"),
    Step("Sorted by CPU", ("s",), r"sort cpu"),
    Step("The pods of the fullest node of the first zone", ("Home", "Down", "Enter"), r"^ \S+: \d+ pods"),
    Step("Back, and a simulated drain of that node", ("Escape", "d"), r"SIMULATED(.|\n)*MOVED POD"),
    Step("The whole answer", ("a",), r"what-if: nothing is changed"),
    Step(
        "Back to the cluster as it is; the first waiting pod's decision", ("Escape", "Escape", "Tab", "Enter"), r"--all"
    ),
    Step("Its fix is copied", ("Escape", "y"), r"copied|no fix is known"),
    Step("Why not here: the question", ("BTab", "w"), r"why not on"),
    Step("Why not here: the answer", ("Enter",), r"--node"),
    Step("The keys", ("Escape", "?"), r"SIMULATE"),
)


class Tmux:
    """A tmux server with one window, in which a program runs."""

    def __init__(self, socket: Path, columns: int, lines: int, environ: Mapping[str, str]) -> None:
        self._base = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        shell = ["new-session", "-d", "-x", str(columns), "-y", str(lines), "env PS1='$ ' sh"]
        subprocess.run([*self._base, *shell], env={**environ, "TERM": "xterm-256color"}, check=True)

    def press(self, *keys: str) -> None:
        """Press keys, which have the names that tmux gives them."""
        for key in keys:
            subprocess.run([*self._base, "send-keys", key], check=True)
            time.sleep(0.3)  # after Escape a terminal waits for the rest of a sequence

    def capture(self) -> str:
        """Return the text of the screen."""
        command = [*self._base, "capture-pane", "-p"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def wait_for(self, pattern: str) -> str:
        """Return the screen once it shows a pattern and has become quiet. Raises RuntimeError after a timeout."""
        until, before, since = time.monotonic() + _STEP_S, "", time.monotonic()
        while True:
            screen, now = self.capture(), time.monotonic()
            if screen != before:
                before, since = screen, now
            shown = re.search(pattern, screen, re.MULTILINE) and "reading …" not in screen
            if shown and now - since >= _QUIET_S:
                return screen
            if now > until:
                raise RuntimeError(f"no {pattern!r} on the screen:\n{screen}")
            time.sleep(0.2)

    def close(self) -> None:
        """End the tmux server and the programs in it."""
        subprocess.run([*self._base, "kill-server"], check=False)


def walk(environ: Mapping[str, str], words: Sequence[str], columns: int, lines: int) -> Iterator[tuple[str, str]]:
    """Run `kubectl herodotus top` in a terminal of this size, press each step's keys, and yield its title and screen.

    `words` are further arguments of the command.
    """
    command = [sys.executable, str(ROOT / "kubectl-herodotus"), "top", *words]
    with tempfile.TemporaryDirectory() as directory:
        tmux = Tmux(Path(directory) / "tmux", columns, lines, environ)
        try:
            tmux.press(f"clear; {shlex.join(command)}", "Enter")
            for step in STEPS:
                tmux.press(*step.keys)
                yield step.title, tmux.wait_for(step.shows)
            tmux.press("Escape", "q")
            yield "The terminal after q", tmux.wait_for(r"^\$ $|\$ *\n*\Z")
        finally:
            tmux.close()


@contextmanager
def open_cluster(args: argparse.Namespace) -> Iterator[dict[str, str]]:
    """Run the cluster of the arguments, and yield the environment for kubectl."""
    with tempfile.TemporaryDirectory() as directory:
        if args.cluster == "simulated":
            with run_decided_cluster(args.nodes, Path(directory)) as environ:
                fill(environ, args.nodes, args.pods)
                yield environ
        elif args.cluster == "real":
            with run_real_cluster(Path(directory), ("deployment", "replicaset")) as cluster:
                zones = [{"topology.kubernetes.io/zone": f"zone-{'ab'[i % 2]}"} for i in range(6)]
                cluster.create_all("/api/v1/nodes", [node(f"worker-{i + 1}", labels=zones[i]) for i in range(6)])
                template = pod("web", cpu="1500m", scheduler="default-scheduler")
                selector = {"matchLabels": template["metadata"]["labels"]}
                spec = {"replicas": 8, "selector": selector, "template": template}
                cluster.create(
                    "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": spec}
                )
                cluster.create("/api/v1/namespaces/default/pods", pod("big", cpu="40", scheduler="default-scheduler"))
                yield {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        else:
            yield dict(os.environ)


def main() -> int:
    """Write the screens of the walk at each terminal size to the output file, and return the exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.top_walk", description="Record a walk through top.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--cluster", choices=("kubeconfig", "real", "simulated"), default="kubeconfig")
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=15_000)
    args = parser.parse_args()
    with open_cluster(args) as environ, args.output.open("w", encoding="utf-8") as output:
        environ |= {"PYTHONPATH": os.pathsep.join(sys.path)}
        for columns, lines in SIZES:
            for title, screen in walk(environ, ["--local"] if args.local else [], columns, lines):
                print(f"=== {columns} by {lines}: {title}\n{screen.rstrip()}\n", file=output, flush=True)
                print(f"{columns} by {lines}: {title}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
