"""Find the pods of a workload, and the objects that make them: a Deployment's ReplicaSets, a CronJob's Jobs.

Owns: who owns what, which pods count, and which ReplicaSet has a Deployment's template. Does not own: what it means
(`workload_state`), reading (`cluster_objects`). Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.node_rules import matches_selector
from herodotus_answers.live.objects import find_controller, is_active, read_owner
from herodotus_answers.live.pod_facts import is_true, kubectl, parse_time, read_conditions
from herodotus_answers.pod_templates import read_template

if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects, ObjectList

Json = dict[str, Any]
# The kind whose objects make the pods on behalf of another.
MAKERS: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
REVISION: Final = "deployment.kubernetes.io/revision"
_HASH: Final = "pod-template-hash"
# The kinds of workloads, in the order in which a name without a kind is looked up.
KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicaSet", "ReplicationController")
REACTION_TIME: Final = timedelta(seconds=10)  # a controller has acted on a change that is older
_WITH_PARENT: Final = ("ReplicaSet", "Job")


class Workload:
    """A workload as it is now, with its pods. Everything is read when it is first needed.

    `is_read` is False if the object could not be read, so that only its name is known.
    """

    def __init__(self, kind: str, name: str, namespace: str, objects: ClusterObjects, now: datetime) -> None:
        self.kind, self.name, self.namespace, self.objects, self.now = kind, name, namespace, objects, now
        lookup = objects.get(kind, name, namespace)
        self.is_absent = lookup.is_absent and objects.is_served(kind)
        self.is_read = lookup.object is not None
        stub: Json = {"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": {}}
        self.object: Json = {**(lookup.object or stub), "kind": kind}

    @property
    def label(self) -> str:
        """The workload as KIND/NAME."""
        return f"{self.kind}/{self.name}"

    @property
    def meta(self) -> Json:
        meta: Json = self.object["metadata"]
        return meta

    @property
    def spec(self) -> Json:
        return self.object.get("spec") or {}

    @property
    def status(self) -> Json:
        return self.object.get("status") or {}

    @property
    def template(self) -> Json:
        """The pod template; of a CronJob that of its Jobs."""
        return read_template(self.kind, self.object)

    @property
    def pod_spec(self) -> Json:
        return self.template.get("spec") or {}

    @property
    def conditions(self) -> dict[str, Json]:
        return read_conditions(self.object)

    @property
    def age(self) -> timedelta | None:
        """For how long the workload has existed at least, or None if that is not known."""
        times = [self.meta.get("creationTimestamp")]
        times += [condition.get("lastTransitionTime") for condition in self.conditions.values()]
        known = [time for time in map(parse_time, times) if time is not None]
        return self.now - min(known) if known else None

    def is_true(self, condition: str) -> bool:
        """Return whether a condition of the workload is true."""
        return is_true(self.object, condition)

    @cached_property
    def makers(self) -> list[Json]:
        """The objects that make the pods: of a Deployment its ReplicaSets, newest first; of most kinds the workload."""
        listed, kind = self._listed_makers, MAKERS.get(self.kind)
        if listed is None:
            return [self.object]
        owned = [{**each, "kind": kind} for each in listed.items if _is_owned(each, [(self.kind, self.name)])]
        return sorted(owned, key=_order_makers, reverse=True)

    @property
    def knows_makers(self) -> bool:
        """Whether the objects that make the pods could be read."""
        return self._listed_makers is None or not self._listed_makers.missing

    @cached_property
    def _listed_makers(self) -> ObjectList | None:
        kind = MAKERS.get(self.kind)
        labels = format_selector(self.spec.get("selector")) if self.kind == "Deployment" else ""
        return self.objects.list_objects(kind, self.namespace, labels=labels) if kind else None

    @cached_property
    def _listing(self) -> tuple[list[Json], bool]:
        """The pods of the workload, and whether these are all.

        Owner references decide. A selector only lets the API server send less, and one that finds nothing may be for
        labels that the pods do not have, such as those of an earlier object with this name. A Deployment whose
        ReplicaSets cannot be read has the pods of ReplicaSets that it selects.
        """
        owners = [(str(each["kind"]), str(each["metadata"]["name"])) for each in self.makers]
        selector = "" if self.kind == "CronJob" else format_selector(self.spec.get("selector"))
        listing: tuple[list[Json], bool] = ([], False)
        for labels in dict.fromkeys((selector, "")):
            listed = self.objects.list_objects("Pod", self.namespace, labels=labels)
            pods = [{**pod, "kind": "Pod"} for pod in listed.items if _is_owned(pod, owners) or self._selects(pod)]
            if pods or labels == selector or self.kind == "Job":
                listing = pods, listed.is_complete
            if pods:
                break
        return listing

    def _selects(self, pod: Json) -> bool:
        """Return whether a Deployment whose ReplicaSets cannot be read selects a pod that a ReplicaSet made."""
        if self.kind != "Deployment" or self.knows_makers:
            return False
        owner, labels = find_controller(pod), pod["metadata"].get("labels") or {}
        is_of_replica_set = owner is not None and owner["kind"] == "ReplicaSet"
        return is_of_replica_set and matches_selector(self.spec.get("selector"), labels)

    @property
    def pods(self) -> list[Json]:
        """All pods that exist, also those that have ended or are being deleted."""
        return self._listing[0]

    @property
    def knows_pods(self) -> bool:
        """Whether all pods could be read."""
        return self._listing[1]

    @cached_property
    def active(self) -> list[Json]:
        """The pods that have not ended and are not being deleted."""
        return list(filter(is_active, self.pods))

    def list_active_of(self, maker: Json) -> list[Json]:
        """Return the active pods that one of `makers` made."""
        owner = (str(maker["kind"]), str(maker["metadata"]["name"]))
        return [pod for pod in self.active if _is_owned(pod, [owner])]

    @cached_property
    def current(self) -> Json | None:
        """The ReplicaSet of the Deployment's template, or None if there is none."""
        wanted = _strip_hash(self.template)
        return next((each for each in self.makers if _strip_hash(each["spec"].get("template") or {}) == wanted), None)

    @property
    def short(self) -> str:
        """The name as kubectl and this program take it, such as deploy/web."""
        return f"{SHORT[self.kind]}/{self.name}"

    def kubectl(self, verb: str, *more: str) -> str:
        """Return a kubectl command in the workload's namespace."""
        return kubectl(self.object, verb, *more)


SHORT: Final = {
    "Deployment": "deploy",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "CronJob": "cj",
    "Job": "job",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
}


def find_kinds(name: str, namespace: str, objects: ClusterObjects) -> list[str]:
    """Return the kinds of the workloads with this name. One that another of them owns does not count."""
    found = {kind: objects.get(kind, name, namespace).object for kind in KINDS}
    return [kind for kind, each in found.items() if each and not _is_owned(each, [(k, name) for k in found])]


def find_maker(pod: str, namespace: str, objects: ClusterObjects, now: datetime) -> Workload | None:
    """Return the workload that makes pods of a name, or that has this name itself, or None if there is none."""
    base, _, end = pod.rpartition("-")
    kinds = [("StatefulSet", base)] if end.isdigit() else []
    kinds += [("Deployment", base.rpartition("-")[0])]
    kinds += [(kind, base) for kind in ("ReplicaSet", "DaemonSet", "Job", "ReplicationController")]
    kinds += [(kind, pod) for kind in ("Deployment", "StatefulSet", "DaemonSet", "CronJob")]
    for kind, name in kinds:
        if name and objects.get(kind, name, namespace).object is not None:
            return Workload(kind, name, namespace, objects, now)
    return None


def find_makers(labels: Mapping[str, str], namespace: str, objects: ClusterObjects, now: datetime) -> list[Workload]:
    """Return the workloads whose pods have these labels, without those that another makes; of all namespaces if ""."""
    makers = []
    for kind in KINDS:
        for each in objects.list_objects(kind, namespace).items:
            had = (read_template(kind, each).get("metadata") or {}).get("labels") or {}
            if labels.items() <= had.items() and read_owner(each) is None:
                meta = each["metadata"]
                makers.append(Workload(kind, str(meta["name"]), str(meta["namespace"]), objects, now))
    return makers


def list_names(kind: str, namespace: str, objects: ClusterObjects) -> list[tuple[str, str]]:
    """Return namespace and name of the workloads of a kind, of all namespaces if `namespace` is empty."""
    items = objects.list_objects(kind, namespace).items
    return [(str(each["metadata"].get("namespace", "")), str(each["metadata"]["name"])) for each in items]


def find_parent(workload: Workload) -> str:
    """Return the workload that made a ReplicaSet or Job, as KIND/NAME; "" if there is none."""
    if workload.kind not in _WITH_PARENT:
        return ""
    return read_owner(workload.object) or ""


def find_newest_sibling(workload: Workload) -> str:
    """Return the newer ReplicaSet of the Deployment that made a ReplicaSet, as KIND/NAME; "" if there is none."""
    kind, _, name = find_parent(workload).partition("/")
    if kind != "Deployment":
        return ""
    newest = next(iter(Workload(kind, name, workload.namespace, workload.objects, workload.now).makers), None)
    found = str(newest["metadata"]["name"]) if newest else workload.name
    return "" if found == workload.name else f"ReplicaSet/{found}"


def is_ready(pod: Json) -> bool:
    """Return whether a pod is ready."""
    return is_true(pod, "Ready")


def has_ended_job(job: Json) -> bool:
    """Return whether a Job has completed or failed."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def _is_owned(obj: Json, owners: Collection[tuple[str, str]]) -> bool:
    """Return whether one of `owners`, as (kind, name), controls the object."""
    owner = find_controller(obj)
    return owner is not None and (owner["kind"], owner["name"]) in owners


def _order_makers(maker: Json) -> tuple[int, str, str]:
    meta = maker["metadata"]
    revision = str((meta.get("annotations") or {}).get(REVISION) or "")
    return int(revision) if revision.isdigit() else 0, str(meta.get("creationTimestamp") or ""), str(meta["name"])


def _strip_hash(template: Json) -> Json:
    """Return a pod template without what the Deployment controller adds to it."""
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != _HASH}
    kept = {key: value for key, value in meta.items() if value and key != "creationTimestamp"}
    return {**template, "metadata": {**kept, "labels": labels}}


def format_selector(selector: Json | None) -> str:
    """Return a label selector as the text of a query; "" selects everything."""
    if not selector:
        return ""
    if not {"matchLabels", "matchExpressions"} & selector.keys():  # a ReplicationController's
        return ",".join(f"{key}={value}" for key, value in selector.items() if isinstance(value, str))
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(each.get("values") or ())
        parts += {
            "In": [f"{key} in ({values})"],
            "NotIn": [f"{key} notin ({values})"],
            "Exists": [str(key)],
            "DoesNotExist": [f"!{key}"],
        }.get(str(each.get("operator")), [])
    return ",".join(parts)
