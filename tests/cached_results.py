"""A check that results which the scheduler reuses equal those that are computed anew."""

from scheduler.engine.cache_verification import CacheDifference, find_differences
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import schedule
from scheduler.offline.evaluate.engine import EvaluatedPod


def differences_when_repeated(evaluated: EvaluatedPod) -> list[CacheDifference]:
    """Decide an evaluated pod again, now with cached results, and return how they differ from a computation anew."""
    framework, pod, nodes = evaluated.framework, evaluated.pod, evaluated.nodes
    repeated = schedule(framework, pod, Snapshot.from_columns(nodes), seed=0)
    uncached = framework.without_caches(framework.profile, extenders=False)
    return find_differences(uncached, pod, nodes.rebuilt(), repeated)
