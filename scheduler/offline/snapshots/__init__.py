"""Snapshots of a cluster in one file, with everything that scheduling reads, and replays on them.

`document` (the file's form), `taking` (from the API server to the file), `replaying` (pods placed again on it),
`command` (`snapshot`, `replay`). `evaluate` and `whatif` read the file like any other file of cluster objects.
"""
