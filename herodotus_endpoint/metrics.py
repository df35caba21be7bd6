"""The metrics of the service: ingest, rejections, stored records, response times.

Owns: names and meaning of the metrics. Does not own: where the numbers come from.

With several workers, each writes its values to files that all of them read (prometheus_client's multiprocess mode, if
the environment enables it before this module is imported). Any worker can therefore answer for all.

Invariant: the number of label values does not grow with the cluster: labels are routes, codes and kinds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from herodotus_endpoint.store import IngestReceipt, PruneResult, StoreSizes
from herodotus_endpoint.store.replicas import RequestReads

MULTIPROCESS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"  # defined by prometheus_client
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class EndpointMetrics:
    """The service's Prometheus metrics, in a registry other than prometheus_client's global one."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=SECONDS)
        # about the database: of the values that worker processes set, the most recent one counts
        store_gauge = partial(gauge, multiprocess_mode="mostrecent")
        self.frames = counter("herodotus_ingest_frames_total", "New frames stored, by kind.", ["kind"])
        self.duplicates = counter(
            "herodotus_ingest_duplicates_total", "Frames that had been stored before and were acknowledged again."
        )
        self.future_times = counter(
            "herodotus_ingest_future_times_total",
            "Frames dated more than a minute ahead of the service's clock, which are stored as of now.",
        )
        self.batches = counter("herodotus_ingest_batches_total", "Batches stored.")
        self.bytes = counter("herodotus_ingest_bytes_total", "Bytes of stored batches, unpacked.")
        self.refused = counter("herodotus_ingest_refused_total", "Batches refused, by cause.", ["cause"])
        self.ingest_seconds = histogram("herodotus_ingest_store_seconds", "Storing one batch, commit included.")
        self.request_seconds = histogram(
            "herodotus_request_seconds", "Answering one request, by route.", ["route", "code"]
        )
        self.pruned = counter("herodotus_pruned_decisions_total", "Decisions deleted by retention.")
        self.summarised = counter(
            "herodotus_summarised_decisions_total", "Decisions of which retention left a summary."
        )
        self.tier_decisions = store_gauge("herodotus_tier_decisions", "Decisions, by what is kept of them.", ["tier"])
        self.tier_bytes = store_gauge("herodotus_tier_bytes", "Their size, by what is kept of them.", ["tier"])
        self.stored = store_gauge("herodotus_stored", "Rows stored, by kind.", ["kind"])
        self.missing = store_gauge("herodotus_missing_sequences", "Frames that were passed over and not explained.")
        self.lost = store_gauge("herodotus_lost_sequences", "Frames that a gap record says are lost.")
        self.database_up = store_gauge("herodotus_database_up", "Whether the database can be read: 1, or 0.")
        self.reads = counter(
            "herodotus_replica_reads_total",
            "Requests of readers, by whether a replica answered or, without a usable one, the primary"
            " (--read-database-url).",
            ["server"],
        )
        self.staleness = store_gauge(
            "herodotus_replica_staleness_seconds",
            "By how much a replica of the database may be behind; infinite if that is unknown.",
            ["replica"],
        )
        self.clock_offset = store_gauge(
            "herodotus_clock_offset_seconds", "By how much the wall clock is ahead of the time of retention."
        )
        self.database_bytes = store_gauge(
            "herodotus_database_bytes", "Size of the database: live pages, and files on disk.", ["kind"]
        )
        self.database_limit = store_gauge("herodotus_database_limit_bytes", "What the database may hold (--max-bytes).")
        self.spans_exported = counter(
            "herodotus_trace_spans_exported_total", "Spans that the OTLP receiver accepted (--otlp-endpoint)."
        )
        self.spans_dropped = counter(
            "herodotus_trace_spans_dropped_total", "Spans that were not exported, by cause.", ["cause"]
        )
        self.watches = gauge("herodotus_watches", "Watches that run.", multiprocess_mode="livesum")
        self.watches_refused = counter(
            "herodotus_watches_refused_total", "Watches refused because there were too many."
        )

    def count_batch(self, receipt: IngestReceipt, size: int) -> None:
        """Add a stored batch to the metrics of ingest; `size` is its length in bytes."""
        self.batches.inc()
        self.bytes.inc(size)
        self.duplicates.inc(receipt.duplicates)
        for kind in ("decisions", "outcomes", "gaps", "node_rows"):
            self.frames.labels(kind).inc(getattr(receipt, kind))

    def count_pruned(self, pruned: PruneResult) -> None:
        """Add the numbers of decisions that one pass of retention summarized and deleted to the metrics."""
        self.summarised.inc(pruned.summarised)
        self.pruned.inc(pruned.deleted)

    def count_reads(self, reads: RequestReads) -> None:
        """Count a request that read from a replica, or from the primary because no replica was usable."""
        if reads.primary or reads.staleness_s is not None:
            self.reads.labels("primary" if reads.primary else "replica").inc()

    def set_staleness(self, staleness_s: Mapping[str, float]) -> None:
        """Set the gauges of the replicas' staleness in seconds, by their addresses."""
        for replica, seconds in staleness_s.items():
            self.staleness.labels(replica).set(seconds)

    def set_sizes(self, sizes: StoreSizes, file_bytes: int | None) -> None:
        """Set the gauges of the database's rows and bytes.

        If `file_bytes` is None, the gauge of the files' size is not set.
        """
        for kind, rows in sizes.rows.items():
            self.stored.labels(kind).set(rows)
        for name, tier in sizes.tiers.items():
            self.tier_decisions.labels(name).set(tier.decisions)
            self.tier_bytes.labels(name).set(tier.bytes)
        self.missing.set(sizes.missing)
        self.lost.set(sizes.lost)
        self.database_bytes.labels("live").set(sizes.live_bytes)
        if file_bytes is not None:
            self.database_bytes.labels("files").set(file_bytes)

    def exposition(self) -> bytes:
        """Return the metrics of all workers in Prometheus' text format."""
        if MULTIPROCESS_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        merged = CollectorRegistry()
        MultiProcessCollector(merged)  # type: ignore[no-untyped-call]
        return generate_latest(merged)
