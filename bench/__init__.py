"""Measurements: workloads as data, and what runs them. Not part of any distribution."""
