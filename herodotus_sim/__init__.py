"""A simulated Kubernetes API server, for the demo and for tests. Never for production."""

from herodotus_sim.cluster import SimulatedCluster
from herodotus_sim.errors import ApiError
from herodotus_sim.options import Options

__all__ = ["ApiError", "Options", "SimulatedCluster"]
