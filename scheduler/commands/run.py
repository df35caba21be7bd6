"""The command `run`: a scheduler process from its first request to its last.

Owns: wiring, and the order of start (credentials, HTTPS port, cluster, shipper, Lease, spool, watches, reviews, loop)
and stop (loop, bindings, events, spool, Lease, shipper, HTTPS port). Does not own: the command line (`main`), the steps
that every watching process takes (`process`), the parts themselves.
"""

from __future__ import annotations

import argparse
import signal
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from herodotus_kube import discovery
from herodotus_kube.http import TIMEOUT_S, ApiServer
from herodotus_kube.lease import LeaderElector, LeaseSettings
from herodotus_record import klog
from herodotus_record.model import Reason
from herodotus_record.version import __version__
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.queue import SchedulingQueue
from scheduler.commands import process
from scheduler.commands.health_checks import ProcessHealth
from scheduler.commands.process import Records, StartupError
from scheduler.commands.trace import record_trace
from scheduler.config import Configuration, build_profile
from scheduler.config.defaulted import fill_defaults
from scheduler.config.rules import resolve_rules
from scheduler.engine.cache_verification import CacheDifference, CacheVerifier
from scheduler.engine.framework.profile import Profile
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.sampling import ADAPTIVE
from scheduler.engine.framework.writes import NoWrites, Writes
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.times import parse_seconds
from scheduler.engine.records.build import Origin
from scheduler.extenders.client import HttpExtender, build_extenders
from scheduler.extenders.manifests import KeptManifests
from scheduler.extenders.transport import ExtenderTlsError
from scheduler.live.api_writes import ApiWrites
from scheduler.live.cache_debugger import CacheDebugger
from scheduler.live.event_explanations import EventExplainer
from scheduler.live.events import EventSender
from scheduler.live.in_flight import BindRequests
from scheduler.live.kubelet_rejections import build_rejection_reflectors
from scheduler.live.loop import Loop
from scheduler.live.metrics import SchedulerMetrics
from scheduler.live.node_series import NodeSeries
from scheduler.live.plugin_handle import ApiHandle
from scheduler.live.scheduler import BackgroundThreads, Scheduler, WriteFence
from scheduler.live.unknown_bindings import EarlierBindings
from scheduler.recorder.no_recorder import NoRecorder
from scheduler.recorder.recorder import Recorder
from scheduler.reviews.reviewed_state import ReviewedState
from scheduler.serving import port

BIND_SHARE: Final = 0.9  # of the time between our last renewal's deadline and the Lease's end


@dataclass(frozen=True)
class StartedScheduler:
    """The objects that a started process schedules with, from the configuration to the recorder."""

    config: Configuration
    arguments: argparse.Namespace
    records: Records
    api: ApiServer
    handle: ApiHandle
    frameworks: dict[str, Framework]
    recorder: Recorder
    shared: ClusterState
    events: EventSender | None
    health: ProcessHealth[SchedulerMetrics]
    origin: Origin

    def leading(self) -> bool:
        """Return whether this process may write to the cluster: it holds the Lease, or runs without leader election."""
        return self.health.election is None or self.health.election.leading


def run(config: Configuration, arguments: argparse.Namespace) -> int:
    """Schedule pods until SIGTERM or SIGINT (return 0) or until the Lease is lost (return 1).

    `arguments` is the parsed command line. Raise StartupError if the process cannot start, EndpointError if flags
    contradict each other.
    """
    records, serving = Records.from_arguments(arguments), port.parse_serving_options(arguments)
    stop = process.stop_on_signals()
    with ExitStack() as closing:
        api, api_requests = process.open_api(arguments, config, closing)
        shared = ClusterState()
        evicts = not arguments.dry_run_binding
        handle = ApiHandle(shared, preempts=not arguments.disable_preemption, evicts=evicts)
        extenders = _extenders(config, closing)  # refuse what the file says, at once
        frameworks = _frameworks(config, arguments, handle, extenders, shared)
        health = _build_health(config, records, stop)
        health.metrics.registry.register(api_requests)
        defaulted = fill_defaults(config, arguments.registry)
        content = health.content(defaulted, profiling=config.enable_profiling)
        closing.callback(process.serve(serving, api, content))
        connected = process.connect(api, stop)
        if connected is None:
            return 0
        cluster, absent, version = connected
        if not config.kubernetes_version:
            config = process.with_cluster_rules(config, version)
            frameworks = _frameworks(config, arguments, handle, extenders, shared)
            content.configuration = fill_defaults(config, arguments.registry)
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        origin = Origin(cluster, identity, records.omitted, resolve_rules(config))
        if arguments.record:
            # Before the Lease: a leader that was killed is restarted as a standby, with its records in the spool.
            process.start_delivery(records, api, health, closing)
        election = None
        if config.leader_election.leader_elect and discovery.LEASES not in absent:
            election = health.election = LeaderElector(api, identity, _lease_settings(config))
            klog.info(0, "Attempting to acquire leader lease", identity=identity)
            if not election.acquire(stop):
                return 0
            closing.callback(election.release)  # before the shipper drains: the next leader need not wait for that
        if arguments.record:
            recorder = process.open_recorder(records, origin, _notes(arguments, absent), health, closing)
        else:
            recorder = health.recorder = NoRecorder(__version__)
        if election is not None:
            recorder.record_predecessor(election.previous_annotations)
            election.set_annotations(recorder.build_high_water_annotation)  # not before what was inherited is recorded
        events = EventSender(api, identity) if discovery.EVENTS not in absent else None
        if events is not None:
            closing.callback(events.close)
        lost = _schedule(
            StartedScheduler(
                config, arguments, records, api, handle, frameworks, recorder, shared, events, health, origin
            )
        )
    klog.info(0, "Stopped", recorded=recorder.recorded, dropped=recorder.dropped)
    return 1 if lost else 0


def _schedule(started: StartedScheduler) -> bool:
    """Watch and schedule until the process is stopped or the Lease is lost. Return whether the Lease was lost."""
    config, arguments = started.config, started.arguments
    api, frameworks = started.api, started.frameworks
    health, stop, election = started.health, started.health.stop, started.health.election
    requests, threads = BindRequests(started.recorder), BackgroundThreads(config.parallelism)
    fence = WriteFence(started.leading, _bind_timeout_s(config))
    kinds = process.list_watched_kinds(resolve_rules(config))
    writes: Writes = NoWrites()
    if not arguments.dry_run_binding:
        writes = ApiWrites(api, started.events, requests, threads, fence)
        started.handle.connect(writes)
    scheduler = Scheduler(
        frameworks=frameworks,
        cluster=started.shared,
        queue=SchedulingQueue.for_profiles(
            frameworks, config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
        ),
        recorder=started.recorder,
        metrics=health.metrics,
        requests=requests,
        threads=threads,
        writes=writes,
        fence=fence,
    )
    loop = health.loop = Loop(
        scheduler,
        {kind.name: kind.decode_as for kind in kinds},
        dry_run=arguments.dry_run_binding,
        on_synced=process.freeze_heap,
        cache_verifier=_cache_verifier(started),
        event_explainer=None if arguments.explain_events is None else EventExplainer(arguments.explain_events),
        node_series=_register_node_series(arguments, health.metrics),
    )
    debugger = CacheDebugger(loop, api, frameworks.keys(), process.WATCHED_PODS)
    debugger.start()
    signal.signal(signal.SIGUSR2, debugger.wake)
    if election is not None:
        threading.Thread(target=_stop_when_lost, args=(election, stop), daemon=True).start()
    with ExitStack() as closing:
        tee = closing.enter_context(record_trace(arguments))
        reflectors = process.build_reflectors(
            api, tee(loop.inbox.put), KeptManifests.from_extenders(config.extenders), kinds
        )
        if not arguments.dry_run_binding:
            reflectors += build_rejection_reflectors(api, frameworks, health.metrics.kubelet_rejected)
        for reflector in reflectors:
            reflector.start()
            closing.callback(reflector.stop)
        state = _reviewed_state(started, loop)
        process.start_reviewer(started.records, state, started.origin, api, health, closing)
        earlier = _earlier_bindings(started)
        if earlier is not None:
            earlier.start()
            closing.callback(earlier.close)
        klog.info(0, "Scheduling", profiles=sorted(frameworks), server=api.url)
        loop.run(stop)
    return election is not None and election.lost.is_set()


def _earlier_bindings(started: StartedScheduler) -> EarlierBindings | None:
    """Return the thread that finds results of earlier processes' bindings, or None if it is not needed.

    It is not needed in a dry run, with --no-record, and without a decisions service.
    """
    arguments, records = started.arguments, started.records
    if records.endpoint is None or arguments.dry_run_binding or not arguments.record:
        return None
    return EarlierBindings(
        records.endpoint,
        started.api,
        started.recorder,
        started.leading,
        started.origin.cluster,
        list(started.frameworks),
        elected=started.health.election is not None,
    )


def _reviewed_state(started: StartedScheduler, loop: Loop) -> ReviewedState:
    return ReviewedState(
        thread=loop,
        cluster=started.shared,
        frameworks=started.frameworks,
        pending=lambda: [queued.pod.pod for queued in loop.queue],
        extenders=lambda: build_extenders(started.config.extenders),
        is_active=started.leading,
        rebuild=process.rebuild_with_rules(started.config, started.arguments.registry, started.handle),
        feature_gates=started.config.feature_gates,
    )


def _build_health(config: Configuration, records: Records, stop: threading.Event) -> ProcessHealth[SchedulerMetrics]:
    election = config.leader_election
    elects_s = parse_seconds(election.lease_duration) if election.leader_elect else None
    metrics = SchedulerMetrics()
    health = ProcessHealth(stop, metrics, records.spool, records.limit_bytes, elects_s)
    metrics.leading(election.resource_name, lambda: health.election is not None and health.election.leading)
    metrics.registry.register(health)
    return health


def _extenders(config: Configuration, closing: ExitStack) -> list[HttpExtender]:
    try:
        extenders = build_extenders(config.extenders)
    except ExtenderTlsError as e:
        raise StartupError(f"couldn't build extenders: {e}") from e
    for extender in extenders:
        klog.info(2, "Creating extender", extender=extender.name)
        closing.callback(extender.close)
    return extenders


def _frameworks(
    config: Configuration,
    arguments: argparse.Namespace,
    handle: ApiHandle,
    extenders: list[HttpExtender],
    shared: ClusterState,
) -> dict[str, Framework]:
    profiles = [_profile(config, i, arguments, handle) for i in range(len(config.profiles))]
    return {p.scheduler_name: Framework(p, time.monotonic, extenders, shared.nominator) for p in profiles}


def _profile(config: Configuration, index: int, arguments: argparse.Namespace, handle: ApiHandle) -> Profile:
    """Return the profile at `index` of the configuration with new plugins. Raises ConfigError."""
    profile = build_profile(config, index, arguments.registry, handle)
    if arguments.adaptive_sampling and profile.percentage_of_nodes_to_score == 0:
        return replace(profile, percentage_of_nodes_to_score=ADAPTIVE)
    return profile


def _cache_verifier(started: StartedScheduler) -> CacheVerifier | None:
    """Return the verifier of cached results, which logs and counts differences; None without --verify-cache."""
    arguments, config = started.arguments, started.config
    if arguments.verify_cache is None:
        return None

    def report(pod: PodInfo, differences: Sequence[CacheDifference]) -> None:
        started.health.metrics.verified(differences)
        for difference in differences:
            klog.error(
                "computing it again gives another result",
                "A cached result is wrong; the decision was made without the cache",
                pod=pod.full_name,
                plugin=difference.plugin,
                extensionPoint=difference.point,
                nodes=list(difference.nodes),
            )

    profiles = {
        profile.scheduler_name: partial(_profile, config, i, arguments, started.handle)
        for i, profile in enumerate(config.profiles)
    }
    return CacheVerifier(arguments.verify_cache, profiles, report)


def _register_node_series(arguments: argparse.Namespace, metrics: SchedulerMetrics) -> NodeSeries | None:
    """Return the metrics of single nodes, which are served from now on, or None without --node-series."""
    if arguments.node_series is None:
        return None
    series = NodeSeries(arguments.node_series)
    metrics.registry.register(series)
    return series


def _notes(arguments: argparse.Namespace, absent: dict[str, str]) -> tuple[Reason, ...]:
    notes = list(process.build_absent_api_notes(absent))
    if arguments.disable_preemption:
        notes.append(Reason("preemption-disabled"))
    if arguments.dry_run_binding:
        notes.append(Reason("dry-run"))
    return tuple(notes)


def _lease_settings(config: Configuration) -> LeaseSettings:
    election = config.leader_election
    return LeaseSettings(
        namespace=election.resource_namespace,
        name=election.resource_name,
        duration_s=parse_seconds(election.lease_duration),
        renew_deadline_s=parse_seconds(election.renew_deadline),
        retry_period_s=parse_seconds(election.retry_period),
    )


def _bind_timeout_s(config: Configuration) -> float:
    """Return the timeout of a bind request in seconds.

    With leader election, it is short enough that a leader's request is over before another leader can start.
    """
    lease = _lease_settings(config)
    if not config.leader_election.leader_elect:
        return TIMEOUT_S
    return min(TIMEOUT_S, (lease.duration_s - lease.renew_deadline_s) * BIND_SHARE)


def _stop_when_lost(election: LeaderElector, stop: threading.Event) -> None:
    election.lost.wait()
    stop.set()
