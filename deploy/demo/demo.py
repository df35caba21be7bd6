"""The demo: schedules pods of a simulated cluster on this machine and explains the decisions.

    start            a dozen nodes, the scheduler, the decisions service on SQLite, some seventy pods, and a second
                     scheduler with an observer; shows both views
    stop             stop everything that `start` left running
    kill NAME        SIGKILL the endpoint or the scheduler
    restart NAME     stop it if it is running, and start it again
    status           which processes are running

`install.sh --demo` runs it. Owns: the order of the steps and their output. Does not own: processes (`processes`),
requests (`cluster`), the cluster itself (cluster.yaml, pods.yaml, urgent.yaml, packed.yaml), the schedulers'
configurations (scheduler.yaml, packing-scheduler.yaml).

Everything listens on loopback, on ports that the system chooses, and writes only to the demo's directory.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml
from cluster import FINAL, ClusterError, DemoCluster, Json, create_all
from processes import DemoError, Process

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
# in the order of stopping, so that scheduler and observer deliver their last records
NAMES: Final = ("scheduler", "observer", "packing-scheduler", "endpoint", "cluster")
TIMEOUT_S: Final = 90.0  # ample: each decision takes a few milliseconds
PLUGIN: Final = (
    "kubectl-herodotus",
    "kubectl_complete-herodotus",
)  # The second program completes the arguments of the first.
SCHEDULER_NAME: Final = "herodotus-scheduler"
_LISTENING: Final = r"listening on (http://\S+)"
_POLL_S: Final = 0.1


class Demo:
    """The demo in one state directory."""

    def __init__(self, state: Path, install: str) -> None:
        """Create the demo; `install` is the command for install.sh in the printed hints."""
        self.state = state
        self._install = install
        self.scheduler, self.observer, self.packing, self.endpoint, self.cluster = (Process(state, n) for n in NAMES)

    def start(self, timeout_s: float) -> None:
        """Stop and delete an earlier demo, start all processes, create the pods, and print two screens of the plugin.

        The screens are those of `pending` and of `pod` for a pending pod. `timeout_s` limits each wait for decisions.
        If anything fails, all processes are stopped.
        """
        self.stop()
        self._clear()
        try:
            self._launch_cluster()
            self._launch_endpoint("0")
            api = self._wait_for_cluster()
            self._wait_for_endpoint(api)
            self._launch_scheduler()
            self._launch_second_scheduler()
            self._wait_for_scheduler()
            pods = create_all(api, HERE / "pods.yaml")
            print_lines(f"{len(pods)} pods are created; each has to be decided, and its decision stored")
            self._wait(api, pods, timeout_s)
            print_lines("One more pod evicts another to get its place")
            urgent = create_all(api, HERE / "urgent.yaml")
            self._wait(api, urgent, timeout_s, states=("Bound",))
            # with the pod that replaces the evicted one
            decisions = self._wait(api, api.list_objects("Pod"), timeout_s)
            self._wait_for_second_scheduler()
            packed = create_all(api, HERE / "packed.yaml")
            print_lines(f"{len(packed)} pods are for a second scheduler; an observer reconstructs its decisions")
            self._wait(api, packed, timeout_s)
        except BaseException:
            self.stop()
            raise
        bound = sum(d["status"]["state"] == "Bound" for d in decisions.values())
        print_lines(f"All are decided: {bound} bound, {len(decisions) - bound} fit nowhere", "")
        pending = next(d for d in decisions.values() if d["spec"]["pod"]["name"] == "payments-0")
        self._show("pending", "-A")
        self._show("pod", pending["spec"]["pod"]["name"], "-n", pending["metadata"]["namespace"])
        self._print_hints()

    def stop(self) -> bool:
        """Stop every process; return whether one was running."""
        running = [p for p in self._processes() if p.pid is not None]
        for process in self._processes():
            process.stop()
        return bool(running)

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process. Raises DemoError if it is not running."""
        process = self._process_by_name(name)
        if not process.kill():
            raise DemoError(f"the {name} does not run")
        print_lines(f"The {name} is killed. Again: {self._install} --demo-restart {name}")

    def restart(self, name: str) -> None:
        """Restart `scheduler` or `endpoint` with the same port and data.

        If all processes run then, wait until every pod has a decision. Raises DemoError if the simulated cluster does
        not run, or if the process does not become ready.
        """
        if self.cluster.pid is None:
            raise DemoError(f"the simulated cluster does not run; start the demo: {self._install} --demo")
        process = self._process_by_name(name)
        process.stop()
        if process is self.endpoint:
            self._launch_endpoint(self._port_file.read_text().strip())
            self.endpoint.wait_until_ready(_LISTENING)
            print_lines("The decisions service runs again")
        else:
            self._launch_scheduler()
            self._wait_for_scheduler()
        if all(p.pid for p in self._processes()):
            api = DemoCluster(yaml.safe_load(self._kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
            pods = [p for p in api.list_objects("Pod") if p["spec"]["schedulerName"] == SCHEDULER_NAME]
            print_lines("Pods of which it has a decision:")
            self._wait(api, pods, TIMEOUT_S, states=None)  # A crash may have lost the result of a binding.

    def status(self) -> bool:
        """Print which processes are running; return whether all are."""
        for process in self._processes():
            print_lines(f"{process.name:17} {f'runs, process {process.pid}' if process.pid else 'does not run'}")
        return all(p.pid for p in self._processes())

    # --- steps ----------------------------------------------------------------------------------------------------

    def _launch_cluster(self) -> None:
        command = [
            *(sys.executable, "-m", "herodotus_sim", "--run-pods", "--run-controllers"),
            *("--write-kubeconfig", str(self._kubeconfig), str(HERE / "cluster.yaml")),
        ]
        self.cluster.launch(command)

    def _wait_for_cluster(self) -> DemoCluster:
        url = self.cluster.wait_until_ready(r"listens on (http://\S+)")
        nodes = sum(line == "kind: Node" for line in (HERE / "cluster.yaml").read_text("utf-8").splitlines())
        print_lines(f"A simulated cluster of {nodes} nodes runs: {url}")
        return DemoCluster(url)

    def _launch_endpoint(self, port: str) -> None:
        arguments = ["--bind", f"127.0.0.1:{port}", "--data", str(self._data)]
        self.endpoint.launch([sys.executable, "-m", "herodotus_endpoint", *arguments])

    def _wait_for_endpoint(self, api: DemoCluster) -> None:
        port = self.endpoint.wait_until_ready(_LISTENING).rpartition(":")[2]
        self._port_file.write_text(f"{port}\n")
        api.publish(int(port))
        print_lines(f"The decisions service runs, on SQLite: {self._data}")

    def _launch_scheduler(self) -> None:
        command = [
            *self._build_command("run", "spool", delivers=True),
            *("--config", str(HERE / "scheduler.yaml")),
            *("--feature-gates", "GenericWorkload=true,GangScheduling=true"),  # for its PodGroup
            "--replace-default-scheduler",  # The demo has no kube-scheduler.
        ]
        self.scheduler.launch(command)

    def _wait_for_scheduler(self) -> None:
        self.scheduler.wait_until_ready(r'"(Scheduling)"')
        print_lines("The scheduler runs")

    def _launch_second_scheduler(self) -> None:
        """Start a scheduler that delivers no records, and an observer of it that knows only the default profile."""
        config = ("--config", str(HERE / "packing-scheduler.yaml"))
        self.packing.launch([*self._build_command("run", "packing-spool", delivers=False), *config])
        names = ("--schedulers", "packing-scheduler")
        self.observer.launch([*self._build_command("observe", "observer-spool", delivers=True), *names])

    def _wait_for_second_scheduler(self) -> None:
        self.packing.wait_until_ready(r'"(Scheduling)"')
        self.observer.wait_until_ready(r'"(Observing)"')

    def _build_command(self, command: str, spool: str, *, delivers: bool) -> list[str]:
        endpoint = f"http://127.0.0.1:{self._port_file.read_text().strip()}"
        return [
            *(sys.executable, "-m", "scheduler", command, "--v", "2", "--kubeconfig", str(self._kubeconfig)),
            *("--spool", str(self.state / spool)),
            *(("--endpoint", endpoint) if delivers else ()),
            *("--secure-port", "0"),  # The demo does not use it, and a real scheduler may use 10259.
        ]

    def _wait(
        self, api: DemoCluster, pods: Sequence[Json], timeout_s: float, states: Sequence[str] | None = FINAL
    ) -> dict[str, Json]:
        """Wait until every pod has a decision in one of `states`; return the latest of these decisions by pod UID.

        If `states` is None, a decision in any state counts. Raises DemoError if a process ends or after `timeout_s`
        seconds.
        """
        wanted = {pod["metadata"]["uid"] for pod in pods}
        deadline, shown = time.monotonic() + timeout_s, -1
        while True:
            found: dict[str, Json] = {}
            for decision in api.decisions():  # newest first
                if states is None or decision["status"]["state"] in states:
                    found.setdefault(decision["spec"]["pod"]["uid"], decision)
            decided = wanted & found.keys()
            if len(decided) != shown:
                shown = len(decided)
                print_lines(f"  {shown} of {len(wanted)}")
            if decided == wanted:
                return {uid: found[uid] for uid in wanted}
            for process in self._processes():
                if process.pid is None:
                    raise DemoError(f"the {process.name} ended\n{process.tail()}")
            if time.monotonic() > deadline:
                raise DemoError(
                    f"after {timeout_s:g} s only {shown} of {len(wanted)} pods were decided\n"
                    f"{self.scheduler.tail()}\n{self.endpoint.tail()}"
                )
            time.sleep(_POLL_S)

    def _show(self, *arguments: str) -> None:
        """Run `kubectl herodotus` with these arguments, below a line with the command. Raises DemoError if it fails."""
        command = ["kubectl", "herodotus", *arguments]
        print_lines(f"$ {shlex.join(command)}")
        path = f"{self._link_programs()}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HERODOTUS_")}
        environment = {**inherited, "KUBECONFIG": str(self._kubeconfig), "PATH": path}
        try:
            completed = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
        except OSError as e:
            raise DemoError(f"kubectl cannot be run: {e.strerror}") from None
        if completed.returncode:
            raise DemoError(f"{shlex.join(command)} ended with exit code {completed.returncode}")
        print_lines("")

    def _link_programs(self) -> Path:
        """Return a directory for PATH with links to those programs, of the plugin and kubectl, that PATH lacks."""
        directory = self.state / "bin"
        directory.mkdir(exist_ok=True)
        program_directory = Path(sys.executable).parent
        links = {}
        for program in PLUGIN:
            plugin_program = program_directory / program if (program_directory / program).exists() else ROOT / program
            found = shutil.which(program)
            if not (found and Path(found).resolve() == plugin_program.resolve()):
                links[program] = plugin_program
        links |= {} if shutil.which("kubectl") else {"kubectl": program_directory / "kubectl"}
        for name, target in links.items():
            (directory / name).unlink(missing_ok=True)
            (directory / name).symlink_to(target)
        return directory

    def _print_hints(self) -> None:
        env = self.state / "env"
        env.write_text(
            "# . this file: the shell's kubectl then speaks to the demo's cluster\n"
            f"export KUBECONFIG={shlex.quote(str(self._kubeconfig))}\n"
            f'export PATH={shlex.quote(str(self.state / "bin"))}:"$PATH"\n'
            "unset HERODOTUS_ENDPOINT HERODOTUS_SERVICE\n"
        )
        tests, demo = (shlex.quote(os.path.relpath(ROOT / "deploy" / folder)) for folder in ("test", "demo"))
        print_lines(
            "The demo goes on in the background. Everything that there is to see, after the first line below:",
            "",
            "  kubectl herodotus pod test-pod-1 -n team-a       # why it is where it is",
            "  kubectl herodotus pod notebook -n ml             # why it is nowhere, and what helps",
            "  kubectl herodotus workload frontend -n team-b    # a quota refuses a pod",
            "  kubectl herodotus workload log-agent -n monitoring   # a DaemonSet",
            "  kubectl herodotus workload image-cache -n ci     # a DaemonSet of which a pod waits for its node",
            "  kubectl herodotus podgroup simulation -n ml      # placed together or not at all",
            "  kubectl herodotus preemptions -n ml              # who evicted whom",
            "  kubectl herodotus nodegroups                     # two node pools",
            "  kubectl herodotus disagreements -A               # another scheduler, as an observer sees it",
            f"  kubectl apply -f {tests}/main-label-pod.yml",
            "  kubectl herodotus pod test-pod-main",
            "",
            "What if:",
            "",
            f"  kubectl herodotus whatif -f {demo}/report.yaml",
            "  kubectl herodotus whatif drain worker-1          # a budget allows one web pod at a time",
            "",
            "Deployments, StatefulSets, DaemonSets and Jobs get their pods; no program runs in them:",
            "",
            f"  kubectl apply -f {tests}/deploy-big-deployment.yml",
            "  kubectl scale deployment large-deploy --replicas 10",
            "  kubectl rollout status deployment large-deploy",
            "",
            "A crash loses no decision:",
            "",
            f"  {self._install} --demo-kill endpoint",
            f"  kubectl apply -f {tests}/micro-label-pod.yml  # its record waits in the spool",
            f"  {self._install} --demo-restart endpoint",
            "  kubectl herodotus pod test-pod-micro",
            "",
            f"To end it: {self._install} --demo-stop",
            "",
            "Start here:",
            "",
            f"  . {shlex.quote(str(env))}",
            "  kubectl herodotus pending -A                     # which pods wait, why, and what helps",
            "  kubectl herodotus top                            # nodes and pods on a screen; q ends it",
            "  kubectl herodotus ui                             # the same as web pages, until Ctrl-C",
        )

    # --- files and processes ----------------------------------------------------------------------------------------

    @property
    def _kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def _data(self) -> Path:
        return self.state / "data"

    @property
    def _port_file(self) -> Path:
        return self.state / "run" / "endpoint.port"

    def _processes(self) -> tuple[Process, ...]:
        return self.scheduler, self.observer, self.packing, self.endpoint, self.cluster

    def _process_by_name(self, name: str) -> Process:
        return {"scheduler": self.scheduler, "endpoint": self.endpoint}[name]

    def _clear(self) -> None:
        """Remove the files of an earlier demo and nothing else."""
        for name in ("data", "spool", "packing-spool", "observer-spool", "log", "run", "bin"):
            shutil.rmtree(self.state / name, ignore_errors=True)
        for name in ("kubeconfig", "env"):
            (self.state / name).unlink(missing_ok=True)
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)


def print_lines(*lines: str) -> None:
    """Print lines at once, because other processes write to the same terminal."""
    print("\n".join(lines), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0 done, 1 failed, 2 usage, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    demo = Demo(arguments.state.absolute(), arguments.install)
    try:
        if arguments.command == "start":
            demo.start(arguments.timeout)
        elif arguments.command == "stop":
            if demo.stop():
                print_lines("The demo is stopped")
            elif not arguments.quiet:
                print_lines("No demo runs")
        elif arguments.command == "kill":
            demo.kill(arguments.name)
        elif arguments.command == "restart":
            demo.restart(arguments.name)
        elif not demo.status():
            return 1
    except (DemoError, ClusterError, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    parser = argparse.ArgumentParser(prog="demo.py", description="Herodotus on a simulated cluster on this machine.")
    parser.add_argument(
        "--state", type=Path, default=data / "herodotus" / "demo", metavar="DIR", help="its directory (%(default)s)"
    )
    parser.add_argument("--install", default="./install.sh", metavar="COMMAND", help="how hints name install.sh")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    start = commands.add_parser("start", help="start it, wait for every decision, show both views")
    start.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help="for all decisions")
    stop = commands.add_parser("stop", help="end everything that start left running")
    stop.add_argument("--quiet", action="store_true", help="say nothing where nothing runs")
    for name, help in (("kill", "end it as a crash would"), ("restart", "start it again on the same data")):
        commands.add_parser(name, help=help).add_argument("name", choices=("endpoint", "scheduler"))
    commands.add_parser("status", help="what runs; exit code 1 when something does not")
    return parser


if __name__ == "__main__":
    sys.exit(main())
