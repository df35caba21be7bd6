"""`evaluate`: decide what is given as files or cases, with the engine of the live scheduler; nothing is bound.

Owns: reading a cluster from manifests (`cluster`, `files`), what the API server would fill into a pod (`defaults`),
the forms of an outcome (`outcome`). Does not own: any decision; that is `scheduler.cycle`.
"""

from scheduler.evaluate.cases import CaseError, evaluate, evaluate_lines
from scheduler.evaluate.cluster import Cluster, Manifest, ManifestError, load
from scheduler.evaluate.engine import NoCluster

__all__ = ["CaseError", "Cluster", "Manifest", "ManifestError", "NoCluster", "evaluate", "evaluate_lines", "load"]
