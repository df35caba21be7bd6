"""Health endpoints as kube components serve them.

A failing advisory check is listed and has its path, but never fails the endpoint: scheduling continues while history
waits. The endpoints are public and withhold reasons; the path of a single check requires a right.

Source: apiserver/pkg/server/healthz.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from herodotus_record import klog
from herodotus_serving.messages import Response
from scheduler.serving.http import build_text_response


@dataclass(frozen=True)
class HealthCheck:
    """A named health check. `fault` returns a message about the present problem, or None if the check passes.

    The failure of an `advisory` check does not fail the endpoint.
    """

    name: str
    fault: Callable[[], str | None]
    advisory: bool = False


PING = HealthCheck("ping", lambda: None)


def build_check_response(check: HealthCheck) -> Response:
    """Run one check and return the response of its path, such as /readyz/shipper: 200 "ok", or 500 with the fault."""
    fault = check.fault()
    return (
        build_text_response(200, "ok")
        if fault is None
        else build_text_response(500, f"internal server error: {fault}\n")
    )


def build_summary(name: str, checks: Sequence[HealthCheck], query: dict[str, list[str]]) -> Response:
    """Return the response of a health endpoint such as /readyz: 200, or 500 if a check fails that is not advisory.

    Checks that `query` excludes do not run. The body is "ok", or a list of all checks if the status is 500 or `query`
    has `verbose`. `name` is the endpoint's name in the list and in the log.
    """
    excluded = set(query.get("exclude", ()))
    lines, failed = [], False
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        fault = check.fault()
        if fault is None:
            lines.append(f"[+]{check.name} ok")
        elif check.advisory:
            lines.append(f"[!]{check.name} failed, which does not count: reason withheld")
        else:
            lines.append(f"[-]{check.name} failed: reason withheld")
            klog.info(2, "Health check failed", check=check.name, path=f"/{name}", reason=fault)
            failed = True
    if unknown := sorted(excluded - {check.name for check in checks}):
        quoted = ", ".join(f'"{each}"' for each in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    if failed:
        return build_text_response(500, "\n".join([*lines, f"{name} check failed", ""]))
    return build_text_response(200, "\n".join([*lines, f"{name} check passed", ""]) if "verbose" in query else "ok")
