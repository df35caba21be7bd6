"""A simulated Kubernetes API server, for the demo and for tests. Never for production."""
