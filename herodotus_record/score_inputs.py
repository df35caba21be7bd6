"""Build the part `inputs` of answers: the measurements by which plugins and extenders decided, for each node.

Owns: that part. Does not own: the record's columns (`model`), layout on a screen.
"""

from __future__ import annotations

from typing import Any

from herodotus_record.model import Decision, Inputs
from herodotus_record.node_results import is_evaluated
from herodotus_record.units import format_timestamp

Json = dict[str, Any]


def list_sources(decision: Decision) -> list[Json]:
    """Return the sources of each plugin's measurements, with the names and units of what was measured, as JSON."""
    return [
        {
            "plugin": inputs.plugin,
            "source": inputs.source,
            "numbers": [{"name": n.name, "unit": n.unit, "digits": n.digits} for n in inputs.numbers],
        }
        for inputs in decision.inputs
    ]


def build_node_inputs(decision: Decision, slot: int) -> Json:
    """Return a node's measurements as the JSON field `inputs`: one entry for each source, ordered as `list_sources`.

    Returns an empty dict if the decision has no measurements or the node was not evaluated.
    """
    if not decision.inputs or not is_evaluated(decision, slot):
        return {}
    return {"inputs": [_node_entry(inputs, slot) for inputs in decision.inputs]}


def _node_entry(inputs: Inputs, slot: int) -> Json:
    measured_s = inputs.measured_s(slot)
    return {
        "plugin": inputs.plugin,
        "values": {number.name: number.value_at(slot) for number in inputs.numbers},
        "measuredAt": format_timestamp(measured_s * 1_000_000) if measured_s else None,
        "stale": bool(len(inputs.stale) and inputs.stale[slot]),
    }
