"""What every process that watches a cluster and records does: signals, HTTPS port, first request, records, watches.

Owns: those steps. Does not own: their order, and what the process is for (`run`, `observe`).
"""

from __future__ import annotations

import argparse
import gc
import os
import queue
import random
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from herodotus_record.model import Reason
from herodotus_record.version import __version__
from herodotus_serving.sockets import ListenError
from scheduler import klog
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.commands.health_checks import ProcessHealth
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.objects.watched_kinds import KINDS
from scheduler.engine.records.omitted_labels import OmittedLabels
from scheduler.extenders.manifests import KeptManifests
from scheduler.kube import discovery
from scheduler.kube.http import ApiError, ApiServer
from scheduler.kube.watch import Reflector, Sink
from scheduler.recorder import endpoint
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from scheduler.recorder.supervisor import Supervisor
from scheduler.serving import port
from scheduler.serving.certificates import CertificateError
from scheduler.serving.options import ServingOptions
from scheduler.serving.routes import Content

WATCHED_PODS: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
CONNECT_BACKOFF_S: Final = (0.5, 10.0)  # while the API server does not answer at start


class StartupError(Exception):
    """This process will not, or cannot, run here: one line that says why."""


def stop_on_signals() -> threading.Event:
    """Set on SIGTERM or SIGINT; a second one ends the process at once.

    Not by the handler itself: it may interrupt this very thread within the event, whose lock it would wait for.
    """
    stop, told = threading.Event(), queue.SimpleQueue[int]()
    numbers: list[int] = []

    def on_signal(number: int, _: object) -> None:
        if numbers:
            os._exit(128 + number)
        numbers.append(number)
        told.put(number)

    def pass_on() -> None:
        told.get()
        stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until there is a cache to dump: it would end us
    return stop


def serve(options: ServingOptions, api: ApiServer, content: Content) -> Callable[[], None]:
    """Serve the HTTPS port in threads; return a function that ends it. Raises StartupError if that is impossible."""
    try:
        return port.serve(options, api, content)
    except (ListenError, CertificateError) as e:
        where, why = f"{options.host}:{options.port}", e.reason if isinstance(e, ListenError) else e
        raise StartupError(f"cannot serve on {where} (--bind-address, --secure-port): {why}") from e


def connect(api: ApiServer, stop: threading.Event) -> tuple[str, dict[str, str]] | None:
    """The cluster's id and the absent APIs, as soon as the API server answers; None when `stop` came first."""
    pause = CONNECT_BACKOFF_S[0]
    while not stop.is_set():
        try:
            version = discovery.fetch_server_version(api)
            cluster = discovery.fetch_cluster_id(api)
            absent = discovery.find_absent_groups(api)
            klog.info(0, "Connected", server=api.url, version=version, cluster=cluster)
            return cluster, absent
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise StartupError(f"{api.url} does not answer as a Kubernetes API server does") from e
        except ApiError as e:
            if e.code in (401, 403):
                raise StartupError(f"the API server {api.url} refuses us: {e}") from e
            klog.error(e, "API server does not answer yet, trying again", server=api.url)
            stop.wait(pause * random.uniform(1, 1.5))
            pause = min(pause * 2, CONNECT_BACKOFF_S[1])
    return None


def marks(absent: Mapping[str, str]) -> tuple[Reason, ...]:
    """What records of this process say of APIs that the server does not have."""
    return tuple(Reason("absent-api", {"api": api, "purpose": purpose}) for api, purpose in absent.items())


@dataclass(frozen=True)
class Records:
    """Where records go, and what is left out of them. `shipper_log`: the options of the shipper's log."""

    spool: Path
    limit_bytes: int
    omitted: OmittedLabels
    endpoint: ServiceEndpoint | None
    shipper_log: tuple[str, ...]

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Records:
        """What the command line says of them. EndpointError when its flags do not go together."""
        return cls(
            arguments.spool,
            arguments.spool_limit,
            arguments.omit_labels,
            endpoint.endpoint_from_arguments(arguments),
            ("--v", str(arguments.v), "--logging-format", arguments.logging_format),
        )


def record(
    records: Records,
    cluster: str,
    identity: str,
    marks: tuple[Reason, ...],
    health: ProcessHealth[Any],
    closing: ExitStack,
) -> Recorder:
    """A recorder on the spool, and where there is a service a shipper, which is closed last and delivers what is left.

    StartupError when the directory cannot be used.
    """
    try:
        recorder = Recorder(
            lambda incarnation: Spool(records.spool, incarnation, records.limit_bytes),
            cluster,
            identity,
            __version__,
            marks,
            omitted=records.omitted,
        )
    except OSError as e:
        raise StartupError(f"cannot use the spool directory {records.spool}: {e.strerror or e}") from e
    health.recorder = recorder
    if records.endpoint is not None:
        health.supervisor = Supervisor(records.spool, records.endpoint, *records.shipper_log)
        closing.callback(health.supervisor.close)
    closing.callback(recorder.close)
    return recorder


def reflectors(api: ApiServer, sink: Sink, manifests: KeptManifests) -> list[Reflector[Any]]:
    """One for each watched kind, not started."""
    return [
        Reflector(api, "/api/v1/nodes", NODES, Node, sink, manifest=manifests.of_node),
        Reflector(api, "/api/v1/pods", PODS, Pod, sink, WATCHED_PODS, manifest=manifests.of_pod),
        *(Reflector(api, kind.path, kind.name, kind.decode_as, sink, optional=True) for kind in KINDS),
    ]


def freeze() -> None:
    """The cluster that was listed is no garbage: collections need not walk over it again."""
    gc.collect()
    gc.freeze()
