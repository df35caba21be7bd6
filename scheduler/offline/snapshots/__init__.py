"""What scheduling reads of a cluster, in one file, and what would happen on it.

`document` (the file's form), `taking` (from the API server to the file), `replaying` (pods placed again on it),
`command` (`snapshot`, `replay`). `evaluate` and `whatif` read the file as any other with a cluster's objects.
"""
