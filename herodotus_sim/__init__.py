"""A simulated Kubernetes API server for tests and the demo. Not for production."""

from herodotus_sim.cluster import SimulatedCluster
from herodotus_sim.errors import StatusError
from herodotus_sim.options import Options

__all__ = ["Options", "SimulatedCluster", "StatusError"]
