"""Decisions in files: JSON lines out and in, Parquet out."""
