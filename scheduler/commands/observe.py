"""The command `python -m scheduler observe`: its options, and an observing process from start to end.

Owns: wiring. Does not own: the steps that every watching process takes (`process`), observing
(`scheduler.offline.observe`).
"""

from __future__ import annotations

import argparse
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from herodotus_record import klog
from scheduler.backend.cluster_state import ClusterState
from scheduler.commands import process
from scheduler.commands.flags import parse_names
from scheduler.commands.health_checks import ProcessHealth
from scheduler.commands.process import Records
from scheduler.commands.trace import Tee, record_trace
from scheduler.commands.version_watch import VersionWatch
from scheduler.config import Configuration, Registry, build_profile
from scheduler.config.defaulted import fill_defaults
from scheduler.config.rules import resolve_rules
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.records.build import Origin
from scheduler.extenders.manifests import KeptManifests
from scheduler.live.plugin_handle import ApiHandle
from scheduler.offline.observe.agreement import ObservedScheduler
from scheduler.offline.observe.configuration import drop_unknown_plugins, for_pods_of
from scheduler.offline.observe.metrics import ObserverMetrics
from scheduler.offline.observe.observer import Observer
from scheduler.reviews.reviewed_state import ReviewedState
from scheduler.serving import port

WINDOW_S: Final = 1.0
STOP_CHECK_S: Final = 1.0  # how long after the end of one observer its thread that waits for signals may live

Json = dict[str, Any]


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `observe` to its parser."""
    command.description = (
        "Watch the pods of another scheduler, reconstruct its decisions with its configuration, and record whether they"
        " agree with what it did. With --endpoint, also answer what-if questions with that configuration. Nothing is"
        " written to the cluster."
    )
    command.add_argument(
        "--schedulers",
        type=parse_names,
        default=(),
        metavar="NAMES",
        help="whose pods are observed, with commas (default: the profiles of --config); of those without a profile of"
        " their own the first profile is taken",
    )
    command.add_argument(
        "--window",
        type=_seconds,
        default=WINDOW_S,
        metavar="SECONDS",
        help="how long changes are held back, to detect bindings seen out of order (default 1)",
    )


def observe(arguments: argparse.Namespace, config: Configuration) -> int:
    """Reconstruct and record the decisions of other schedulers until SIGTERM or SIGINT; return the exit code 0.

    When the cluster's kube-scheduler is upgraded, begin anew with the rules of its version, as a restart would. Raise
    StartupError if the process cannot start.
    """
    stop = process.stop_on_signals()
    with record_trace(arguments) as tee:
        while not stop.is_set():
            _observe_until_upgrade(arguments, config, stop, tee)
    return 0


def _observe_until_upgrade(
    arguments: argparse.Namespace, config: Configuration, stop: threading.Event, tee: Tee
) -> None:
    """Observe with the rules of the cluster's present version, until `stop` is set or other rules apply.

    The watches' messages go to the observer through a sink that `tee` returns.
    """
    states_version = bool(config.kubernetes_version)
    records = Records.from_arguments(arguments)
    with ExitStack() as closing:
        ending = closing.enter_context(_ended_by(stop))
        api, api_requests = process.open_api(arguments, config, closing)
        shared = ClusterState()
        observed = _Observed.from_configuration(arguments, config, shared)  # refuse what the file says, at once
        metrics = ObserverMetrics()
        health = ProcessHealth(ending, metrics, records.spool, records.limit_bytes, None)
        metrics.registry.register(health)
        metrics.registry.register(api_requests)
        content = health.content(observed.document, profiling=config.enable_profiling)
        closing.callback(process.serve(port.parse_serving_options(arguments), api, content))
        connected = process.connect(api, ending)
        if connected is None:
            return
        cluster, absent, version = connected
        if not states_version:
            config = process.with_cluster_rules(config, version)
            observed = _Observed.from_configuration(arguments, config, shared)
            content.configuration = observed.document
        rules = resolve_rules(config)
        origin = Origin(cluster, f"{socket.gethostname()}_{uuid.uuid4()}", records.omitted, rules)
        process.start_delivery(records, api, health, closing)
        recorder = process.open_recorder(records, origin, process.build_absent_api_notes(absent), health, closing)
        kinds = process.list_watched_kinds(rules)
        decoded = {kind.name: kind.decode_as for kind in kinds}
        observer = Observer(observed.frameworks, observed.theirs, decoded, arguments.window, recorder, shared, metrics)
        health.loop = observer
        upgrades = VersionWatch(partial(process.read_version, api), version, ending.set)
        if not states_version:
            upgrades.start()
            closing.callback(upgrades.close)
        reflectors = process.build_reflectors(
            api, tee(observer.inbox.put), KeptManifests.from_extenders(()), kinds, upgrades.wake
        )
        for reflector in reflectors:
            reflector.start()
            closing.callback(reflector.stop)
        state = ReviewedState(
            observer,
            shared,
            observed.frameworks,
            observer.list_waiting_pods,
            notes=observer.build_review_notes,
            rebuild=process.rebuild_with_rules(
                observed.evaluated, arguments.registry, ApiHandle(shared, preempts=True, evicts=False)
            ),
            feature_gates=observed.evaluated.feature_gates,
        )
        process.start_reviewer(records, state, origin, api, health, closing)
        klog.info(0, "Observing", schedulers=sorted(observed.frameworks), server=api.url)
        observer.run(ending)
    klog.info(0, "Stopped", recorded=recorder.recorded, dropped=recorder.dropped)


@contextmanager
def _ended_by(stop: threading.Event) -> Iterator[threading.Event]:
    """Context manager that yields an event that is set soon after `stop` is set; setting it does not set `stop`."""
    ending, over = threading.Event(), threading.Event()

    def follow() -> None:
        while not stop.wait(STOP_CHECK_S):
            if over.is_set():
                return
        ending.set()

    threading.Thread(target=follow, name="end", daemon=True).start()
    try:
        yield ending
    finally:
        over.set()


class _Observed(NamedTuple):
    """The frameworks and the configuration with which the decisions of the observed schedulers are reconstructed.

    `frameworks` are built from `evaluated`, the configuration without extenders and unknown plugins. `theirs` holds, by
    scheduler name, what `evaluated` lacks, and `document` the whole configuration with its defaults.
    """

    evaluated: Configuration
    frameworks: dict[str, Framework]
    theirs: Mapping[str, ObservedScheduler]
    document: Json

    @classmethod
    def from_configuration(
        cls, arguments: argparse.Namespace, config: Configuration, shared: ClusterState
    ) -> _Observed:
        """Return new frameworks for the schedulers of the command line or of the profiles. Raise ConfigError."""
        whole = for_pods_of(arguments.schedulers or [p.scheduler_name for p in config.profiles], config)
        evaluated, theirs = drop_unknown_plugins(whole, arguments.registry)
        frameworks = _frameworks(evaluated, arguments.registry, shared)
        return cls(evaluated, frameworks, theirs, fill_defaults(whole, arguments.registry))


def _frameworks(config: Configuration, registry: Registry, shared: ClusterState) -> dict[str, Framework]:
    handle = ApiHandle(shared, preempts=True, evicts=False)
    profiles = (build_profile(config, i, registry, handle) for i in range(len(config.profiles)))
    return {p.scheduler_name: Framework(p, time.monotonic, (), shared.nominator) for p in profiles}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 60")
    return seconds
