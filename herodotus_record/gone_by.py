"""What plugins and extenders went by, node by node: the numbers, what they came from, whether they were too old.

Owns: the part `inputs` of answers. Does not own: the record's columns (`model`), layout on a screen.
"""

from __future__ import annotations

from typing import Any

from herodotus_record.model import Decision, Inputs
from herodotus_record.one_node import evaluated
from herodotus_record.units import timestamp

Json = dict[str, Any]


def sources(decision: Decision) -> list[Json]:
    """Each plugin's sources, and the names and units of the numbers that came from them."""
    return [
        {
            "plugin": told.plugin,
            "source": told.source,
            "numbers": [{"name": n.name, "unit": n.unit, "digits": n.digits} for n in told.numbers],
        }
        for told in decision.inputs
    ]


def of_node(decision: Decision, slot: int) -> Json:
    """A node's `inputs`: its numbers, one entry for each of `sources`, in that order. Empty where nothing was told."""
    if not decision.inputs or not evaluated(decision, slot):
        return {}
    return {"inputs": [_of_source(told, slot) for told in decision.inputs]}


def _of_source(told: Inputs, slot: int) -> Json:
    measured_s = told.measured_s(slot)
    return {
        "plugin": told.plugin,
        "values": {number.name: number.of(slot) for number in told.numbers},
        "measuredAt": timestamp(measured_s * 1_000_000) if measured_s else None,
        "stale": bool(len(told.stale) and told.stale[slot]),
    }
