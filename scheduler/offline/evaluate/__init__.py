"""Decides pods from files or test cases with the engine of the live scheduler, and binds nothing (command `evaluate`).

Owns: reading a cluster from manifests (`files`), the format of cases (`cases`) and of an outcome (`outcome`). Does not
own: any decision; that is `scheduler.engine.cycle`.
"""

from scheduler.engine.manifests.cluster import LoadedCluster, ManifestError, SourceManifest, load_cluster
from scheduler.offline.evaluate.cases import CaseError, evaluate, evaluate_lines
from scheduler.offline.evaluate.engine import NoCluster

__all__ = [
    "CaseError",
    "LoadedCluster",
    "ManifestError",
    "NoCluster",
    "SourceManifest",
    "evaluate",
    "evaluate_lines",
    "load_cluster",
]
