"""Decisions of schedulers that are not ours, reconstructed from watching the cluster.

`configuration` (another scheduler's file, as far as it is known here), `window` (what was in flight), `agreement` (ours
against theirs), `observer` (the thread), `metrics`, `command` (`observe`).

Invariant: nothing is written to the cluster. A record says what our engine makes of the cluster as it was seen, which
node the pod really got, and whether the two agree; it never claims to be what the other scheduler saw.
"""
