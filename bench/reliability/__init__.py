"""Reliability test of the scheduler: random operations and disturbances, then invariants.

    operations, disturbances  --->  system (API server, replicas, decisions service)  --->  journal  --->  invariants

Not part of any distribution. `python -m bench.reliability --help`.
"""
