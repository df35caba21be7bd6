"""Decisions of other schedulers, reconstructed from watching the cluster.

`configuration` (the other scheduler's file, without unknown plugins), `window` (events in flight), `agreement` (the
evaluation compared with the outcome), `observer` (the thread), `metrics`.

Invariant: nothing is written to the cluster. A record has our engine's evaluation of the cluster as it was seen, the
pod's actual node, and whether the two agree. It never claims to show what the other scheduler saw.
"""
