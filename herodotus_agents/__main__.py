"""The command line of `python -m herodotus_agents`: serve, monitor, rewards, annotate, convert-policy.

Exit codes: 0 (stopped or done), 1 (failed), 2 (invalid arguments). Owns: the command line. Does not own: what the
commands do (`commands`).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from herodotus_agents import commands
from herodotus_agents.agents import AGENTS
from herodotus_agents.annotators.controller import RoundError
from herodotus_agents.kube import KubeError
from herodotus_agents.policy import PolicyError
from herodotus_agents.prometheus import PrometheusError
from herodotus_agents.rewards import RewardsError
from herodotus_agents.settings import SettingsError, parse_log_level
from herodotus_record.escaping import escape
from herodotus_record.version import __version__
from herodotus_serving import logs
from herodotus_serving.sockets import ListenError
from scheduler.engine.formulas.measurements import COST

_FAILURES: Final = (KubeError, ListenError, PolicyError, PrometheusError, RoundError, SettingsError, RewardsError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    logs.configure(logging.INFO)
    logging.getLogger().setLevel(parse_log_level(os.environ.get("LOG_LEVEL", "INFO")))
    logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx logs every request at INFO.
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except _FAILURES as e:
        print(f"error: {escape(str(e))}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m herodotus_agents", description="Scheduler extenders, and what measures nodes for them."
    )
    parser.add_argument("--version", action="version", version=__version__)
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    _serve(sub.add_parser("serve", help="answer schedulers over HTTP"))
    _monitor(sub.add_parser("monitor", help="learn rewards from what becomes of pods"))
    rewards = sub.add_parser("rewards", help="print what the monitor has learnt")
    rewards.add_argument("file", type=Path, help="the monitor's --store")
    rewards.set_defaults(run=commands.rewards)
    annotate = sub.add_parser("annotate", help="measure nodes and write it on them")
    _annotate(annotate.add_subparsers(required=True, metavar="WHAT"))
    policy = sub.add_parser("convert-policy", help="print a policy.cfg as a KubeSchedulerConfiguration")
    policy.add_argument("file", type=Path)
    policy.add_argument("--scheduler-name", default="my-scheduler", help="of the profile (default %(default)s)")
    policy.set_defaults(run=commands.convert_policy)
    return parser


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agents", metavar="NAMES", help=f"comma-separated, or all: {', '.join(AGENTS)}")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings of the service and of each agent")
    parser.add_argument("--address", help="to listen on (default 0.0.0.0)")
    parser.add_argument("--port", type=int, help="0 takes a free one and prints it (default HTTP_PORT, or 80)")
    parser.add_argument(
        "--watch-nodes", action="store_true", help="keep nodes, for schedulers with nodeCacheCapable (names alone)"
    )
    _cluster(parser)
    parser.set_defaults(run=commands.serve)


def _monitor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, metavar="FILE", help="keeps what was learnt over restarts")
    parser.add_argument("--namespace", default="", help="whose pods count (default: all)")
    _cluster(parser)
    parser.set_defaults(run=commands.monitor)


def _cluster(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("API server (default: CLUSTER_CONF, KUBECONFIG, ~/.kube/config)")
    where.add_argument("--server", default="", metavar="URL", help="without credentials: kubectl proxy's address")
    where.add_argument("--kubeconfig", default="", metavar="FILE")
    where.add_argument("--in-cluster", action="store_true", help="the pod's own service account")


def _annotate(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    usage = what.add_parser("usage", help="mean, deviation, forecast of free cpu and memory")
    allocation = what.add_parser("allocation", help="what pods request, and what is left")
    congestion = what.add_parser("congestion", help="use of the network, per cent")
    price = what.add_parser("price", help="a price, once")
    for parser in (usage, congestion):
        parser.add_argument("--prometheus", metavar="URL", help="(default from PROM_IP and PROM_PORT)")
    congestion.add_argument("--devices", default="(e|w).*", help="regular expression (default %(default)s)")
    congestion.add_argument("--capacity", type=float, default=125e6, help="bytes a second (default %(default)s)")
    for parser in (usage, allocation, congestion):
        parser.add_argument("--once", action="store_true", help="one round instead of one every ANNOTATE_FREQ seconds")
    price.add_argument("-l", "--list", action="store_true", help="print prices and change nothing")
    price.add_argument("--seed", type=int, help="draw the same prices again")
    price.add_argument("--price", action="append", default=[], metavar="NODE=PRICE", help="instead of drawing")
    price.add_argument("--annotation", default=COST, help="(default %(default)s)")
    for name, parser in (("usage", usage), ("allocation", allocation), ("congestion", congestion), ("price", price)):
        _cluster(parser)
        parser.set_defaults(run=getattr(commands, f"annotate_{name}"))


if __name__ == "__main__":
    sys.exit(main())
