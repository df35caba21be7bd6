"""The decisions service: ingest, queries, answers."""
