"""The paths of the HTTPS port and their handlers.

`access` checks every path first, known or not.

Paths are kube-scheduler's: /healthz, /livez, /readyz and a path for each check, /metrics, /configz, /debug/flags/v.
Deliberately absent (docs/parity.md): /metrics/resources, /metrics/slis, /debug/pprof.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from herodotus_record import klog
from herodotus_serving.messages import Request, Response
from herodotus_serving.probes import ProbeAnswer
from scheduler.serving.access import RequestAuthorizer
from scheduler.serving.health import PING, HealthCheck, build_check_response, build_summary
from scheduler.serving.http import JSON, build_response, build_text_response, parse_query

MAX_VERBOSITY: Final = (1 << 31) - 1  # what klog's level holds

Answer = Callable[[Request], Response]


@dataclass
class Content:
    """Where the HTTPS port's paths get their content: configuration, metrics, health checks and the log verbosity.

    `configuration` is replaced once the cluster's version is known. `profiling` is the configuration's enableProfiling,
    which also enables /debug.
    """

    configuration: Mapping[str, Any]
    metrics: CollectorRegistry
    healthz: Sequence[HealthCheck] = ()
    readyz: Sequence[HealthCheck] = ()
    livez: Sequence[HealthCheck] = ()
    profiling: bool = True
    set_verbosity: Callable[[int], None] = field(default=klog.set_verbosity)


class StatusRoutes:
    """The request handler of the HTTPS port: authorizes each request and calls the handler of its path."""

    def __init__(self, access: RequestAuthorizer, content: Content) -> None:
        self._access = access
        self._answers: dict[str, Answer] = {
            "/metrics": lambda request: _metrics(request, content.metrics),
            "/configz": lambda _: build_response(
                200, json.dumps({"componentconfig": content.configuration}).encode(), JSON
            ),
        }
        for name, checks in _health_checks(content).items():
            self._answers |= _health(name, checks)
        if content.profiling:
            self._answers["/debug/flags/v"] = lambda request: _verbosity(request, content.set_verbosity)

    def __call__(self, request: Request) -> Response:
        """Return the response to a request. Raise HttpStatusError if the client may not make this request."""
        self._access.check(request)
        answer = self._answers.get(request.head.path)
        return build_text_response(404, "404 page not found\n") if answer is None else answer(request)


def build_probes(content: Content) -> dict[str, Callable[[], ProbeAnswer]]:
    """Return, by path, the functions that answer /healthz, /livez and /readyz on the ports that serve only probes."""

    def answer(name: str, checks: Sequence[HealthCheck]) -> ProbeAnswer:
        summary = build_summary(name, checks, {})
        return ProbeAnswer(summary.status, summary.body.decode())

    return {f"/{name}": partial(answer, name, checks) for name, checks in _health_checks(content).items()}


def _health_checks(content: Content) -> dict[str, Sequence[HealthCheck]]:
    """Return the checks of each health endpoint by its name; an endpoint without checks gets PING."""
    named = {"healthz": content.healthz, "livez": content.livez, "readyz": content.readyz}
    return {name: checks or (PING,) for name, checks in named.items()}


def _metrics(request: Request, registry: CollectorRegistry) -> Response:
    """Handle /metrics, in OpenMetrics' format if the client accepts it, because only that has exemplars."""
    encode, content_type = choose_encoder(request.head.header("accept"))
    return build_response(200, encode(registry), content_type)


def _health(name: str, checks: Sequence[HealthCheck]) -> dict[str, Answer]:
    paths: dict[str, Answer] = {f"/{name}": lambda request: build_summary(name, checks, parse_query(request.head))}
    for check in checks:
        paths[f"/{name}/{check.name}"] = lambda _, check=check: build_check_response(check)  # type: ignore[misc]
    return paths


def _verbosity(request: Request, set_verbosity: Callable[[int], None]) -> Response:
    """Handle /debug/flags/v: set the log verbosity to the number in a PUT, as with `curl -X PUT --data 4`."""
    if request.head.method != "PUT":
        return build_text_response(406, "unsupported http method\n")
    value = request.body.decode("latin-1")
    if not (value.isascii() and value.isdecimal()):
        return build_text_response(400, f'strconv.ParseUint: parsing "{value}": invalid syntax\n')
    if int(value) > MAX_VERBOSITY:
        return build_text_response(400, f'strconv.ParseUint: parsing "{value}": value out of range\n')
    set_verbosity(int(value))
    klog.info(0, "Verbosity changed", v=int(value))
    return build_text_response(200, f"successfully set klog.logging.verbosity to {value}\n")
