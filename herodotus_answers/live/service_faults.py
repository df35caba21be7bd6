"""Find Services that a program is told to reach, and what is wrong with them.

Owns: which words of a container's command name a Service, and whether a Service has endpoints. Does not own: what
follows for a pod (`pods.kubelet_causes`) or for a webhook (`workloads.refusal_causes`). Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.pod_facts import describe_similar, name_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.pod_facts import Container

Json = dict[str, Any]
NO_SERVICE: Final = "does not exist now"
_LABEL: Final = r"[a-z](?:[a-z0-9-]*[a-z0-9])?"
_QUALIFIED: Final = re.compile(rf"(?<![\w.-])({_LABEL})\.({_LABEL})\.svc(?![\w-])")
# Programs that wait for a host, with the host as their argument. A host without a dot is of the pod's namespace.
_SHORT: Final = re.compile(rf"(?:\bnslookup|\bgetent hosts|\bnc(?: -[a-z0-9]+)+|\bpg_isready -h) ({_LABEL})(?![\w.:-])")


def find_service_fault(namespace: str, name: str, objects: ClusterObjects) -> str:
    """Return what is wrong with a Service; "" if nothing is, or if it cannot be read."""
    if objects.is_absent("Service", name, namespace):
        return NO_SERVICE
    service = objects.get("Service", name, namespace).object
    if service is None or (service.get("spec") or {}).get("type") == "ExternalName":
        return ""
    slices = objects.list_objects("EndpointSlice", namespace, labels=f"kubernetes.io/service-name={name}")
    if slices.missing or not objects.is_served("EndpointSlice"):
        return ""
    endpoints = [each for part in slices.items for each in part.get("endpoints") or ()]
    ready = [each for each in endpoints if (each.get("conditions") or {}).get("ready") is not False]
    return "" if ready else "has no ready endpoint"


def explain_awaited_service(pod: Json, container: Container, objects: ClusterObjects) -> tuple[str, str]:
    """Return clauses on the first host in a container's command whose Service is at fault, and on what mends it.

    Both are "" if no Service is known to be at fault.
    """
    own = str(pod["metadata"]["namespace"])
    for name, namespace in dict.fromkeys(_list_services(container, own)):
        fault = find_service_fault(namespace, name, objects)
        if fault == NO_SERVICE:
            similar = describe_similar(name, objects.list_names("Service", namespace))
            host = name if namespace == own else f"{name}.{namespace}"
            what = f"correct the host in {name_source(pod, objects)}, or create Service {name} in namespace {namespace}"
            return f"its command names host {host}, and namespace {namespace} has no Service {name}{similar}", what
        if fault:
            what = f"make the pods behind Service {name} in namespace {namespace} ready"
            return f"its command names Service {name} of namespace {namespace}, which {fault}", what
    return "", ""


def _list_services(container: Container, own: str) -> Iterator[tuple[str, str]]:
    """Yield name and namespace of the Services that the command, the arguments and the environment name."""
    words = " ".join(map(str, (*(container.spec.get("command") or ()), *(container.spec.get("args") or ()))))
    values = (str(each.get("value") or "") for each in container.spec.get("env") or ())
    for text in (words, *values):
        yield from ((match[1], match[2]) for match in _QUALIFIED.finditer(text))
    yield from ((match[1], own) for match in _SHORT.finditer(words))
