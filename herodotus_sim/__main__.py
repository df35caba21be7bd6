"""The command line of the simulated API server. Not for production.

Does not own: the cluster. Invariant: it prints one line when it listens, and ends promptly on SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from pathlib import Path

import yaml

from herodotus_sim.cluster import SimulatedCluster
from herodotus_sim.errors import StatusError
from herodotus_sim.fault_plan import FaultPlan, FaultPlanError, parse_plan
from herodotus_sim.files import FileError, read_files
from herodotus_sim.options import Options


def main(arguments: list[str] | None = None) -> int:
    """Run the simulated API server until SIGTERM or SIGINT; return the exit code, 1 if it cannot start."""
    flags = _parser().parse_args(arguments)
    options = Options(
        faults=flags.faults,
        latency_s=flags.latency_ms / 1000,
        run_pods=flags.run_pods,
        run_controllers=flags.run_controllers,
        bookmark_interval_s=flags.bookmark_interval_s,
        history_limit=flags.history_limit,
        expired_watch_as_http=flags.expired_watch_as_http,
        watch_list=not flags.no_watch_list,
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        cluster = SimulatedCluster(read_files(flags.files), flags.host, flags.port, options)
        gc.collect()
        gc.freeze()  # A collection that traverses 5,000 nodes and their pods would block every request.
        with cluster:
            if flags.write_kubeconfig:
                cluster.write_kubeconfig(flags.write_kubeconfig)
            print(f"The simulated API server listens on {cluster.url}", flush=True)
            stop.wait()
    except (StatusError, FileError, OSError, ValueError) as error:
        print(f"herodotus_sim: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m herodotus_sim",
        description="A simulated Kubernetes API server, for the demo and for tests. Never for production.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="YAML files with objects to start with")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=0, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--write-kubeconfig", type=Path, metavar="PATH", help="write a kubeconfig for this server")
    parser.add_argument("--run-pods", action="store_true", help="bound pods become Running, as if there were kubelets")
    parser.add_argument(
        "--run-controllers", action="store_true", help="run controllers of Deployments, StatefulSets, Jobs and owners"
    )
    parser.add_argument("--latency-ms", type=_not_negative, default=0, help="wait before each request is handled")
    parser.add_argument("--bookmark-interval-s", type=_not_negative, default=Options.bookmark_interval_s)
    parser.add_argument("--history-limit", type=_positive, default=Options.history_limit, help="changes kept per kind")
    parser.add_argument("--expired-watch-as-http", action="store_true", help="HTTP 410 instead of an ERROR event")
    parser.add_argument(
        "--faults",
        type=_plan,
        default=FaultPlan(),
        metavar="FILE",
        help="what goes wrong on purpose (herodotus_sim/fault_plan.py)",
    )
    parser.add_argument("--no-watch-list", action="store_true", help="refuse sendInitialEvents")
    return parser


def _plan(path: str) -> FaultPlan:
    try:
        return parse_plan(yaml.safe_load(Path(path).read_bytes()))
    except (OSError, FaultPlanError, yaml.YAMLError) as e:
        raise argparse.ArgumentTypeError(f"{path}: {e}") from None


def _port(text: str) -> int:
    if not 0 <= int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return int(text)


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0")
    return value


if __name__ == "__main__":
    sys.exit(main())
