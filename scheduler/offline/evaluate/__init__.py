"""Decides pods from files or test cases with the engine of the live scheduler, for the command `evaluate`."""

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
