"""Benchmarks: workloads as data, and the programs that run them. Not part of any distribution."""
