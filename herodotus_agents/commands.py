"""The commands: each builds its objects from flags and the original agents' environment variables, and runs them."""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Annotated, ClassVar, Final

import msgspec
import yaml
from flask import Flask

from herodotus_agents import policy, server, settings
from herodotus_agents.agent import AgentSettings
from herodotus_agents.annotators import allocation, congestion, price, usage
from herodotus_agents.annotators.controller import (
    NODES,
    AnnotationRate,
    Annotator,
    RoundError,
    RoundResult,
    list_nodes,
    run,
    run_round,
)
from herodotus_agents.app import create_app
from herodotus_agents.monitor import Monitor
from herodotus_agents.nodes import LONGEST_PAUSE_S, NodeCache
from herodotus_agents.objects import NodeView
from herodotus_agents.policy import PolicyError
from herodotus_agents.registry import load_agents
from herodotus_agents.rewards import Rewards
from herodotus_agents.settings import SettingsError
from herodotus_kube.credentials import find_credentials
from herodotus_kube.http import NO_ANSWER, ApiError, ApiServer
from herodotus_kube.watch import ListWatch, Reflector
from herodotus_record.escaping import escape
from herodotus_serving.sockets import Address
from scheduler.prometheus import Prometheus

_log: Final = logging.getLogger(__name__)

OUT_OF_CLUSTER: Final = "out-of-cluster"
IN_CLUSTER: Final = "in-cluster"


class AnnotatorSettings(AgentSettings, frozen=True):
    """Settings of all annotators, which environment variables set."""

    variables: ClassVar[Mapping[str, str]] = {
        "PROM_IP": "prom_ip",
        "PROM_PORT": "prom_port",
        "NODE_EXP_PORT": "node_exp_port",
        "ANNOTATE_FREQ": "annotate_freq",
        "ANNOTATE_WRITES_PER_SECOND": "writes_per_second",
        "USE_FORECAST": "use_forecast",
        "USE_REQ": "use_req",
        "MEMORY_WINDOW_SECONDS": "memory_window_seconds",
        "CPU_WINDOW_SECONDS": "cpu_window_seconds",
        "RATE_SECONDS": "rate_seconds",
        "GPU_RESOURCE": "gpu_resource",
    }

    prom_ip: str = "127.0.0.1"
    prom_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 9090
    node_exp_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 9100
    annotate_freq: Annotated[int, msgspec.Meta(ge=1)] = 60
    writes_per_second: Annotated[float, msgspec.Meta(gt=0)] = 20.0
    use_forecast: bool = False
    use_req: bool = False
    memory_window_seconds: Annotated[int, msgspec.Meta(ge=1)] = 86_400
    cpu_window_seconds: Annotated[int, msgspec.Meta(ge=1)] = 300
    rate_seconds: Annotated[int, msgspec.Meta(ge=1)] = usage.RATE_S
    gpu_resource: str = "nvidia.com/gpu"


def serve(arguments: argparse.Namespace) -> None:
    """Serve the extender API until SIGTERM or SIGINT."""
    service = settings.load_extender_service_settings(arguments.config, os.environ)
    logging.getLogger().setLevel(settings.parse_log_level(service.log_level))
    names = tuple(arguments.agents.split(",")) if arguments.agents else service.agents
    loaded = load_agents(names, service.settings, os.environ)
    if not loaded.agents:
        raise SettingsError("no agent could be loaded; see the log for the reason of each")
    _log.info("agents: %s; log level %s", ", ".join(loaded.agents), service.log_level)

    def create() -> Flask:
        node_cache = _start_node_cache(arguments) if arguments.watch_nodes or service.watch_nodes else None
        return create_app(loaded, node_cache)

    port = service.http_port if arguments.port is None else arguments.port
    address = Address(arguments.address or service.address, port)
    server.serve(address, arguments.probe_bind or (), service.threads, create)


def monitor(arguments: argparse.Namespace) -> None:
    """Learn how well pods of each type do on each node and annotate the nodes with it, until SIGTERM or SIGINT."""
    learning, stop = Monitor(_kube_client(arguments), Rewards(arguments.store)), _stop_event()
    learning.start(arguments.namespace)
    print("monitoring", arguments.namespace or "all namespaces", flush=True)
    stop.wait()


def rewards(arguments: argparse.Namespace) -> None:
    """Print the key and value of every reward in the file of the `monitor` command.

    Raises SettingsError if there is no such file.
    """
    if not arguments.file.exists():
        raise SettingsError(f"{arguments.file}: no such file")
    print("\n".join(map(escape, Rewards(arguments.file).format_lines())))


def convert_policy(arguments: argparse.Namespace) -> None:
    """Convert a scheduler Policy file: print the new configuration on stdout and notes on omitted parts on stderr."""
    try:
        text = arguments.file.read_bytes()
    except OSError as e:
        raise PolicyError(f"{arguments.file}: {e.strerror}") from e
    try:
        configuration = policy.convert(text, arguments.scheduler_name, partial(print, "note:", file=sys.stderr))
    except PolicyError as e:
        raise PolicyError(f"{arguments.file}: {e}") from e
    yaml.safe_dump(configuration, sys.stdout, sort_keys=False)


def annotate_usage(arguments: argparse.Namespace) -> None:
    """Annotate nodes with statistics of free cpu and memory."""
    options = _annotator_settings(os.environ)
    with _prometheus(arguments, options) as prometheus:
        annotator = usage.UsageAnnotator(
            prometheus,
            options.node_exp_port,
            options.use_forecast,
            options.use_req,
            float(options.memory_window_seconds),
            float(options.cpu_window_seconds),
            options.rate_seconds,
        )
        _annotate(arguments, annotator, options)


def annotate_allocation(arguments: argparse.Namespace) -> None:
    """Annotate nodes with what pods request and what is free; with --once print it as a table too."""
    options = _annotator_settings(os.environ)
    annotator = allocation.AllocationAnnotator(options.gpu_resource)
    _annotate(arguments, annotator, options)
    if arguments.once:
        with closing(_kube_client(arguments)) as kube:
            print("\n".join(annotator.format_table(list_nodes(kube))))


def annotate_congestion(arguments: argparse.Namespace) -> None:
    """Annotate each node with the share of its network capacity in use."""
    options = _annotator_settings(os.environ)
    with _prometheus(arguments, options) as prometheus:
        annotator = congestion.CongestionAnnotator(
            prometheus, options.node_exp_port, arguments.devices, arguments.capacity, options.rate_seconds
        )
        _annotate(arguments, annotator, options)


def annotate_price(arguments: argparse.Namespace) -> None:
    """Annotate nodes with prices once and print the price of every node.

    Raises RoundError if a price given with --price could not be written.
    """
    prices = dict(_parse_price(text) for text in arguments.price)
    done: RoundResult | None = None
    with closing(_kube_client(arguments)) as kube:
        if not arguments.list:
            annotator = price.PriceAnnotator(prices, arguments.seed, arguments.annotation)
            done = run_round(kube, annotator, _annotation_rate(_annotator_settings(os.environ)), threading.Event())
        for name, value in price.list_prices(list_nodes(kube), arguments.annotation):
            print(name, escape(value))
    if done and (done.problem or (prices and done.failed)):  # A node named with --price must exist.
        raise RoundError(done.problem or f"{done.failed} of {len(prices)} nodes could not be annotated")


def _annotate(arguments: argparse.Namespace, annotator: Annotator, options: AnnotatorSettings) -> None:
    rate = _annotation_rate(options)
    with closing(_kube_client(arguments)) as kube:
        if not arguments.once:
            run(kube, annotator, rate, _stop_event())
            return
        done = run_round(kube, annotator, rate, threading.Event())
    print(f"annotated {done.written} of {done.nodes} nodes with {annotator.group}")
    if done.problem:
        raise RoundError(done.problem)


def _annotator_settings(environment: Mapping[str, str]) -> AnnotatorSettings:
    return settings.load_from_environment(AnnotatorSettings, environment)


def _annotation_rate(options: AnnotatorSettings) -> AnnotationRate:
    return AnnotationRate(float(options.annotate_freq), options.writes_per_second)


def _prometheus(arguments: argparse.Namespace, options: AnnotatorSettings) -> Prometheus:
    return Prometheus(arguments.prometheus or f"http://{options.prom_ip}:{options.prom_port}")


def _parse_price(text: str) -> tuple[str, str]:
    node, equals, value = text.partition("=")
    try:
        if equals and 0 <= float(value) < math.inf:
            return node, value
    except ValueError:
        pass
    raise SettingsError(f"--price {text}: expected NODE=PRICE")


def _kube_client(arguments: argparse.Namespace) -> ApiServer:
    """Return a client for the cluster that flags, the variable CLUSTER_CONF or the default locations name.

    Flags win over CLUSTER_CONF, and both over the default locations. Raises SettingsError if CLUSTER_CONF is invalid.
    """
    cluster_conf = os.environ.get("CLUSTER_CONF", "")
    if cluster_conf not in ("", IN_CLUSTER, OUT_OF_CLUSTER):
        raise SettingsError(f"CLUSTER_CONF {cluster_conf}: expected {IN_CLUSTER} or {OUT_OF_CLUSTER}")
    named = bool(arguments.server or arguments.kubeconfig)
    inside = cluster_conf == IN_CLUSTER or (not cluster_conf and "KUBERNETES_SERVICE_HOST" in os.environ)
    in_cluster = arguments.in_cluster or (inside and not named)
    credentials = find_credentials(kubeconfig=arguments.kubeconfig, master=arguments.server, in_cluster=in_cluster)
    return ApiServer(credentials, user_agent="herodotus-agents")


def _start_node_cache(arguments: argparse.Namespace) -> NodeCache:
    """Return a cache of all nodes that a watch keeps current. Raises ApiError if the first list takes over 30 s."""
    cache = NodeCache()
    target = ListWatch(NODES, "Node", NodeView)
    Reflector(_kube_client(arguments), target, cache.update, longest_pause_s=LONGEST_PAUSE_S).start()
    if not cache.listed.wait(30.0):
        raise ApiError(0, NO_ANSWER, "the API server did not list nodes within 30 s")
    return cache


def _stop_event() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
