"""The annotations that annotators write on nodes: keys, units and age limits.

The programs that measure nodes and those that score them share this vocabulary.

Every annotator also writes when its values were measured (`MEASURED[group]`). A value that is older than the reader's
limit is ignored as if it were absent; a value without a time counts, since other programs measure too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Final

# free of a node: mean and standard deviation over a window, and what is forecast; memory in bytes, cpu in milli
MEAN_FREE: Final = {"cpu": "mean-free-cpu", "memory": "mean-free-memory"}
DEVIATION_FREE: Final = {"cpu": "std-free-cpu", "memory": "std-free-memory"}
# the first spelling is the original's, and written; both are read
FORECAST_FREE: Final = {
    "cpu": ("forcasted-free-cpu", "forecasted-free-cpu"),
    "memory": ("forcasted-free-memory", "forecasted-free-memory"),
}
# what pods request of a node, and what is left: cpu in milli, bytes, counts
ALLOCATED: Final = ("cpu", "memory", "pods", "gpu", "ephemeral-storage")
REQUESTED: Final = {resource: f"requested-{resource}" for resource in ALLOCATED}
FREE: Final = {resource: f"free-{resource}" for resource in ALLOCATED}
CONGESTION: Final = "congestion-factor"  # a whole number, 0 for none
COST: Final = "hightower.com/cost"  # a price, in any currency
REWARDS: Final = "herodotus.dev/rewards"  # {pod type: reward}, of the types that did not always do well there

MEASURED: Final = {
    group: f"herodotus.dev/{group}-measured-at" for group in ("usage", "allocation", "congestion", "price", "rewards")
}
DEFAULT_LIMIT_S: Final = 300.0  # five rounds of an annotator


def number(text: str | None) -> float:
    """Parse an annotated measurement; return NaN if it is absent, not a number (`N/A`) or not finite."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def moment(measured_at: str | None) -> float:
    """Parse the time of measurement; return it in seconds since 1970, or NaN if it is absent.

    A time that cannot be parsed becomes minus infinity, so that the measurement counts as too old.
    """
    if measured_at is None:
        return math.nan
    try:
        return datetime.fromisoformat(measured_at).timestamp()
    except ValueError:
        return -math.inf


def stamp(now_s: float) -> str:
    """Return a time, given in seconds since 1970, as the ISO 8601 text that annotators write."""
    return datetime.fromtimestamp(now_s, timezone.utc).isoformat()


def rewards_key(labels: Mapping[str, str], name: str) -> str:
    """Return the pod type by which rewards are learnt.

    It is the pod's label `podtype`, else its label `app`, else its label `name`, else the pod's name.
    """
    return next((labels[key] for key in ("podtype", "app", "name") if labels.get(key)), name)
