"""What each path answers.

Owns: the paths, and which methods they take. Does not own: who may ask (`access`, asked first for every path, known or
not), what is behind a path.

Paths and forms are kube-scheduler's: /healthz, /livez, /readyz and one path a check, /metrics, /configz,
/debug/flags/v. Not served, on purpose (docs/parity.md): /metrics/resources, /metrics/slis, /debug/pprof.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from scheduler import klog
from scheduler.serving.access import RequestAuthorizer
from scheduler.serving.health import PING, Check, single, summary
from scheduler.serving.http import JSON, StatusRequest, StatusResponse, text

MAX_VERBOSITY: Final = (1 << 31) - 1  # what klog's level holds

Answer = Callable[[StatusRequest], StatusResponse]


@dataclass(frozen=True)
class Content:
    """What is behind the paths. `profiling`: the configuration's enableProfiling, which also opens /debug."""

    configuration: Mapping[str, Any]
    metrics: Callable[[], bytes]
    healthz: Sequence[Check] = ()
    readyz: Sequence[Check] = ()
    livez: Sequence[Check] = ()
    profiling: bool = True
    set_verbosity: Callable[[int], None] = field(default=klog.set_verbosity)


class StatusRoutes:
    """The handler that the server calls, in its threads."""

    def __init__(self, access: RequestAuthorizer, content: Content) -> None:
        self._access = access
        self._answers: dict[str, Answer] = {
            "/metrics": lambda _: StatusResponse(200, content.metrics(), CONTENT_TYPE_PLAIN_0_0_4),
            "/configz": lambda _: StatusResponse(
                200, json.dumps({"componentconfig": content.configuration}).encode(), JSON
            ),
        }
        for name, checks in (("healthz", content.healthz), ("livez", content.livez), ("readyz", content.readyz)):
            self._answers |= _health(name, checks or (PING,))
        if content.profiling:
            self._answers["/debug/flags/v"] = lambda request: _verbosity(request, content.set_verbosity)

    def __call__(self, request: StatusRequest) -> StatusResponse:
        """The answer. RefusedError where there is none."""
        self._access.check(request)
        answer = self._answers.get(request.path)
        return text(404, "404 page not found\n") if answer is None else answer(request)


def _health(name: str, checks: Sequence[Check]) -> dict[str, Answer]:
    paths: dict[str, Answer] = {f"/{name}": lambda request: summary(name, checks, request.query)}
    for check in checks:
        paths[f"/{name}/{check.name}"] = lambda _, check=check: single(check)  # type: ignore[misc]
    return paths


def _verbosity(request: StatusRequest, set_verbosity: Callable[[int], None]) -> StatusResponse:
    """PUT of a number, as `curl -X PUT --data 4`."""
    if request.method != "PUT":
        return text(406, "unsupported http method\n")
    said = request.body.decode("latin-1")
    if not (said.isascii() and said.isdecimal()):
        return text(400, f'strconv.ParseUint: parsing "{said}": invalid syntax\n')
    if int(said) > MAX_VERBOSITY:
        return text(400, f'strconv.ParseUint: parsing "{said}": value out of range\n')
    set_verbosity(int(said))
    klog.info(0, "Verbosity changed", v=int(said))
    return text(200, f"successfully set klog.logging.verbosity to {said}\n")
