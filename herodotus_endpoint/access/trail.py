"""The access log: one line for each request for what is not of one namespace.

Owns: which requests those are, and the line. Does not own: who may (`guard`), where log lines go (`__main__`).

A line has who asked, the right that they asked for, the object's name, and the code of the answer; never a token, a
header or a query. Behind the service proxy nobody is named: the API server's audit log knows who it was.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from herodotus_endpoint.access.rights import Resource, Right

_log: Final = logging.getLogger(__name__)


def leave(user: str, right: Right | None, code: int) -> None:
    """Log an answer, where it tells of nodes or of every namespace. `user`: "" where nobody is named."""
    if isinstance(right, Resource) and not right.namespace:
        asked = {"verb": right.verb, "resource": right.resource, "name": right.name}
        _log.info("%s", json.dumps({"user": user} | asked | {"code": code}))  # on one line, whatever a name holds
