"""From what a cycle saw to a record in the decisions service, at no cost to scheduling.

Owns: building records (`build`), their order on disk (`recorder`, `spool`), and the process that ships them
(`shipper`). Does not own: the record's shape (`herodotus_record`).

Invariant: a decision is in the spool before its bind request leaves.
"""
