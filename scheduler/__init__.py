"""A kube-scheduler compatible scheduler that records every scheduling cycle. It imports no web or terminal library."""

from herodotus_record.lean_httpx import leave_out_command_line

DISTRIBUTION = "kubectl-herodotus-servers"  # herodotus_record/installation.py looks for this line

leave_out_command_line()
