"""Records attempts and delivers the records to the decisions service, without delaying scheduling.

Owns: numbering records (`recorder`), their order on disk (`spool`), and the process that delivers them (`shipper`).
Does not own: building records (`scheduler.engine.records`), the record's format (`herodotus_record`).

Invariant: a decision is in the spool before its bind request is sent.
"""
