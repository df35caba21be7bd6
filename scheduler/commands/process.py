"""The steps that every watching and recording process takes: signals, HTTPS port, first request, recorder, watches.

Owns: these steps. Does not own: their order, and the purpose of the process (`run`, `observe`).
"""

from __future__ import annotations

import argparse
import gc
import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from herodotus_kube import discovery
from herodotus_kube.credentials import find_credentials
from herodotus_kube.http import ApiError, ApiServer
from herodotus_kube.published_authorities import watch_service_authority
from herodotus_kube.request_metrics import RequestMetrics
from herodotus_kube.watch import ListWatch, Reflector, Sink
from herodotus_record import klog
from herodotus_record.model import Reason
from herodotus_record.version import __version__
from herodotus_serving.certificates import CertificateError
from herodotus_serving.memory import return_large_blocks
from herodotus_serving.sockets import ListenError
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.commands.health_checks import ProcessHealth
from scheduler.config import Configuration, Registry, build_profile
from scheduler.config.cluster_version import FoundVersion, find_version
from scheduler.config.rules import override_rules, resolve_rules
from scheduler.engine.framework.plugin import Handle
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.objects.watched_kinds import DEVICE_TAINT_RULES, KINDS, POD_GROUPS, WatchedKind
from scheduler.engine.records.build import Origin
from scheduler.engine.records.omitted_labels import OmittedLabels
from scheduler.engine.rules import Rules, feature_gates
from scheduler.extenders.manifests import KeptManifests
from scheduler.recorder import endpoint
from scheduler.recorder.endpoint import EndpointError, ServiceEndpoint
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from scheduler.recorder.supervisor import Supervisor
from scheduler.reviews.review_client import ReviewClient
from scheduler.reviews.reviewed_state import ReviewedState
from scheduler.reviews.reviewer import ReviewWorker
from scheduler.serving import port
from scheduler.serving.port import ServingOptions
from scheduler.serving.routes import Content

_KINDS_OF_GATES: Final = {
    feature_gates.GENERIC_WORKLOAD: POD_GROUPS,
    feature_gates.DEVICE_TAINT_RULES: DEVICE_TAINT_RULES,
}
WATCHED_PODS: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
CONNECT_BACKOFF_S: Final = (0.5, 10.0)  # while the API server does not answer at start
AUTHORITY_FILE: Final = "endpoint-ca.crt"  # in the spool directory, the only one that the process may write to


class StartupError(Exception):
    """This process cannot, or must not, run with these options or on this cluster. The message is one line."""


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM or SIGINT sets. A second signal ends the process at once.

    A thread sets the event, since a handler may interrupt the main thread while it holds the event's lock.
    """
    stop, signals = threading.Event(), queue.SimpleQueue[int]()
    numbers: list[int] = []

    def on_signal(number: int, _: object) -> None:
        if numbers:
            os._exit(128 + number)
        numbers.append(number)
        signals.put(number)

    def pass_on() -> None:
        signals.get()
        stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until there is a cache to dump: it would end us
    return stop


def open_api(
    arguments: argparse.Namespace, config: Configuration, closing: ExitStack
) -> tuple[ApiServer, RequestMetrics]:
    """Return a client of the API server that the command line or the configuration names, and its metrics.

    The client is closed with `closing`.
    """
    credentials = find_credentials(
        kubeconfig=arguments.kubeconfig or config.client_connection.kubeconfig or None,
        context=arguments.context,
        master=arguments.master,
    )
    metrics = RequestMetrics(credentials.url)
    api = ApiServer(credentials, observer=metrics)
    closing.callback(api.close)
    return api, metrics


def serve(options: ServingOptions, api: ApiServer, content: Content) -> Callable[[], None]:
    """Serve the HTTPS port and probes in threads, and return a function that stops them.

    Raise StartupError if that is impossible.
    """
    try:
        return port.serve(options, api, content)
    except ListenError as e:
        flags = "--probe-bind" if e.address in options.probes else "--bind-address, --secure-port"
        raise StartupError(f"cannot serve on {e.address} ({flags}): {e.reason}") from e
    except CertificateError as e:
        address = f"{options.host}:{options.port}"
        raise StartupError(f"cannot serve on {address} (--bind-address, --secure-port): {e}") from e


class ConnectedCluster(NamedTuple):
    """A cluster's ID, its missing API groups with their purposes, and the version that its kube-scheduler has."""

    id: str
    absent: dict[str, str]
    version: FoundVersion


def connect(api: ApiServer, stop: threading.Event) -> ConnectedCluster | None:
    """Wait until the API server responds, and return the cluster's ID, missing API groups and kube-scheduler version.

    Return None if `stop` was set first. Raise StartupError if the server refuses this client or is not a Kubernetes API
    server.
    """
    pause = CONNECT_BACKOFF_S[0]
    while not stop.is_set():
        try:
            version = discovery.fetch_server_version(api)
            cluster = discovery.fetch_cluster_id(api)
            absent = discovery.find_absent_groups(api)
            klog.info(0, "Connected", server=api.url, version=version, cluster=cluster)
            return ConnectedCluster(cluster, absent, read_version(api))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise StartupError(f"{api.url} does not answer as a Kubernetes API server does") from e
        except ApiError as e:
            if e.code in (401, 403):
                raise StartupError(f"the API server {api.url} refuses us: {e}") from e
            klog.error(e, "API server does not answer yet, trying again", server=api.url)
            stop.wait(pause * random.uniform(1, 1.5))
            pause = min(pause * 2, CONNECT_BACKOFF_S[1])
    return None


def read_version(api: ApiServer) -> FoundVersion:
    """Return the version of the cluster's kube-scheduler, from what this client is allowed to read.

    Raise ApiError if the API server fails to answer a request; a 401, 403 or 404 only means that a source is missing.
    """

    def read(path: str) -> Any:
        try:
            return msgspec.json.decode(api.get(path))
        except msgspec.DecodeError:
            return None
        except ApiError as e:
            if e.code in (401, 403, 404):
                return None
            raise

    return find_version(read)


def with_cluster_rules(config: Configuration, cluster_version: FoundVersion) -> Configuration:
    """Return the configuration with the rules of the cluster's kube-scheduler; a version that it states itself stays.

    Raise FeatureGateError if the configuration sets a feature gate that this version does not have.
    """
    changed = override_rules(config, version=cluster_version)
    rules = resolve_rules(changed)
    if cluster_version.stated and rules.source == cluster_version.source.value:
        klog.warning("The rules of this version are not known", version=cluster_version.stated, applied=str(rules))
    klog.info(0, "Deciding by the rules of kube-scheduler", version=str(rules), source=rules.source)
    return changed


def build_absent_api_notes(absent: Mapping[str, str]) -> tuple[Reason, ...]:
    """Return a note for each API group that the server does not serve, to be added to all records of this process.

    `absent` maps a group to the feature that is switched off.
    """
    return tuple(Reason("absent-api", {"api": api, "purpose": purpose}) for api, purpose in absent.items())


@dataclass(frozen=True)
class Records:
    """The command-line options for records: the spool, the decisions service, which labels are omitted.

    `shipper_log` holds the log options of the shipper's command line. `node_groups` is whether the verdicts of node
    groups are recorded. `authority` names the ConfigMap (namespace and name) from which the endpoint's `ca_file` is
    written, or is None if that file is mounted or not needed.
    """

    spool: Path
    limit_bytes: int
    omitted: OmittedLabels
    endpoint: ServiceEndpoint | None
    shipper_log: tuple[str, ...]
    node_groups: bool = False
    authority: tuple[str, str] | None = None

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Records:
        """Return the options for records from the parsed command line.

        Raise EndpointError if the flags contradict each other.
        """
        if arguments.record_node_groups and not arguments.endpoint:
            raise EndpointError("--record-node-groups needs a decisions service: give --endpoint, too")
        service, authority = endpoint.endpoint_from_arguments(arguments), arguments.endpoint_ca_configmap
        if service is not None and authority is not None:
            if service.ca_file is not None:
                raise EndpointError("give --endpoint-ca-file or --endpoint-ca-configmap, not both")
            service = replace(service, ca_file=arguments.spool / AUTHORITY_FILE)
            service.check()
        return cls(
            arguments.spool,
            arguments.spool_limit,
            arguments.omit_labels,
            service,
            ("--v", str(arguments.v), "--logging-format", arguments.logging_format),
            arguments.record_node_groups,
            authority,
        )


def start_delivery(records: Records, api: ApiServer, health: ProcessHealth[Any], closing: ExitStack) -> None:
    """Start the shipper, and the thread that reads the service's CA certificate if it is published in a ConfigMap.

    Do nothing if no decisions service is given. The shipper also delivers what earlier processes left in the spool
    directory. When it is closed, with `closing`, it delivers what is left. Raise StartupError if the directory cannot
    be used.
    """
    if records.endpoint is None:
        return
    try:
        records.spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as e:
        raise _build_spool_error(records, e) from e
    if records.authority is not None and records.endpoint.ca_file is not None:
        reader = watch_service_authority(api, records.authority, records.endpoint.ca_file)
        closing.callback(reader.close)
        reader.start()
    health.supervisor = Supervisor(records.spool, records.endpoint, *records.shipper_log)
    closing.callback(health.supervisor.close)


def start_reviewer(
    records: Records, state: ReviewedState, origin: Origin, api: ApiServer, health: ProcessHealth[Any], stack: ExitStack
) -> None:
    """Start to answer what-if questions, and to record verdicts of node groups if the options ask for it.

    Both end with `stack`. Do nothing if no decisions service is given.
    """
    if records.endpoint is None:
        return
    client = ReviewClient(records.endpoint, origin.cluster, list(state.frameworks))
    reviewer = ReviewWorker(state, client, api, origin)
    reviewer.start()
    stack.callback(reviewer.close)
    if records.node_groups and health.recorder is not None:
        from scheduler.reviews.node_group_recorder import NodeGroupRecorder

        node_groups = health.node_groups = NodeGroupRecorder(reviewer, health.recorder.record_node_groups)
        health.recorder.on_no_node = node_groups.add
        node_groups.start()
        stack.callback(node_groups.close)


def open_recorder(
    records: Records, origin: Origin, notes: tuple[Reason, ...], health: ProcessHealth[Any], closing: ExitStack
) -> Recorder:
    """Return a recorder that writes to the spool and is closed with `closing`.

    Raise StartupError if the spool directory cannot be used.
    """
    try:
        recorder = Recorder(
            lambda incarnation: Spool(records.spool, incarnation, records.limit_bytes), origin, __version__, notes
        )
    except OSError as e:
        raise _build_spool_error(records, e) from e
    health.recorder = recorder
    closing.callback(recorder.close)
    return recorder


def _build_spool_error(records: Records, error: OSError) -> StartupError:
    return StartupError(f"cannot use the spool directory {records.spool}: {error.strerror or error}")


def list_watched_kinds(rules: Rules) -> tuple[WatchedKind, ...]:
    """Return the kinds that a process with these rules watches besides nodes and pods."""
    return *KINDS, *(kind for gate, kind in _KINDS_OF_GATES.items() if rules.enabled(gate))


def build_reflectors(
    api: ApiServer,
    sink: Sink,
    manifests: KeptManifests,
    kinds: Iterable[WatchedKind],
    on_interrupted: Callable[[], None] = lambda: None,
) -> list[Reflector[Any]]:
    """Return a reflector, not started yet, for nodes, pods and each of `kinds`.

    They pass their messages to `sink`, and call `on_interrupted` when the API server ends or refuses a watch.
    """
    targets: list[ListWatch[Any]] = [
        ListWatch("/api/v1/nodes", NODES, Node, manifest=manifests.of_node),
        ListWatch("/api/v1/pods", PODS, Pod, WATCHED_PODS, manifest=manifests.of_pod),
        *(ListWatch(kind.path, kind.name, kind.decode_as, optional=True) for kind in kinds),
    ]
    return [Reflector(api, target, sink, on_interrupted) for target in targets]


def rebuild_with_rules(
    config: Configuration, registry: Registry, handle: Handle
) -> Callable[[Rules], Callable[[str], Framework]]:
    """Return a function that takes the rules of a Kubernetes version and returns a framework builder by scheduler name.

    It serves questions about another version of Kubernetes. A name without a profile gets the framework of the first
    profile. The frameworks call no extender, because an extender answers for one version only.
    """
    names: Sequence[str] = [profile.scheduler_name for profile in config.profiles]

    def build(rules: Rules, name: str) -> Framework:
        index = names.index(name) if name in names else 0
        return Framework(build_profile(config, index, registry, handle, rules), time.monotonic)

    return lambda rules: lambda name: build(rules, name)


def freeze_heap() -> None:
    """Exclude all present objects, such as the listed cluster, from later garbage collections.

    Also make malloc return freed large blocks to the system at once; without that, the memory of large pods stays in
    use.
    """
    gc.collect()
    gc.freeze()
    return_large_blocks()
