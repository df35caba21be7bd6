"""Deterministic simulation: the production programs in one process, on virtual time, with faults drawn from a seed.

A run is a process of its own (`python -m bench.simulation`), because `standard_library.install` replaces the clock,
threads, processes and HTTP before the programs are imported. Nothing here may be imported into another process.
"""
