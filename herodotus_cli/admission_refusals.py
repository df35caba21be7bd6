"""The quotas and LimitRanges that would refuse the pods which a what-if creates.

Owns: which pods of the question are new, and reading the objects with the user's rights. Does not own: what the objects
mean (`herodotus_answers.live.workloads.admission`).

Invariant: objects that cannot be read refuse nothing; no answer fails for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from herodotus_answers.live.workloads.admission import AdmissionRefusal
from herodotus_answers.live.workloads.admission import list_refusals as list_admission_refusals
from herodotus_answers.workload import belongs_to_workload
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.transport import open_objects
from herodotus_record.templates import PodTemplateError, parse_pod_template
from herodotus_record.units import continue_sentence, pluralize

Json = dict[str, Any]


class _NewPods(NamedTuple):
    spec: Json
    namespace: str
    replicas: int


def add_refusals(spec: Json, status: Json, connection: ConnectionSettings, environ: Mapping[str, str]) -> None:
    """Add to the status of an answer the quotas and LimitRanges that would refuse pods of the question `spec`.

    The headline then begins with what can be created, before where the pods would fit. The status is unchanged if
    nothing refuses them.
    """
    refusals = list_refusals(spec, status, connection, environ)
    if not refusals:
        return
    status["refusals"] = [refusal.text for refusal in refusals]
    allowed = min(refusal.allowed for refusal in refusals)
    can = "Not every new pod can be created"
    if len(list(_list_new_pods(spec, status))) == 1:
        pod = "more pod" if status.get("capacity") else "new pod"
        can = f"{pluralize(allowed, pod) if allowed else f'No {pod}'} can be created"
    fits = continue_sentence(status["headline"])
    status["headline"] = f"{can}: {'; '.join(status['refusals'])}. By the nodes alone: {fits}"


def list_refusals(
    spec: Json, status: Json, connection: ConnectionSettings, environ: Mapping[str, str]
) -> list[AdmissionRefusal]:
    """Return each quota and LimitRange that would refuse pods of the question `spec`.

    `spec` is that of a ClusterReview, and `status` is that of the answer. The result is [] if the answer is not about
    the kubeconfig's cluster.
    """
    groups = [pods for pods in _list_new_pods(spec, status) if pods.replicas > 0]
    if not groups or not connection.reaches_cluster:
        return []
    objects = open_objects(connection, environ)
    refusals: list[AdmissionRefusal] = []
    for pods in groups:
        quotas, ranges = (objects.list_objects(kind, pods.namespace).items for kind in ("ResourceQuota", "LimitRange"))
        refusals += list_admission_refusals(pods.spec, pods.replicas, quotas, ranges)
    return list(dict.fromkeys(refusals))


def _list_new_pods(spec: Json, status: Json) -> Iterator[_NewPods]:
    """Yield the pods that the question creates. For a capacity question, these are as many pods as fit.

    `status` is that of the answer, which has the number of pods that fit, and the pods by which a workload grows: more
    than its replicas say if some of these do not exist.
    """
    changes = list(spec.get("changes") or ())
    if spec.get("capacity"):
        changes.append(spec["capacity"] | {"kind": "Capacity"})
    for change in changes:
        try:
            template = parse_pod_template(change.get("object"))
        except PodTemplateError:
            continue
        count = {
            "Scale": _count_more_pods(change, status) or int(change.get("replicas") or 0) - template.replicas,
            "Create": int(change.get("replicas") or template.replicas),
            "Capacity": (status.get("capacity") or {}).get("fits", 0),
        }.get(change["kind"], 0)
        yield _NewPods(dict(template.pod["spec"]), template.namespace or change.get("namespace") or "default", count)


def _count_more_pods(scale: Json, status: Json) -> int:
    """Return by how many pods the workload of a change grows, as the answer says; 0 if it does not name them."""
    kind, _, name = str(scale.get("workload", "")).partition("/")
    return sum(
        pod["cause"] == "ScaledUp"
        and pod["namespace"] == (scale.get("namespace") or "default")
        and belongs_to_workload(pod["owner"], pod["name"], None, kind, name)
        for pod in status.get("placements") or ()
    )
