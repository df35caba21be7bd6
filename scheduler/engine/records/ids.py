"""UUIDv7 (RFC 9562): ids that sort by time, strictly ascending within a process."""

from __future__ import annotations

import random
import threading
import time

_lock = threading.Lock()
_last = 0


def uuid7() -> str:
    """Return a new UUID, greater than every earlier one of this process, even if the clock stops or steps back."""
    global _last
    with _lock:
        # 48 bits of milliseconds and 12 bits of their fraction: one counter that only goes up
        _last = max(_last + 1, time.time_ns() * 4096 // 1_000_000)
        ms, fraction = _last >> 12, _last & 0xFFF
    variant = 2 << 62 | random.getrandbits(62)  # seeded by the system, and anew in a process that is forked
    head, tail = f"{ms:012x}", f"{variant:016x}"  # uuid.UUID would check what is known here
    return f"{head[:8]}-{head[8:]}-7{fraction:03x}-{tail[:4]}-{tail[4:]}"
