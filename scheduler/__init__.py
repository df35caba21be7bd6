"""A kube-scheduler compatible scheduler that records every scheduling cycle. It imports no web or terminal library."""

import sys

DISTRIBUTION = "kubectl-herodotus-servers"  # herodotus_record/installation.py looks for this line

# httpx imports its own command line, with click, Rich and pygments: a quarter of the imports of the shipper.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
