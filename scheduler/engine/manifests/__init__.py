"""Cluster objects from manifests, with the defaults that the API server would fill in."""
