"""Measures the decisions service's store: size at rest, ingest rate and CPU time with real decisions."""
