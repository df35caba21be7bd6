"""Local mode: the decisions API, answered from a cluster that is read now, with the scheduler's engine.

`cluster_reader` reads the objects that a question depends on, `evaluation` decides its pods, and `service` gives the
records to the decisions service's own routes, in this process and with a temporary database. So local answers have the
documents of the decisions service, and there is no second implementation of an answer.
"""

from herodotus_record.installation import require_own_scheduler

require_own_scheduler()  # before any module below imports `scheduler`
