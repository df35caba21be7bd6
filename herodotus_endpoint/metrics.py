"""/metrics: what came in, what was refused, what is stored, how long answers take.

Owns: names and meaning of the metrics. Does not own: the numbers' sources.

Invariant: no label's values grow with the cluster: routes, codes and kinds only.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from herodotus_endpoint.store import Receipt, Sizes

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """One application's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.frames = Counter("herodotus_ingest_frames_total", "New frames stored, by kind.", ["kind"], registry=r)
        self.duplicates = Counter(
            "herodotus_ingest_duplicates_total",
            "Frames that had been stored before and were acknowledged again.",
            registry=r,
        )
        self.batches = Counter("herodotus_ingest_batches_total", "Batches stored.", registry=r)
        self.bytes = Counter("herodotus_ingest_bytes_total", "Bytes of stored batches, unpacked.", registry=r)
        self.refused = Counter("herodotus_ingest_refused_total", "Batches refused, by cause.", ["cause"], registry=r)
        self.ingest_seconds = Histogram(
            "herodotus_ingest_store_seconds", "Storing one batch, commit included.", buckets=SECONDS, registry=r
        )
        self.request_seconds = Histogram(
            "herodotus_request_seconds",
            "Answering one request, by route.",
            ["route", "code"],
            buckets=SECONDS,
            registry=r,
        )
        self.pruned = Counter("herodotus_pruned_decisions_total", "Decisions deleted by retention.", registry=r)
        self.stored = Gauge("herodotus_stored", "Rows stored, by kind.", ["kind"], registry=r)
        self.missing = Gauge(
            "herodotus_missing_sequences", "Frames that were passed over and not explained.", registry=r
        )
        self.lost = Gauge("herodotus_lost_sequences", "Frames that a gap record says are lost.", registry=r)
        self.database_bytes = Gauge(
            "herodotus_database_bytes", "Size of the database: live pages, and files on disk.", ["kind"], registry=r
        )

    def count(self, receipt: Receipt, size: int) -> None:
        """A batch was stored."""
        self.batches.inc()
        self.bytes.inc(size)
        self.duplicates.inc(receipt.duplicates)
        for kind in ("decisions", "outcomes", "gaps", "node_rows"):
            self.frames.labels(kind).inc(getattr(receipt, kind))

    def observe(self, sizes: Sizes, file_bytes: int) -> None:
        """What is stored now."""
        for kind, rows in sizes.rows.items():
            self.stored.labels(kind).set(rows)
        self.missing.set(sizes.missing)
        self.lost.set(sizes.lost)
        self.database_bytes.labels("live").set(sizes.live_bytes)
        self.database_bytes.labels("files").set(file_bytes)

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
