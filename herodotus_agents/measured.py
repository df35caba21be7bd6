"""Reads the annotations that annotators wrote on the nodes of a request: numbers and their ages.

Owns: reading annotations of many nodes. Does not own: keys and units (`scheduler.engine.formulas.measurements`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from herodotus_agents.objects import NodeView
from scheduler.engine.formulas import measurements
from scheduler.engine.formulas.inputs import MeasurementTimes

Floats = NDArray[np.float64]


def read_measurement_times(group: str, nodes: Sequence[NodeView], now_s: float, limit_s: float) -> MeasurementTimes:
    """Return when each node's annotations of a group were measured, and which are older than `limit_s` seconds.

    `group` is a key of `measurements.MEASURED`, such as usage. `now_s` is in seconds since 1970.
    """
    stamp = measurements.MEASURED[group]
    moments_s = [measurements.moment(node.annotations.get(stamp)) for node in nodes]
    return MeasurementTimes.from_moments(np.array(moments_s, np.float64), now_s, limit_s)


def read_numbers(nodes: Sequence[NodeView], *keys: str) -> Floats:
    """Return one number per node: the value of the first annotation in `keys` that is a number, or NaN if none is."""
    found = np.full(len(nodes), np.nan)
    for key in reversed(keys):
        given = np.array([measurements.number(node.annotations.get(key)) for node in nodes], np.float64)
        found = np.where(np.isnan(given), found, given)
    return found


def present_keys(nodes: Sequence[NodeView], keys: Sequence[str]) -> list[str]:
    """Return the annotation keys that at least one node has, or only the first of `keys` if no node has any."""
    return [key for key in keys if any(key in node.annotations for node in nodes)] or list(keys[:1])
