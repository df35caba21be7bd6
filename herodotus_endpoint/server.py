"""The decisions service's listeners: their sockets, worker processes, and the requests that each listener serves.

Owns: the sockets, and the set-up of a worker process after the fork. Does not own: worker pools (`pools`), routes
(`app`), flags (`options`), connections (`herodotus_serving`).
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from herodotus_endpoint.archive import ArchiveError
from herodotus_endpoint.delegation import DelegationOptions, open_delegation
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Pruner, PruningThread, Store
from herodotus_serving import workers
from herodotus_serving.certificates import ServingCertificate
from herodotus_serving.limits import ListenerLimits
from herodotus_serving.listener import Listener, Server
from herodotus_serving.probes import OK, ProbeServer
from herodotus_serving.sockets import Address, get_bound_address, listen

if TYPE_CHECKING:
    from herodotus_endpoint.archive.reader import ArchiveReader
    from herodotus_endpoint.metrics import EndpointMetrics
    from herodotus_endpoint.tracing.exporter import TraceExporter

GRACE_S: Final = 10  # for requests in progress at shutdown: twice the longest wait for the database
SHARED_METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"  # as `metrics.MULTIPROCESS_VARIABLE`, which is imported later
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class ListenOptions:
    """The addresses to listen on for queries, ingest and probes, and the numbers of threads and processes.

    If `ingest` is empty, the addresses for queries serve ingest too. `key_pair` are the files of the certificate and
    its key; if it is None, the service uses plain HTTP. `client_ca` is the file of the CAs that sign senders'
    certificates.
    """

    queries: Sequence[Address]
    ingest: Sequence[Address] = ()
    probes: Sequence[Address] = ()
    threads: int = 8
    workers: int = 1
    key_pair: tuple[Path, Path] | None = None
    client_ca: Path | None = None
    limits: ListenerLimits = field(default_factory=ListenerLimits)


def serve(
    settings: ServiceSettings, database_url: str, listen_on: ListenOptions, delegation: DelegationOptions | None = None
) -> None:
    """Run the decisions service until SIGTERM.

    Raises ListenError if it cannot listen on an address, and CertificateError if the certificate or its key is
    unusable.
    """
    _open_certificate(listen_on)  # fails now instead of at the first connection
    sockets = {name: [listen(a) for a in getattr(listen_on, name)] for name in ("queries", "ingest", "probes")}
    worker = _Worker(settings, database_url, listen_on, delegation)
    scheme = "https" if listen_on.key_pair else "http"
    kinds = "queries" if listen_on.ingest else "queries and ingest"
    ready = [f"listening on {scheme}://{get_bound_address(s)} ({kinds})" for s in sockets["queries"]]
    ready += [f"listening on {scheme}://{get_bound_address(s)} (ingest)" for s in sockets["ingest"]]
    ready += [f"listening on http://{get_bound_address(s)} (probes)" for s in sockets["probes"]]
    options: dict[str, Any] = {"workers": listen_on.workers}
    if listen_on.workers > 1:
        options |= {"child_exit": _forget_worker, "on_exit": _forget_metrics}
        os.environ[SHARED_METRICS] = tempfile.mkdtemp(prefix="herodotus-metrics-")
    all_sockets = [*sockets["queries"], *sockets["ingest"], *sockets["probes"]]
    workers.run(all_sockets, worker.create_server, ready, GRACE_S, options)


@dataclass
class _Worker:
    """What a worker process needs to create its server after the fork."""

    settings: ServiceSettings
    database_url: str
    listen_on: ListenOptions
    delegation: DelegationOptions | None

    def create_server(self, sockets: Sequence[socket.socket]) -> Server:
        """Open the store, start the background threads and return the server of these listening sockets.

        `sockets` holds the sockets for queries first, then those for ingest, then those for probes. Raises
        UnusableServerError if the archive cannot be opened, or the declaration of a route is incomplete.
        """
        # Imported here because prometheus_client decides when it is imported whether workers share metrics.
        from herodotus_endpoint.app import create_app
        from herodotus_endpoint.metrics import EndpointMetrics
        from herodotus_endpoint.pools import Pools, build_service, refuse_ingest
        from herodotus_endpoint.readiness import Readiness
        from herodotus_endpoint.routing import RouteDeclarationError

        settings, listen_on, metrics = self.settings, self.listen_on, EndpointMetrics()
        authorities: Callable[[], Sequence[str]] = tuple
        if self.delegation:
            read_ca = partial(_read_client_authority, listen_on.client_ca)
            settings, authorities = open_delegation(settings, self.delegation, read_ca)
        certificate = _open_certificate(listen_on, authorities)
        store = Store(self.database_url, settings.clock, read_url=settings.read_database_url)
        PruningThread(Pruner(store, settings.limits), metrics.count_pruned).start()
        pools = Pools(settings, listen_on.threads, metrics)
        readiness = Readiness.from_store(store)
        readiness.start()
        traces = _start_tracing(settings, store, metrics)
        try:
            settings = replace(settings, traces=traces.queue if traces else None, archive=_open_archive(settings))
            app = create_app(store, settings, metrics, readiness, pools.queues)
        except (ArchiveError, RouteDeclarationError) as e:
            raise workers.UnusableServerError(str(e)) from e
        everything = build_service(app.wsgi_app, pools.assign_by_route(app, serves_ingest=True))
        queries = everything
        if listen_on.ingest:
            queries = build_service(refuse_ingest(app.wsgi_app), pools.assign_by_route(app, serves_ingest=False))
        services = [queries] * len(listen_on.queries) + [everything] * len(listen_on.ingest)
        contexts = certificate.context if certificate else None
        listeners = [
            Listener(each, service, listen_on.limits, contexts)
            for each, service in zip(sockets, services, strict=False)
        ]
        probes = ProbeServer(sockets[len(services) :], {"/livez": lambda: OK, "/readyz": readiness.answer_probe})
        gc.freeze()  # otherwise a full garbage collection stops every request for 20 ms or more
        return Server(listeners, traces.stop if traces else None, probes)


def _open_certificate(
    listen_on: ListenOptions, authorities: Callable[[], Sequence[str]] = tuple
) -> ServingCertificate | None:
    """Return the certificate of the listeners, or None for plain HTTP. Raises CertificateError if it is unusable.

    `authorities` returns the PEM certificates of CAs besides `client_ca` whose client certificates are trusted.
    """
    if listen_on.key_pair is None:
        return None

    def read_authorities() -> str:
        pems = [*authorities(), listen_on.client_ca.read_text() if listen_on.client_ca else ""]
        return "\n".join(filter(None, pems))

    return ServingCertificate(listen_on.key_pair, read_authorities, _log_reload)


def _read_client_authority(file: Path | None) -> str:
    """Return the PEM certificates in a file, or "" if there is none or it cannot be read."""
    try:
        return file.read_text() if file else ""
    except OSError:
        return ""


def _log_reload(failure: Exception | None) -> None:
    if failure is None:
        _log.info("reloaded the serving certificate and its authorities")
    else:
        _log.warning("cannot load the changed certificate, continuing with the previous one: %s", failure)


def _open_archive(settings: ServiceSettings) -> ArchiveReader | None:
    """Return the reader of the archive of older decisions, or None without `settings.archive_url`."""
    if not settings.archive_url:
        return None
    # Imported here because the packages are optional, and because their threads do not survive a fork.
    from herodotus_endpoint.archive.location import ArchiveLocation
    from herodotus_endpoint.archive.reader import ArchiveReader

    return ArchiveReader(ArchiveLocation(settings.archive_url))


def _start_tracing(settings: ServiceSettings, store: Store, metrics: EndpointMetrics) -> TraceExporter | None:
    """Start the export of spans, or return None without `settings.otlp_endpoint`."""
    if not settings.otlp_endpoint:
        return None
    # Imported here because the packages are optional.
    from herodotus_endpoint.tracing.exporter import TraceExporter
    from herodotus_endpoint.tracing.span_queue import SpanQueue

    exporter = TraceExporter(settings.otlp_endpoint, SpanQueue(metrics), store, metrics)
    exporter.start()
    return exporter


def _forget_worker(_arbiter: object, worker: Any) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def _forget_metrics(_arbiter: object) -> None:
    shutil.rmtree(os.environ[SHARED_METRICS], ignore_errors=True)
