"""What the service was started with. Owns: the values. Does not own: flags (`__main__`) or what they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from herodotus_endpoint.store import Limits

MAX_CONCURRENT_INGESTS: Final = 4  # one writes, one is decoded, two wait; half of the default threads answer queries


@dataclass(frozen=True)
class Settings:
    """`ingest_listeners`: the addresses (as the server knows them) that alone serve ingest; empty: all do."""

    insecure: bool = False
    ingest_listeners: tuple[str, ...] = ()
    max_concurrent_ingests: int = MAX_CONCURRENT_INGESTS
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.time
