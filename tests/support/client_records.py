"""Records that the Python client and the example scripts ask about."""

from __future__ import annotations

from typing import Any

from herodotus_record.model import Decision
from tests.builders import INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
NOWHERE = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in TABLE.names}
POINTS = {"worker-1": {"NodeResourcesFit": 40}, "worker-2": {"NodeResourcesFit": 90}}


def decided(pod: str, sequence: int, **given: Any) -> Decision:
    return a_decision(pod=pod, sequence=sequence, started_us=MONDAY_US + sequence * 60_000_000, **given)
