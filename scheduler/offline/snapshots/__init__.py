"""Snapshots of a cluster in one file, with everything that scheduling reads, and replays of its pods.

`document` (the file's format), `taking` (from the API server to the file), `replaying` (places its pods again).
`evaluate` and `whatif` read the file like any other file of cluster objects.
"""
