"""Node groups of Cluster API: MachineDeployments, and MachineSets without one, with annotations for scaling from zero.

Source: cluster-autoscaler cloudprovider/clusterapi: clusterapi_unstructured.go and clusterapi_utils.go. As there, a
group without annotations of CPU and memory has no known shape while it has no node, 110 pods are the default, and GPUs
need both annotations. The capacity in a machine template of an infrastructure provider is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.engine.nodegroups.shapes import ANNOTATIONS, ZONE, FoundGroup, NodeShape, parse_amounts, parse_taint
from scheduler.engine.objects.autoscaling import (
    OWNER_KIND,
    OWNER_NAME,
    OWNER_NAMESPACE,
    MachineAnnotations,
    MachineDeployment,
    MachineGroup,
    MachineSet,
)
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.types import Amounts, Node, Taint

_DEFAULT_MAX_PODS: Final = "110"
# Labels of a machine template that Cluster API copies to the node.
_MANAGED_DOMAINS: Final = ("node-restriction.kubernetes.io", "node.cluster.x-k8s.io")
_ROLE: Final = "node-role.kubernetes.io/"

Key = tuple[str, str, str]  # kind, namespace and name


class MachineGroups:
    """The MachineDeployments and MachineSets of the cluster, and the groups that they make."""

    def __init__(self, objects: ClusterObjects) -> None:
        """Build a group of each MachineDeployment, and of each MachineSet without one."""
        self._sets = {(s.metadata.namespace, s.metadata.name): s for s in objects.all(MachineSet)}
        self._found: dict[Key, FoundGroup] = {}
        self.problems: list[str] = []
        for deployment in objects.all(MachineDeployment):
            self._add(deployment, "MachineDeployment")
        for machine_set in self._sets.values():
            if _find_deployment(machine_set) is None:
                self._add(machine_set, "MachineSet")

    @property
    def groups(self) -> list[FoundGroup]:
        """The groups. Their shapes are those of annotations, and their nodes are not assigned yet."""
        return list(self._found.values())

    def find_group(self, kind: str, namespace: str, name: str) -> FoundGroup | None:
        """Return the group of a machine with this owner, or None.

        The namespace is "" if it is not known; the first owner of that kind and name then counts.
        """
        if kind == "MachineSet":
            sets = (s for (there, its_name), s in self._sets.items() if its_name == name and namespace in ("", there))
            above = next(((s.metadata.namespace, _find_deployment(s)) for s in sets), None)
            if above is not None and above[1] is not None:
                return self._found.get(("MachineDeployment", above[0], above[1]))
        keys = ((kind, namespace, name),) if namespace else (k for k in self._found if (k[0], k[2]) == (kind, name))
        return next((self._found[key] for key in keys if key in self._found), None)

    def _add(self, obj: MachineGroup, kind: str) -> None:
        meta, annotations = obj.metadata, obj.annotations
        group = FoundGroup(
            name=meta.name,
            source=f"{kind} {meta.namespace}/{meta.name}",
            size=obj.spec.replicas,
            min_size=_parse_size(annotations.min_size),
            max_size=_parse_size(annotations.max_size),
        )
        try:
            group.shapes = [_build_shape(obj)]
        except ValueError as e:
            self.problems.append(f"{group.source}: {e}")
        self._found[kind, meta.namespace, meta.name] = group


def read_machine_owner(node: Node) -> tuple[str, str, str] | None:
    """Return kind, namespace and name of the owner of a node's machine from the node's annotations, or None."""
    annotations = node.metadata.annotations or {}
    kind, name = annotations.get(OWNER_KIND), annotations.get(OWNER_NAME)
    return (kind, annotations.get(OWNER_NAMESPACE, ""), name) if kind and name else None


def _find_deployment(machine_set: MachineSet) -> str | None:
    owners = machine_set.metadata.owner_references or ()
    return next((owner.name for owner in owners if owner.kind == "MachineDeployment"), None)


def _parse_size(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _build_shape(obj: MachineGroup) -> NodeShape:
    """Return the shape that the annotations describe. Raises ValueError if one of them is invalid."""
    annotations = obj.annotations
    labels = dict(_list_labels(obj))
    zone = obj.spec.template.spec.failure_domain or ""
    if zone:
        labels.setdefault(ZONE, zone)
    return NodeShape(
        source=ANNOTATIONS,
        zone=labels.get(ZONE, ""),
        labels=labels,
        taints=_list_taints(obj),
        allocatable=_read_capacity(annotations),
        volume_limits=_read_volume_limits(annotations.csi_driver),
    )


def _list_labels(obj: MachineGroup) -> Iterator[tuple[str, str]]:
    for key, value in (obj.spec.template.metadata.labels or {}).items():
        domain = key.partition("/")[0]
        if key.startswith(_ROLE) or domain.endswith(_MANAGED_DOMAINS):
            yield key, value
    for text in (obj.annotations.labels or "").split(","):
        key, equals, value = text.strip().partition("=")
        if equals:
            yield key, value


def _list_taints(obj: MachineGroup) -> tuple[Taint, ...]:
    taints = {(taint.key, taint.effect): taint for taint in obj.spec.template.spec.taints or ()}
    for text in filter(None, (obj.annotations.taints or "").split(",")):
        taint = parse_taint(text)
        taints[taint.key, taint.effect] = taint
    return tuple(taints.values())


def _read_capacity(annotations: MachineAnnotations) -> Amounts | None:
    """Return the annotated amounts of a node, or None if CPU or memory is not annotated.

    Raises ValueError for an invalid quantity.
    """
    if not annotations.cpu or not annotations.memory:
        return None
    amounts: Amounts = {
        "cpu": annotations.cpu,
        "memory": annotations.memory,
        "pods": annotations.max_pods or _DEFAULT_MAX_PODS,
    }
    if annotations.ephemeral_disk:
        amounts["ephemeral-storage"] = annotations.ephemeral_disk
    if annotations.gpu_type and annotations.gpu_count:
        amounts[annotations.gpu_type] = annotations.gpu_count
    parse_amounts(amounts)
    return amounts


def _read_volume_limits(text: str | None) -> dict[str, int] | None:
    """Return the volume limits by CSI driver from a text `DRIVER=LIMIT,…`, or None if it has no valid pair."""
    pairs = (part.strip().partition("=") for part in (text or "").split(","))
    return {driver: int(limit) for driver, _, limit in pairs if driver and limit.isdecimal()} or None
