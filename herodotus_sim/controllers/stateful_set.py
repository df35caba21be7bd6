"""The StatefulSet controller: pods with ordinals, created and replaced in order, and their revisions.

Does not own: volumes (`workloads.check_supported` rejects claims). Invariant: with OrderedReady a pod is created or
deleted only while each pod before it, or after it, is ready.
"""

from __future__ import annotations

from herodotus_sim.controllers.access import ControllerClient, is_ready, owner_reference
from herodotus_sim.controllers.deployment import template_hash
from herodotus_sim.kinds import CONTROLLER_REVISION, POD
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object
from herodotus_sim.workloads import STATEFUL_SET

_REVISION_LABEL = "controller-revision-hash"
_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController:
    """The controller that creates, replaces and deletes the pods of StatefulSets in the order of their ordinals."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def reconcile(self, stateful_set: StoredObject) -> float:
        """Take the next steps for a StatefulSet that the pod order permits, and update its status.

        Returns the seconds until the next check, or 0 if none is needed.
        """
        access = self._access
        before = stateful_set.obj.get("status") or {}
        update = self._revision(stateful_set)
        current = before.get("currentRevision") or update.key[1]
        pods = {_ordinal(p): p for p in access.claim(STATEFUL_SET, stateful_set, POD)}
        pods = self._scale(stateful_set, pods, current, update)
        self._replace_outdated(stateful_set, pods, update)
        again_s = self._write_status(stateful_set, current, update)
        self._clean_up(stateful_set, current, update)
        return again_s

    def _scale(
        self, stateful_set: StoredObject, pods: dict[int, StoredObject], current: str, update: StoredObject
    ) -> dict[int, StoredObject]:
        spec = stateful_set.obj["spec"]
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec["replicas"])
        parallel = spec["podManagementPolicy"] == "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is not None and pod.obj["status"].get("phase") in ("Failed", "Succeeded"):
                self._access.delete_pod(STATEFUL_SET, stateful_set, pod)
                pod = None
            if pod is None:
                pods[ordinal] = pod = self._create(stateful_set, ordinal, current, update)
            if not parallel and not is_ready(pod.obj):
                return pods
        for ordinal in sorted((o for o in pods if o not in wanted), reverse=True):
            self._access.delete_pod(STATEFUL_SET, stateful_set, pods.pop(ordinal))
            if not parallel:
                break  # The deletion's event enqueues this object again.
        return pods

    def _create(self, stateful_set: StoredObject, ordinal: int, current: str, update: StoredObject) -> StoredObject:
        """Create the pod with this ordinal.

        Pods below the rolling update's partition get the template of the revision `current`, others that of `update`.
        """
        spec, meta = stateful_set.obj["spec"], stateful_set.obj["metadata"]
        revision, template = update.key[1], spec["template"]
        if ordinal < _partition(spec) and current != revision:
            stored = self._access.store.find(CONTROLLER_REVISION, meta["namespace"], current)
            if stored is not None:
                revision, template = current, stored.obj["data"]["spec"]["template"]
        name = f"{meta['name']}-{ordinal}"
        pod_spec = {**template["spec"], "hostname": name}
        if spec.get("serviceName"):
            pod_spec["subdomain"] = spec["serviceName"]
        labels = {_NAME_LABEL: name, _INDEX_LABEL: str(ordinal), _REVISION_LABEL: revision}
        return self._access.create_pod(STATEFUL_SET, stateful_set, {**template, "spec": pod_spec}, name, **labels)

    def _replace_outdated(
        self, stateful_set: StoredObject, pods: dict[int, StoredObject], update: StoredObject
    ) -> None:
        """Delete the pod with the highest ordinal that has an older revision, if all pods above it are ready.

        Pods below the rolling update's partition stay.
        """
        spec = stateful_set.obj["spec"]
        if spec["updateStrategy"]["type"] != "RollingUpdate":
            return
        for ordinal in sorted(pods, reverse=True):
            pod = pods[ordinal]
            if ordinal < _partition(spec):
                return
            if pod.obj["metadata"].get("labels", {}).get(_REVISION_LABEL) != update.key[1]:
                if len(pods) >= spec["replicas"]:
                    self._access.delete_pod(STATEFUL_SET, stateful_set, pod)
                return
            if not is_ready(pod.obj):
                return

    def _revision(self, stateful_set: StoredObject) -> StoredObject:
        """Return the ControllerRevision of the StatefulSet's present template; create it if it does not exist."""
        uid, meta = stateful_set.obj["metadata"]["uid"], stateful_set.obj["metadata"]
        template = stateful_set.obj["spec"]["template"]
        revisions = self._access.ownership.controlled(uid, CONTROLLER_REVISION)
        newest = max((r.obj["revision"] for r in revisions), default=0)
        data = {"spec": {"template": {**template, "$patch": "replace"}}}
        for revision in revisions:
            if revision.obj["data"] == data:
                if revision.obj["revision"] == newest:
                    return revision
                return self._access.update(CONTROLLER_REVISION, revision, lambda o: {**o, "revision": newest + 1})
        hash_ = template_hash(template, 0)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), "controller.kubernetes.io/hash": hash_}
        head = {"name": f"{meta['name']}-{hash_}", "labels": labels}
        head["ownerReferences"] = [owner_reference(STATEFUL_SET, stateful_set.obj)]
        created = {"metadata": head, "data": data, "revision": newest + 1}
        return self._access.create(CONTROLLER_REVISION, meta["namespace"], created)

    def _write_status(self, stateful_set: StoredObject, current: str, update: StoredObject) -> float:
        spec, uid = stateful_set.obj["spec"], stateful_set.obj["metadata"]["uid"]
        pods = self._access.ownership.controlled(uid, POD)
        states = [self._access.availability(p.obj, spec.get("minReadySeconds") or 0) for p in pods]
        revisions = [p.obj["metadata"].get("labels", {}).get(_REVISION_LABEL) for p in pods]
        updated = sum(r == update.key[1] for r in revisions)
        ready = sum(is_ready(p.obj) for p in pods)
        if updated == len(pods) == spec["replicas"] == ready:
            current = update.key[1]
        counts = {
            "replicas": len(pods),
            "readyReplicas": ready,
            "currentReplicas": sum(r == current for r in revisions),
            "updatedReplicas": updated,
            "availableReplicas": sum(available for available, _ in states),
        }
        status: Object = {k: v for k, v in counts.items() if v or k in ("replicas", "availableReplicas")}
        status |= {"currentRevision": current, "updateRevision": update.key[1], "collisionCount": 0}
        status["observedGeneration"] = stateful_set.obj["metadata"]["generation"]
        self._access.update_status(STATEFUL_SET, stateful_set, status)
        return min((left for _, left in states if left), default=0.0)

    def _clean_up(self, stateful_set: StoredObject, current: str, update: StoredObject) -> None:
        """Delete the oldest ControllerRevisions that no pod uses, until `revisionHistoryLimit` unused ones are left."""
        uid = stateful_set.obj["metadata"]["uid"]
        labels = (p.obj["metadata"].get("labels") or {} for p in self._access.ownership.controlled(uid, POD))
        live = {current, update.key[1], *(of.get(_REVISION_LABEL) for of in labels)}
        revisions = self._access.ownership.controlled(uid, CONTROLLER_REVISION)
        unused = sorted((r for r in revisions if r.key[1] not in live), key=lambda r: r.obj["revision"])
        for revision in unused[: max(0, len(unused) - stateful_set.obj["spec"]["revisionHistoryLimit"])]:
            self._access.delete(CONTROLLER_REVISION, revision)


def _partition(spec: Object) -> int:
    return int((spec["updateStrategy"].get("rollingUpdate") or {}).get("partition") or 0)


def _ordinal(pod: StoredObject) -> int:
    number = pod.key[1].rpartition("-")[2]
    return int(number) if number.isdigit() else -1
