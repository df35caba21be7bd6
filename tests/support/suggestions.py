"""A checked suggestion for a pending pod."""

from __future__ import annotations

import json

from herodotus_record.model import Reason, Suggestion

LOWERED = Reason(
    "set-request", {"container": "app", "group": "containers", "resource": "cpu", "from": "2", "to": "1700m"}
)
SPEC = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1700m"}}}]}
LOWER = Suggestion("worker-1", (LOWERED,), json.dumps(SPEC), is_checked=True)
