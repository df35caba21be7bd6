"""Whether the scheduler can be trusted with a cluster: operations and disturbances at random, then invariants.

    operations, disturbances  --->  system (API server, replicas, decisions service)  --->  journal  --->  invariants

Not part of any distribution. `python -m bench.reliability --help`.
"""
