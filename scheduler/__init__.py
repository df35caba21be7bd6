"""A kube-scheduler compatible scheduler that records every scheduling cycle. It imports no web or terminal library."""

DISTRIBUTION = "kubectl-herodotus-servers"  # herodotus_record/installation.py looks for this line
