"""The access log: one line per request that is not limited to one namespace.

Owns: the selection of requests and the format of the line. Does not own: authorization (`guard`), where log lines go
(`__main__`).

A line holds the user, the right, the object's name and the status code; never a token, a header or a query. Behind the
service proxy no user is known: the API server's audit log has the name.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from herodotus_endpoint.access.authorization import ResourceRight, Right

_log: Final = logging.getLogger(__name__)


def log_request(user: str, right: Right | None, code: int) -> None:
    """Write a line to the access log if the request concerned nodes or all namespaces; otherwise write nothing.

    `right` is the right that the route required, or None if it required none. `code` is the HTTP status code of the
    response. `user` is "" if the reader is not known by name.
    """
    if isinstance(right, ResourceRight) and not right.namespace:
        asked = {"verb": right.verb, "resource": right.resource, "name": right.name}
        _log.info("%s", json.dumps({"user": user} | asked | {"code": code}))  # on one line, whatever a name holds
