"""What each command puts together from flags and the environment variables of the original agents."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Final

import msgspec
import yaml
from flask import Flask

from herodotus_agents import policy, server, settings
from herodotus_agents.agent import Settings
from herodotus_agents.annotators import allocation, congestion, price, usage
from herodotus_agents.annotators.controller import NODES, Measure, Rhythm, nodes_of, one_round, run
from herodotus_agents.app import create_app
from herodotus_agents.kube import Kube, KubeError
from herodotus_agents.monitor import Monitor
from herodotus_agents.nodes import KnownNodes
from herodotus_agents.policy import PolicyError
from herodotus_agents.prometheus import Prometheus
from herodotus_agents.registry import load
from herodotus_agents.rewards import Rewards
from herodotus_agents.settings import SettingsError

_log: Final = logging.getLogger(__name__)

OUT_OF_CLUSTER: Final = "out-of-cluster"
IN_CLUSTER: Final = "in-cluster"


class Annotating(Settings, frozen=True):
    """Of the annotators, by the names of the originals."""

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
    rate_seconds: Annotated[int, msgspec.Meta(ge=1)] = 60
    gpu_resource: str = "nvidia.com/gpu"


def serve(arguments: argparse.Namespace) -> None:
    """The extender service, until SIGTERM."""
    service = settings.service(arguments.config, os.environ)
    logging.getLogger().setLevel(settings.level(service.log_level))
    names = tuple(arguments.agents.split(",")) if arguments.agents else service.agents
    loaded = load(names, service.settings, os.environ)
    if not loaded.agents:
        raise SettingsError("no agent could be loaded, and without one there is nothing to serve")
    _log.info("agents: %s; log level %s", ", ".join(loaded.agents), service.log_level)

    def make() -> Flask:
        known = _known_nodes(arguments) if arguments.watch_nodes or service.watch_nodes else None
        return create_app(loaded, known)

    port = service.http_port if arguments.port is None else arguments.port
    server.serve(arguments.address or service.address, port, service.threads, make)


def monitor(arguments: argparse.Namespace) -> None:
    """Learn until SIGTERM."""
    learning, stop = Monitor(_kube(arguments), Rewards(arguments.store)), _stopped_by_signal()
    # a thread of its own: a watch that waits for events does not hear of signals
    threading.Thread(target=learning.run, args=(arguments.namespace, stop), name="monitor", daemon=True).start()
    print("monitoring", arguments.namespace or "all namespaces", flush=True)
    stop.wait()


def rewards(arguments: argparse.Namespace) -> None:
    """Every key and its value."""
    if not arguments.file.exists():
        raise SettingsError(f"{arguments.file}: no such file")
    print("\n".join(Rewards(arguments.file).lines()))


def convert_policy(arguments: argparse.Namespace) -> None:
    """The new configuration on standard output, notes on standard error."""
    try:
        text = arguments.file.read_bytes()
    except OSError as e:
        raise PolicyError(f"{arguments.file}: {e.strerror}") from e
    try:
        found = policy.converted(text, arguments.scheduler_name, partial(print, "note:", file=sys.stderr))
    except PolicyError as e:
        raise PolicyError(f"{arguments.file}: {e}") from e
    yaml.safe_dump(found, sys.stdout, sort_keys=False)


def annotate_usage(arguments: argparse.Namespace) -> None:
    """Free cpu and memory."""
    chosen = _annotating(os.environ)
    with _prometheus(arguments, chosen) as prometheus:
        measure = usage.Usage(
            prometheus,
            chosen.node_exp_port,
            chosen.use_forecast,
            chosen.use_req,
            float(chosen.memory_window_seconds),
            float(chosen.cpu_window_seconds),
            chosen.rate_seconds,
        )
        _annotate(arguments, measure, chosen)


def annotate_allocation(arguments: argparse.Namespace) -> None:
    """Requested and left."""
    chosen = _annotating(os.environ)
    _annotate(arguments, allocation.Allocation(chosen.gpu_resource), chosen)


def annotate_congestion(arguments: argparse.Namespace) -> None:
    """Use of the network."""
    chosen = _annotating(os.environ)
    with _prometheus(arguments, chosen) as prometheus:
        measure = congestion.Congestion(
            prometheus, chosen.node_exp_port, arguments.devices, arguments.capacity, chosen.rate_seconds
        )
        _annotate(arguments, measure, chosen)


def annotate_price(arguments: argparse.Namespace) -> None:
    """Once; prints every node and its price."""
    kube = _kube(arguments)
    given = dict(_price(text) for text in arguments.price)
    if not arguments.list:
        measure = price.Price(given, arguments.seed, arguments.annotation)
        one_round(kube, measure, _rhythm(_annotating(os.environ)), threading.Event())
    for name, value in price.listed(nodes_of(kube), arguments.annotation):
        print(name, value)


def _annotate(arguments: argparse.Namespace, measure: Measure, chosen: Annotating) -> None:
    kube, rhythm = _kube(arguments), _rhythm(chosen)
    if arguments.once:
        one_round(kube, measure, rhythm, threading.Event())
    else:
        run(kube, measure, rhythm, _stopped_by_signal())


def _annotating(environment: Mapping[str, str]) -> Annotating:
    return settings.from_environment(Annotating, environment)


def _rhythm(chosen: Annotating) -> Rhythm:
    return Rhythm(float(chosen.annotate_freq), chosen.writes_per_second)


def _prometheus(arguments: argparse.Namespace, chosen: Annotating) -> Prometheus:
    return Prometheus(arguments.prometheus or f"http://{chosen.prom_ip}:{chosen.prom_port}")


def _price(text: str) -> tuple[str, str]:
    node, equals, value = text.partition("=")
    try:
        if equals and float(value) >= 0:
            return node, value
    except ValueError:
        pass
    raise SettingsError(f"--price {text}: expected NODE=PRICE")


def _kube(arguments: argparse.Namespace) -> Kube:
    """Flags before CLUSTER_CONF before the usual places."""
    where = os.environ.get("CLUSTER_CONF", "")
    if where not in ("", IN_CLUSTER, OUT_OF_CLUSTER):
        raise SettingsError(f"CLUSTER_CONF {where}: expected {IN_CLUSTER} or {OUT_OF_CLUSTER}")
    named = bool(arguments.server or arguments.kubeconfig)
    around = where == IN_CLUSTER or (not where and "KUBERNETES_SERVICE_HOST" in os.environ)
    in_cluster = arguments.in_cluster or (around and not named)
    return Kube.find(server=arguments.server, kubeconfig=arguments.kubeconfig, in_cluster=in_cluster)


def _known_nodes(arguments: argparse.Namespace) -> KnownNodes:
    """Nodes by name, filled before the first request. KubeError."""
    known, kube, stop = KnownNodes(), _kube(arguments), threading.Event()
    filled = threading.Event()

    def listed(objects: list[msgspec.Raw]) -> None:
        known.listed(objects)
        filled.set()

    watch = threading.Thread(target=kube.follow, args=(NODES, listed, known.changed, stop), name="nodes", daemon=True)
    watch.start()
    if not filled.wait(30.0):
        raise KubeError("nodes could not be listed within 30 s")
    return known


def _stopped_by_signal() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
