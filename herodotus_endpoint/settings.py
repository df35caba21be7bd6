"""The settings of the service. Owns: their values and defaults. Does not own: flags (`options`) or their effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from herodotus_endpoint.access.authentication import ReaderAuthenticator, SenderAuthenticator
from herodotus_endpoint.store import RetentionLimits

if TYPE_CHECKING:  # they import prometheus_client, which must wait for `server`, and optional packages
    from herodotus_endpoint.archive.reader import ArchiveReader
    from herodotus_endpoint.tracing.span_queue import SpanQueue

MAX_WATCHES: Final = 32  # each occupies a thread, which reads twice a second
MAX_WATCHES_PER_USER: Final = 8
MAX_REVIEWS: Final = 8  # at the same time; each occupies a thread while a scheduler decides
MAX_POLLS: Final = 16  # eight schedulers that wait for a review of each kind; each request occupies a thread
MAX_CONCURRENT_INGESTS: Final = 2  # one writes, one is unpacked; more would compete for the write lock in no order


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of one process of the decisions service.

    If `access` is None, every client may read. If `senders` is None, records are accepted from loopback only, or from
    anywhere if `insecure` is true. `cluster` is the ID of the API server's cluster (the UID of its namespace
    kube-system), or "" without an API server. `read_database_url` names replicas of the database, or is "" to read from
    the primary.

    `pages_url` is the address at which readers open the web pages, such as that of an ingress, or "" if none is known.

    `otlp_endpoint` is the URL to which spans are exported, or "" to export none. `traces` is the queue of stored
    records that become spans. `archive_url` is the URL of the archive of older decisions, or "", and `archive` answers
    from it. `ingest_quota` is the number of bytes that each cluster may send per second, or 0 for no limit.
    """

    insecure: bool = False
    max_concurrent_ingests: int = MAX_CONCURRENT_INGESTS
    max_watches: int = MAX_WATCHES
    max_watches_per_user: int = MAX_WATCHES_PER_USER
    max_reviews: int = MAX_REVIEWS
    access: ReaderAuthenticator | None = None
    cluster: str = ""
    read_database_url: str = ""
    pages_url: str = ""
    otlp_endpoint: str = ""
    archive_url: str = ""
    archive: ArchiveReader | None = None
    ingest_quota: float = 0.0
    traces: SpanQueue | None = None
    senders: SenderAuthenticator | None = None
    limits: RetentionLimits = field(default_factory=RetentionLimits)
    clock: Callable[[], float] = time.time
