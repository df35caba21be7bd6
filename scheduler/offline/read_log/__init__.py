"""Reads kube-scheduler's own log back into decisions.

`lines` (text or JSON to entries), `attempts` (entries to attempts, by pod), `nodes` (node names to row indices),
`records` (attempts to Decision and Outcome), `reader` (all of these together), `files`, `delivery`.

Invariant: a record has what the log has; anything else is named in `Decision.unknown` and `notes`.
"""
