"""The decisions service's listeners: sockets, worker pools, and what each listener serves.

Owns: the sockets, what a worker process makes after the fork. Does not own: worker pools (`pools`), routes (`app`),
flags (`options`), connections (`herodotus_serving`).
"""

from __future__ import annotations

import gc
import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from herodotus_endpoint.delegation import DelegationOptions, open_delegation
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import Pruner, Pruning, Store
from herodotus_endpoint.tls import ServingTls, TlsFiles
from herodotus_serving import workers
from herodotus_serving.limits import Limits
from herodotus_serving.listener import Listener, Server
from herodotus_serving.sockets import Address, address_of, listen

GRACE_S: Final = 10  # for requests in progress at the end: twice the longest wait for the database
SHARED_METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"  # where workers share their numbers (`metrics.SHARED`)
PROBE_LIMITS: Final = {"connections": 64, "per_address": 16}  # a kubelet and some curious clients


@dataclass(frozen=True)
class ListenOptions:
    """Where to listen, and how many requests to answer at the same time. `tls`: None is plain HTTP."""

    queries: Sequence[Address]
    ingest: Sequence[Address] = ()
    probes: Sequence[Address] = ()
    threads: int = 8
    workers: int = 1
    tls: TlsFiles | None = None
    limits: Limits = field(default_factory=Limits)


def serve(
    settings: ServiceSettings, database_url: str, where: ListenOptions, delegation: DelegationOptions | None = None
) -> None:
    """Listen and answer until SIGTERM. Raises ListenError, or TlsError if the certificate cannot be used."""
    if where.tls:
        ServingTls(where.tls)  # refused now, and not at the first connection
    sockets = {name: [listen(a) for a in getattr(where, name)] for name in ("queries", "ingest", "probes")}
    names = tuple("{}:{}".format(*s.getsockname()[:2]) for s in sockets["ingest"])
    worker = _Worker(replace(settings, ingest_listeners=names), database_url, where, delegation)
    scheme = "https" if where.tls else "http"
    apart = "queries" if where.ingest else "queries and ingest"
    ready = [f"listening on {scheme}://{address_of(s)} ({apart})" for s in sockets["queries"]]
    ready += [f"listening on {scheme}://{address_of(s)} (ingest)" for s in sockets["ingest"]]
    ready += [f"listening on http://{address_of(s)} (probes)" for s in sockets["probes"]]
    options: dict[str, Any] = {}
    if where.workers > 1:
        options = {"child_exit": _forget_worker, "on_exit": _forget_metrics}
        os.environ[SHARED_METRICS] = tempfile.mkdtemp(prefix="herodotus-metrics-")
    every = [*sockets["queries"], *sockets["ingest"], *sockets["probes"]]
    workers.run(every, worker.make, ready, GRACE_S, where.workers, options)


@dataclass
class _Worker:
    """What a worker process makes after the fork."""

    settings: ServiceSettings
    database_url: str
    where: ListenOptions
    delegation: DelegationOptions | None
    tls: ServingTls | None = None

    def make(self, sockets: Sequence[socket.socket]) -> Server:
        """Open the store and return the server of these sockets: queries, ingest, probes."""
        # here, because prometheus_client decides at its import whether its numbers are shared with other workers
        from herodotus_endpoint.app import create_app
        from herodotus_endpoint.metrics import EndpointMetrics
        from herodotus_endpoint.pools import Pools, only_probes, service
        from herodotus_endpoint.readiness import Readiness

        settings, where, metrics = self.settings, self.where, EndpointMetrics()
        authorities = None
        if self.delegation:
            settings, authorities = open_delegation(settings, self.delegation, self._client_authority)
        if where.tls:
            self.tls = ServingTls(where.tls, authorities or tuple)
        store = Store(self.database_url, settings.clock)
        Pruning(Pruner(store, settings.limits), metrics.left).start()
        pools = Pools(settings, where.threads, metrics)
        readiness = Readiness.from_store(store)
        readiness.start()
        app = create_app(store, settings, metrics, readiness, {pools.queries.name: where.threads})
        kinds = [pools.of_queries if where.ingest else pools.of_ingest] * len(where.queries) + [pools.of_ingest] * len(
            where.ingest
        )
        contexts = self.tls.context if self.tls else None
        listeners = [
            Listener(each, service(app.wsgi_app, route), where.limits, contexts)
            for each, route in zip(sockets, kinds, strict=False)
        ]
        probes = service(only_probes(app.wsgi_app), pools.of_probes)
        limits = replace(where.limits, **PROBE_LIMITS)
        listeners += [Listener(each, probes, limits) for each in sockets[len(kinds) :]]
        gc.freeze()  # a collection that walks all that was loaded stops every request for 20 ms and more
        return Server(listeners)

    def _client_authority(self) -> str:
        return self.tls.client_authority() if self.tls else ""


def _forget_worker(_arbiter: object, worker: Any) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def _forget_metrics(_arbiter: object) -> None:
    shutil.rmtree(os.environ[SHARED_METRICS], ignore_errors=True)
