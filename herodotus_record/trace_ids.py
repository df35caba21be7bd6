"""The IDs of traces: every attempt to schedule a pod belongs to one trace, whose ID follows from the pod.

The decisions service exports spans with these IDs, and schedulers write them into log lines and exemplars, without
telling each other.
"""

from __future__ import annotations

import uuid
from hashlib import blake2b


def derive_trace_id(pod_uid: str, pod: str) -> int:
    """Return the ID of a pod's trace: its UID, or a digest if that is no UUID.

    The digest is of the UID, or of `pod`, which names the pod in its cluster, if the UID is not known.
    """
    try:
        number = uuid.UUID(pod_uid).int
    except ValueError:
        number = int.from_bytes(blake2b((pod_uid or pod).encode(), digest_size=16).digest(), "big")
    return number or 1  # the ID 0 is invalid


def format_trace_id(pod_uid: str) -> str:
    """Return the ID of the trace of a pod whose UID is known, as 32 hexadecimal digits."""
    return f"{derive_trace_id(pod_uid, ''):032x}"
