"""The decisions service: ingest, queries, answers."""

__version__ = "0.1.0"  # of the distribution
