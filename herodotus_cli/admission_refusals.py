"""The quotas and LimitRanges that would refuse the pods which a what-if creates.

Owns: which pods of the question are new, and reading the objects with the user's rights. Does not own: what the objects
mean (`herodotus_answers.live.workloads.admission`).

Invariant: objects that cannot be read refuse nothing; no answer fails for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from herodotus_answers.live.workloads.admission import describe_refusals
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.transport import open_objects
from herodotus_record.templates import PodTemplateError, parse_pod_template

Json = dict[str, Any]


class _NewPods(NamedTuple):
    spec: Json
    namespace: str
    replicas: int


def list_refusals(spec: Json, status: Json, connection: ConnectionSettings, environ: Mapping[str, str]) -> list[str]:
    """Return a sentence without a full stop on each quota and LimitRange that would refuse pods of the question `spec`.

    `spec` is that of a ClusterReview, and `status` is that of the answer. The result is [] if the answer is not about
    the kubeconfig's cluster.
    """
    groups = [pods for pods in _list_new_pods(spec, status) if pods.replicas > 0]
    if not groups or not connection.reaches_cluster:
        return []
    objects = open_objects(connection, environ)
    refusals: list[str] = []
    for pods in groups:
        quotas, ranges = (objects.list_objects(kind, pods.namespace).items for kind in ("ResourceQuota", "LimitRange"))
        refusals += describe_refusals(pods.spec, pods.replicas, quotas, ranges)
    return list(dict.fromkeys(refusals))


def _list_new_pods(spec: Json, status: Json) -> Iterator[_NewPods]:
    """Yield the pods that the question creates. For a capacity question, these are as many pods as fit.

    `status` is that of the answer, which has the number of pods that fit.
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
            "Scale": int(change.get("replicas") or 0) - template.replicas,
            "Create": int(change.get("replicas") or template.replicas),
            "Capacity": (status.get("capacity") or {}).get("fits", 0),
        }.get(change["kind"], 0)
        yield _NewPods(dict(template.pod["spec"]), template.namespace or change.get("namespace") or "default", count)
