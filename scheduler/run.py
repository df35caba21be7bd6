"""`run`: a scheduler process from its first request to its last.

Owns: wiring, and the order of start (credentials, cluster, spool, Lease, watches, loop) and stop (loop, bindings,
events, Lease, spool, shipper). Does not own: the command line (`app`), anything that the parts do.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from scheduler import klog
from scheduler.config import Configuration, build_profile
from scheduler.eventhandlers import NODES, PODS
from scheduler.framework.runtime import Framework
from scheduler.framework.sampling import ADAPTIVE
from scheduler.kube import credentials, discovery
from scheduler.kube.events import EventSender
from scheduler.kube.http import ApiError, ApiServer
from scheduler.kube.kinds import KINDS
from scheduler.kube.lease import LeaderElection, LeaseSettings
from scheduler.kube.watch import Reflector
from scheduler.kube.writes import bind
from scheduler.loop import Loop
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.durations import seconds
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node, Pod
from scheduler.plugins import IN_TREE
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from scheduler.recorder.supervisor import Supervisor
from scheduler.version import __version__
from scheduler.writes import ApiWrites

NOT_FINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
CONNECT_BACKOFF_S: Final = (0.5, 10.0)  # while the API server does not answer at start


class RefusedError(Exception):
    """This scheduler will not, or cannot, run here: one line that says why."""


@dataclass(frozen=True)
class RunSettings:
    """What the command line adds to the configuration."""

    kubeconfig: str | None
    context: str | None
    master: str | None
    spool: Path
    spool_limit_bytes: int
    endpoint: str | None
    verbosity: int
    adaptive_sampling: bool


def run(config: Configuration, settings: RunSettings) -> int:
    """Schedule until SIGTERM or SIGINT (0), or until the Lease is lost (1). RefusedError when it cannot start."""
    stop = _stop_on_signals()
    found = credentials.find(
        kubeconfig=settings.kubeconfig or config.client_connection.kubeconfig or None,
        context=settings.context,
        master=settings.master,
    )
    with ExitStack() as closing:
        api = ApiServer(found)
        closing.callback(api.close)
        objects = ClusterObjects()
        frameworks = _frameworks(config, settings, _ApiHandle(api, objects))  # refuses what the file says, at once
        connected = _connect(api, stop)
        if connected is None:
            return 0
        cluster, absent = connected
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        election = None
        if config.leader_election.leader_elect and discovery.LEASES not in absent:
            election = LeaderElection(api, identity, _lease_settings(config))
            klog.info(0, "Attempting to acquire leader lease", identity=identity)
            if not election.acquire(stop):
                return 0
            closing.callback(election.release)
        recorder = _recorder(settings, cluster, identity, absent)
        if settings.endpoint:
            closing.callback(Supervisor(settings.spool, settings.endpoint, settings.verbosity).close)
        closing.callback(recorder.close)
        if election is not None:
            closing.callback(election.release)  # before the shipper drains: the next leader need not wait for that
        events = EventSender(api, identity) if discovery.EVENTS not in absent else None
        if events is not None:
            closing.callback(events.close)
        lost = _schedule(config, api, frameworks, recorder, objects, events, stop, election)
    klog.info(0, "Stopped", recorded=recorder.recorded, dropped=recorder.dropped)
    return 1 if lost else 0


def _schedule(
    config: Configuration,
    api: ApiServer,
    frameworks: dict[str, Framework],
    recorder: Recorder,
    objects: ClusterObjects,
    events: EventSender | None,
    stop: threading.Event,
    election: LeaderElection | None,
) -> bool:
    """Watch and schedule until `stop`, or until the Lease is lost; whether it was."""
    writes = ApiWrites(api, events, lambda work: loop.binder.aside(work))
    loop = Loop(
        frameworks,
        recorder,
        writes,
        objects,
        {kind.name: kind.decode_as for kind in KINDS},
        binding_threads=config.parallelism,
        initial_backoff_s=config.pod_initial_backoff_seconds,
        max_backoff_s=config.pod_max_backoff_seconds,
    )
    if election is not None:
        threading.Thread(target=_stop_when_lost, args=(election, stop), daemon=True).start()
    reflectors: list[Reflector[Any]] = [
        Reflector(api, "/api/v1/nodes", NODES, Node, loop.inbox.put),
        Reflector(api, "/api/v1/pods", PODS, Pod, loop.inbox.put, {"fieldSelector": NOT_FINISHED}),
        *(Reflector(api, kind.path, kind.name, kind.decode_as, loop.inbox.put, optional=True) for kind in KINDS),
    ]
    for reflector in reflectors:
        reflector.start()
    klog.info(0, "Scheduling", profiles=sorted(frameworks), server=api.url)
    loop.run(stop)
    for reflector in reflectors:
        reflector.stop()
    return election is not None and election.lost.is_set()


class _ApiHandle:
    """The plugins' handle."""

    binds_volumes = False  # not built yet: VolumeBinding refuses the pods that would need it
    evicts = False  # not built yet: DefaultPreemption says so in its message

    def __init__(self, api: ApiServer, objects: ClusterObjects) -> None:
        self._api = api
        self.objects = objects

    def bind(self, pod: PodInfo, node: str) -> None:
        klog.info(3, "Attempting to bind pod to node", pod=pod.full_name, node=node)
        bind(self._api, pod, node)


def _frameworks(config: Configuration, settings: RunSettings, handle: _ApiHandle) -> dict[str, Framework]:
    frameworks = {}
    for i in range(len(config.profiles)):
        profile = build_profile(config, i, IN_TREE, handle)
        if settings.adaptive_sampling and profile.percentage_of_nodes_to_score == 0:
            profile = replace(profile, percentage_of_nodes_to_score=ADAPTIVE)
        frameworks[profile.scheduler_name] = Framework(profile, time.monotonic)
    return frameworks


def _connect(api: ApiServer, stop: threading.Event) -> tuple[str, dict[str, str]] | None:
    """The cluster's id and the absent APIs, as soon as the API server answers; None when `stop` came first."""
    pause = CONNECT_BACKOFF_S[0]
    while not stop.is_set():
        try:
            version = discovery.server_version(api)
            cluster = discovery.cluster_id(api)
            absent = discovery.absent_groups(api)
            klog.info(0, "Connected", server=api.url, version=version, cluster=cluster)
            return cluster, absent
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise RefusedError(f"{api.url} does not answer as a Kubernetes API server does") from e
        except ApiError as e:
            if e.code in (401, 403):
                raise RefusedError(f"the API server {api.url} refuses us: {e}") from e
            klog.error(e, "API server does not answer yet, trying again", server=api.url)
            stop.wait(pause * random.uniform(1, 1.5))
            pause = min(pause * 2, CONNECT_BACKOFF_S[1])
    return None


def _recorder(settings: RunSettings, cluster: str, identity: str, absent: dict[str, str]) -> Recorder:
    marks = tuple(f"absent: {api}, so no {purpose}" for api, purpose in absent.items())
    try:
        return Recorder(
            lambda incarnation: Spool(settings.spool, incarnation, settings.spool_limit_bytes),
            cluster,
            identity,
            __version__,
            marks,
        )
    except OSError as e:
        raise RefusedError(f"cannot use the spool directory {settings.spool}: {e.strerror or e}") from e


def _lease_settings(config: Configuration) -> LeaseSettings:
    election = config.leader_election
    return LeaseSettings(
        namespace=election.resource_namespace,
        name=election.resource_name,
        duration_s=seconds(election.lease_duration),
        renew_deadline_s=seconds(election.renew_deadline),
        retry_period_s=seconds(election.retry_period),
    )


def _stop_on_signals() -> threading.Event:
    """Set on SIGTERM or SIGINT; a second one ends the process at once."""
    stop = threading.Event()

    def on_signal(number: int, _: object) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


def _stop_when_lost(election: LeaderElection, stop: threading.Event) -> None:
    election.lost.wait()
    stop.set()
