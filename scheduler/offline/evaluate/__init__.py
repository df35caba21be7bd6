"""`evaluate`: decides pods from files or cases with the engine of the live scheduler, and binds nothing.

Owns: reading a cluster from manifests (`cluster`, `files`), the API server's defaults for a pod (`defaults`), the forms
of an outcome (`outcome`). Does not own: any decision; that is `scheduler.engine.cycle`.
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
