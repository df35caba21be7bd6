"""The command line of `python -m herodotus_agents`: serve, monitor, rewards, annotate, convert-policy.

Exit codes: 0 (stopped or done), 1 (failed), 2 (invalid arguments). Owns: the flags and
their bounds. Does not own: what the commands do (`commands`).
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
from herodotus_agents.annotators import congestion
from herodotus_agents.annotators.controller import RoundError
from herodotus_agents.policy import PolicyError
from herodotus_agents.rewards import RewardsError
from herodotus_agents.settings import Port, SettingsError, flag_type, parse_log_level
from herodotus_kube.api_conventions import ApiError
from herodotus_kube.credentials import KubeconfigError
from herodotus_record.escaping import escape
from herodotus_record.version import __version__
from herodotus_serving import logs
from herodotus_serving.flag_types import add_probe_bind
from herodotus_serving.sockets import ListenError
from scheduler.engine.formulas.measurements import COST
from scheduler.prometheus import PrometheusError

_FAILURES: Final = (
    KubeconfigError,
    ListenError,
    PolicyError,
    RoundError,
    SettingsError,
    RewardsError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names (default: the process's arguments), and return the exit code."""
    logs.configure(logging.INFO)
    logging.getLogger().setLevel(parse_log_level(os.environ.get("LOG_LEVEL", "INFO")))
    logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx logs every request at INFO.
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except PrometheusError as e:
        print(f"error: {escape(str(e))} (--prometheus URL, or PROM_IP and PROM_PORT, set the address)", file=sys.stderr)
        return 1
    except ApiError as e:
        print(f"error: {escape(e.describe())}", file=sys.stderr)
        return 1
    except _FAILURES as e:
        print(f"error: {escape(str(e))}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m herodotus_agents",
        description="Scheduler extenders, and annotators that measure nodes for them.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    _serve(sub.add_parser("serve", help="answer schedulers over HTTP"))
    _monitor(sub.add_parser("monitor", help="learn rewards from the outcomes of pods"))
    rewards = sub.add_parser("rewards", help="print the rewards that the monitor has learned")
    rewards.add_argument("file", type=Path, help="the monitor's --store")
    rewards.set_defaults(run=commands.rewards)
    annotate = sub.add_parser("annotate", help="measure nodes and write the values into their annotations")
    _annotate(annotate.add_subparsers(required=True, metavar="WHAT"))
    policy = sub.add_parser("convert-policy", help="print a policy.cfg as a KubeSchedulerConfiguration")
    policy.add_argument("file", type=Path)
    policy.add_argument("--scheduler-name", default="my-scheduler", help="of the profile (default %(default)s)")
    policy.set_defaults(run=commands.convert_policy)
    return parser


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agents", metavar="NAMES", help=f"comma-separated names of agents or plugins, or all: {', '.join(AGENTS)}"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration of the service and of each agent")
    parser.add_argument("--address", help="address to listen on (default 0.0.0.0)")
    parser.add_argument(
        "--port", type=flag_type(Port), help="0 takes a free one and prints it (default HTTP_PORT, or 80)"
    )
    add_probe_bind(parser, "/livez and /readyz")
    parser.add_argument(
        "--watch-nodes", action="store_true", help="cache all nodes, for schedulers with nodeCacheCapable: true"
    )
    _cluster(parser)
    parser.set_defaults(run=commands.serve)


def _monitor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, metavar="FILE", help="keeps the learned rewards across restarts")
    parser.add_argument("--namespace", default="", help="namespace whose pods count (default: all)")
    _cluster(parser)
    parser.set_defaults(run=commands.monitor)


def _cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("API server (default: CLUSTER_CONF, KUBECONFIG, ~/.kube/config)")
    group.add_argument(
        "--server",
        default="",
        metavar="URL",
        help="address of the API server without credentials, such as kubectl proxy's",
    )
    group.add_argument("--kubeconfig", default="", metavar="FILE")
    group.add_argument("--in-cluster", action="store_true", help="use the pod's service account")


def _annotate(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    usage = what.add_parser("usage", help="mean, deviation, forecast of free cpu and memory")
    allocation = what.add_parser("allocation", help="amounts that pods request, and free amounts")
    network = what.add_parser("congestion", help="used share of the network capacity in per cent")
    price = what.add_parser("price", help="a price for each node; runs once")
    for parser in (usage, network):
        parser.add_argument("--prometheus", metavar="URL", help="(default from PROM_IP and PROM_PORT)")
    network.add_argument("--devices", default="(e|w).*", help="regular expression (default %(default)s)")
    network.add_argument(
        "--capacity",
        type=flag_type(congestion.Capacity),
        default=125e6,
        metavar="BYTES",
        help="capacity of an interface in bytes per second (default %(default)s)",
    )
    for parser in (usage, allocation, network):
        parser.add_argument("--once", action="store_true", help="one round instead of one every ANNOTATE_FREQ seconds")
    price.add_argument("-l", "--list", action="store_true", help="print prices and change nothing")
    price.add_argument("--seed", type=int, help="seed of the random prices; the same seed gives the same prices")
    price.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="NODE=PRICE",
        help="set this price instead of random ones; repeatable",
    )
    price.add_argument("--annotation", default=COST, help="annotation that holds the price (default %(default)s)")
    for name, parser in (("usage", usage), ("allocation", allocation), ("congestion", network), ("price", price)):
        _cluster(parser)
        parser.set_defaults(run=getattr(commands, f"annotate_{name}"))
