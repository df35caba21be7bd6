"""The settings with which the service was started. Owns: the values. Does not own: flags (`options`), their effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from herodotus_endpoint.access.guard import AccessControl
from herodotus_endpoint.access.senders import SenderAuthenticator
from herodotus_endpoint.store import RetentionLimits

MAX_WATCHES: Final = 32  # each holds a thread of its own, idle but for two reads a second
MAX_WATCHES_PER_USER: Final = 8
MAX_REVIEWS: Final = 8  # under way at the same time; each holds a thread of its own while a scheduler decides
MAX_POLLS: Final = 8  # schedulers that are kept waiting at the same time, a thread each (`desk`)
MAX_CONCURRENT_INGESTS: Final = 4  # one writes, one is decoded, two wait; half of the default threads answer queries


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of one application.

    `ingest_listeners`: the addresses that serve ingest; empty means all. `access`: None lets everybody who reaches a
    listener read. `senders`: None accepts records from loopback only. `cluster`: the UID of the API server's namespace
    kube-system; "" without an API server.
    """

    insecure: bool = False
    ingest_listeners: tuple[str, ...] = ()
    max_concurrent_ingests: int = MAX_CONCURRENT_INGESTS
    max_watches: int = MAX_WATCHES
    max_watches_per_user: int = MAX_WATCHES_PER_USER
    max_reviews: int = MAX_REVIEWS
    access: AccessControl | None = None
    cluster: str = ""
    senders: SenderAuthenticator | None = None
    limits: RetentionLimits = field(default_factory=RetentionLimits)
    clock: Callable[[], float] = time.time
