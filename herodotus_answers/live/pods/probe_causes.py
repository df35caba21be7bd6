"""Find what the kubelet's events say of a container's probes, and what would let the probes succeed.

Owns: these causes and their remedies. Does not own: containers without a failing probe (`kubelet_causes`). Pure.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.pod_facts import (
    Container,
    kubectl,
    list_containers,
    make_event_cause,
    make_remedy,
    name_source,
)

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause

Json = dict[str, Any]
_PROBES: Final = {
    "Startup probe": "probe-startup",
    "Readiness probe": "probe-readiness",
    "Liveness probe": "probe-liveness",
}
_STATUS: Final = re.compile(r"HTTP probe failed with statuscode: (\d{3})")
_PROBE_FIELDS: Final = {
    "probe-startup": "startupProbe",
    "probe-readiness": "readinessProbe",
    "probe-liveness": "livenessProbe",
}


def explain_probes(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, now: datetime
) -> list[LiveCause]:
    """Return what the kubelet's events say of a container's probes, of each kind the last failure."""
    latest: dict[str, Json] = {}
    started = str(container.read_state("running").get("startedAt") or "")
    for event in events:
        path = str((event.get("involvedObject") or {}).get("fieldPath") or "")
        if event.get("reason") != "Unhealthy" or (path and f"{{{container.name}}}" not in path):
            continue
        message = str(event.get("message") or "")
        code = next((code for kind, code in _PROBES.items() if message.startswith(kind)), None)
        if code and not path and not _is_only_candidate(pod, container, code):
            continue
        if code == "probe-readiness" and read_event_time(event) < started:
            continue  # of an earlier run; the other probes ended that, which says why there is a new one
        if code:
            latest[code] = event
    causes = []
    for code, event in latest.items():
        probe = container.spec.get(_PROBE_FIELDS[code]) or {}
        target = describe_handler(probe)
        what = f"{container.label}{' (' + target + ')' if target else ''}: "
        advice = _advise_on_status(str(event.get("message")), probe) or (
            _advise_on_probe(code, probe) + _name_declared_ports(probe, container.spec)
        )
        remedies = [make_remedy(f"{advice}, in {name_source(pod, objects)}")] if probe else []
        logs = kubectl(pod, f"logs {pod['metadata']['name']}", "-c", container.name)
        causes.append(make_event_cause(code, what, event, now, remedies=remedies, inspect=logs))
    return causes


def describe_unanswered(container: Container) -> tuple[str, str]:
    """Return which probe of a running container has not succeeded, and what would let it; "" if it has none.

    Readiness is not probed before the startup probe has passed.
    """
    waits = container.status.get("started") is False and container.spec.get("startupProbe")
    code = "probe-startup" if waits else "probe-readiness"
    probe = container.spec.get(_PROBE_FIELDS[code])
    if not probe:
        return "", ""
    target = describe_handler(probe)
    which = f"{'startup' if waits else 'readiness'} probe{f' ({target})' if target else ''}"
    return which, _advise_on_probe(code, probe) + _name_declared_ports(probe, container.spec)


def _advise_on_status(message: str, probe: Json) -> str:
    """Return what to do about a probe that the program answers with an HTTP error; "" if it does not answer so."""
    found, target = _STATUS.search(message), describe_handler(probe)
    status = found[1] if found else ""
    if status in ("401", "403"):
        return f"probe a path that needs no credentials, or send some in httpHeaders: {target} answers {status}"
    if status in ("404", "405"):
        return f"probe a path that the program serves: {target} answers {status}"
    words = f"make the program answer {target} with a status below 400: it runs, and answers {status}"
    return words if status else ""


def _advise_on_probe(code: str, probe: Json) -> str:
    """Return how a probe that fails may succeed."""
    target = describe_handler(probe) or "the probe's command"
    period, failures = int(probe.get("periodSeconds") or 10), int(probe.get("failureThreshold") or 3)
    wait = int(probe.get("timeoutSeconds") or 1)
    if code == "probe-startup":
        given = period * failures + int(probe.get("initialDelaySeconds") or 0)
        return (
            f"make the program answer {target} within {given}s of its start, or give it longer: failureThreshold, now"
            f" {failures} times {period}s"
        )
    if code == "probe-liveness":
        return (
            f"make the program answer {target} within {wait}s; give it longer by timeoutSeconds or failureThreshold"
            f" (now {failures}), and to start by a startupProbe"
        )
    return f"make the program answer {target} within {wait}s, or correct the probe"


def _name_declared_ports(probe: Json, container: Json) -> str:
    """Return a clause with the ports that a container declares, if the probe asks none of them; else ""."""
    asked = (probe.get("httpGet") or probe.get("tcpSocket") or probe.get("grpc") or {}).get("port")
    ports = [port for port in container.get("ports") or () if port.get("containerPort")]
    if asked is None or not ports or any(asked in (port["containerPort"], port.get("name")) for port in ports):
        return ""
    declared = ", ".join(str(port["containerPort"]) for port in ports)
    return f" (the container declares port{'s' if len(ports) > 1 else ''} {declared}, not {asked})"


def _is_only_candidate(pod: Json, container: Container, code: str) -> bool:
    """Return whether an event of a kind of probe that names no container can only be about this one.

    Of the containers that state such a probe, or of all if none does, no other has run and is unready.
    """
    candidates = [c for c in list_containers(pod) if c.spec.get(_PROBE_FIELDS[code])] or list_containers(pod)
    if len(candidates) > 1:
        candidates = [c for c in candidates if not c.status.get("ready") and (c.read_state("running") or c.restarts)]
    return [c.name for c in candidates] == [container.name]


def describe_handler(probe: Json) -> str:
    """Return what a probe or a hook of a container's lifecycle does, such as `GET :8080/healthz`; "" if not known."""
    if http := probe.get("httpGet"):
        return f"GET :{http.get('port')}{http.get('path') or '/'}"
    if tcp := probe.get("tcpSocket"):
        return f"TCP port {tcp.get('port')}"
    if grpc := probe.get("grpc"):
        return f"gRPC port {grpc.get('port')}"
    if sleep := probe.get("sleep"):
        return f"sleep {sleep.get('seconds')}s"
    command = (probe.get("exec") or {}).get("command")
    return " ".join(map(str, command))[:60] if command else ""
