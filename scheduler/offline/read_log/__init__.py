"""kube-scheduler's own log, read back into decisions.

`lines` (text or JSON to entries), `attempts` (entries to attempts, by pod), `nodes` (names to slots), `records`
(attempts to Decision and Outcome), `reader` (all of that), `files`, `delivery`, `command` (`read-log`).

Invariant: a record says what the log said; what the log did not say is named in `Decision.unknown` and `marks`.
"""
