"""The Deployment controller: one ReplicaSet per template, and the rollout from the old ones to the new one.

                       template changed ─> new ReplicaSet ─> scale up (at most maxSurge above replicas)
                                                         └─> scale old down (at most maxUnavailable below replicas)

Source of the rules: kube-controller-manager's pkg/controller/deployment. Does not own: pods (`replica_set`).
Invariant: a rolling update never scales down to fewer available pods than `replicas - maxUnavailable`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from herodotus_sim.controllers.access import (
    ControllerClient,
    find_condition,
    format_timestamp,
    is_active,
    owner_reference,
    parse_timestamp,
    with_condition,
)
from herodotus_sim.errors import StatusError
from herodotus_sim.kinds import POD
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object, encode
from herodotus_sim.workloads import DEPLOYMENT, REPLICA_SET, resolve

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_HISTORY = "deployment.kubernetes.io/revision-history"
_MAX = "deployment.kubernetes.io/max-replicas"
# Annotations of a Deployment that are not copied to its ReplicaSets.
_NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, _DESIRED, _MAX,
     _HISTORY, "deprecated.deployment.rollback.to"}
)  # fmt: skip
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # of k8s.io/apimachinery's SafeEncodeString


def template_hash(template: Object, collisions: int) -> str:
    """Return a hash of a pod template as a value for the pod-template-hash label; `collisions` varies it.

    It has the form of kube-controller-manager's value (32-bit FNV-1a in the safe alphabet) but not the same value,
    because that one hashes Go's memory layout.
    """
    digest = 0x811C9DC5
    for byte in encode([template, collisions]):
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(digest))


class _Condition(NamedTuple):
    """A condition of a Deployment's status, without its times."""

    type: str
    status: str
    reason: str
    message: str


class DeploymentController:
    """The controller that creates, scales and deletes the ReplicaSets of Deployments."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def reconcile(self, deployment: StoredObject) -> float:
        """Take the next step of a Deployment's rollout; return the seconds until the next check, or 0 for none."""
        sets = self._access.claim(DEPLOYMENT, deployment, REPLICA_SET)
        sets = [s for s in sets if not s.obj["metadata"].get("deletionTimestamp")]
        rollout = _Rollout(self._access, deployment, sets)
        return rollout.advance()


class _Rollout:
    """One reconciliation of one Deployment: its newest ReplicaSet, its old ones, and the steps that change them."""

    def __init__(self, access: ControllerClient, deployment: StoredObject, sets: list[StoredObject]) -> None:
        self._access = access
        self._deployment = deployment
        self._spec = deployment.obj["spec"]
        self._replicas: int = self._spec["replicas"]
        ordered = sorted(sets, key=lambda s: (s.obj["metadata"]["creationTimestamp"], s.key))
        self._new = next((s for s in ordered if _has_template(s.obj, self._spec["template"])), None)
        self._old = [s for s in ordered if s is not self._new]
        self._created = False

    @property
    def _all_replica_sets(self) -> list[StoredObject]:
        return [*self._old, *([self._new] if self._new else [])]

    def advance(self) -> float:
        """Take the next step of scaling or rollout, and update the Deployment's status.

        Returns the seconds until the next check, or 0 if none is needed.
        """
        if self._spec.get("paused") or self._is_scaling():
            self._scale_all()
        elif self._spec["strategy"]["type"] == "Recreate":
            self._recreate()
        else:
            self._roll_out()
        if self._is_complete() or self._spec.get("paused"):
            self._clean_up()
        return self._write_status()

    # --- steps ------------------------------------------------------------------------------------------------------

    def _roll_out(self) -> None:
        self._sync_new(lambda: self._size_of_new(0))
        assert self._new is not None
        wanted = self._size_of_new(_replicas(self._new))
        if wanted != _replicas(self._new):
            self._new = self._scale(self._new, wanted)
            return
        self._scale_old_down()

    def _recreate(self) -> None:
        active = [s for s in self._old if _replicas(s)]
        if active:
            self._old = [self._scale(s, 0) for s in self._old]
            return
        for old in self._old:
            uid = old.obj["metadata"]["uid"]
            if any(is_active(p.obj) for p in self._access.ownership.controlled(uid, POD)):
                return
        self._sync_new(lambda: self._replicas)
        assert self._new is not None
        if _replicas(self._new) != self._replicas:
            self._new = self._scale(self._new, self._replicas)

    def _scale_old_down(self) -> None:
        assert self._new is not None
        if not any(_replicas(s) for s in self._old):
            return
        least = self._replicas - self._max_unavailable
        unavailable_new = _replicas(self._new) - _available(self._new)
        allowed = sum(_replicas(s) for s in self._all_replica_sets) - least - unavailable_new
        if allowed <= 0:
            return
        cleaned = 0
        for i, old in enumerate(self._old):  # Removing unavailable pods does not reduce availability.
            surplus = min(allowed - cleaned, _replicas(old) - _available(old))
            if surplus > 0:
                self._old[i] = self._scale(old, _replicas(old) - surplus)
                cleaned += surplus
        spare = sum(min(_available(s), _replicas(s)) for s in self._all_replica_sets) - least
        for i, old in enumerate(self._old):
            surplus = min(spare, _replicas(old))
            if surplus > 0:
                self._old[i] = self._scale(old, _replicas(old) - surplus)
                spare -= surplus

    def _scale_all(self) -> None:
        """Scale the ReplicaSets to a changed `spec.replicas`; during a rollout, in proportion to their sizes."""
        self._update_revisions()
        active = [s for s in self._all_replica_sets if _replicas(s)]
        latest = active[0] if len(active) == 1 else self._new if not active else None
        if latest is not None:
            self._replace(latest, self._replicas)
        elif self._new is not None and _replicas(self._new) == _available(self._new) == self._replicas:
            for old in active:
                if old is not self._new:
                    self._replace(old, 0)
        elif self._spec["strategy"]["type"] == "RollingUpdate" and active:
            self._scale_in_proportion(active)

    def _scale_in_proportion(self, active: list[StoredObject]) -> None:
        allowed = self._replicas + self._max_surge if self._replicas else 0
        difference = allowed - sum(_replicas(s) for s in active)
        by_age = sorted(active, key=lambda s: s.obj["metadata"]["creationTimestamp"], reverse=difference > 0)
        by_size = sorted(by_age, key=_replicas, reverse=True)
        sizes, added = {}, 0
        for replica_set in by_size:
            share = 0
            if difference:
                before = int(_annotation(replica_set, _MAX) or self._replicas)
                fraction = round(_replicas(replica_set) * allowed / before) if before else 0
                change, left = fraction - _replicas(replica_set), difference - added
                share = min(change, left) if difference > 0 else max(change, left)
            sizes[replica_set.key] = _replicas(replica_set) + share
            added += share
        first = by_size[0].key
        sizes[first] = max(0, sizes[first] + difference - added)
        for replica_set in by_size:
            self._replace(replica_set, sizes[replica_set.key])

    def _clean_up(self) -> None:
        """Delete the oldest ReplicaSets without pods, until `revisionHistoryLimit` old ones are left."""
        by_revision = sorted(self._old, key=lambda s: int(_annotation(s, REVISION) or 0))
        empty = [s for s in by_revision if not _replicas(s) and not (s.obj.get("status") or {}).get("replicas")]
        for old in empty[: max(0, len(self._old) - self._spec["revisionHistoryLimit"])]:
            self._access.delete(REPLICA_SET, old)
            self._old.remove(old)

    # --- replica sets -----------------------------------------------------------------------------------------------

    def _sync_new(self, size: Callable[[], int]) -> None:
        """Create the ReplicaSet of the current template, or if it exists, update its revision.

        `size` returns the number of pods of a new ReplicaSet. Raises StatusError if it cannot be created.
        """
        if self._new is not None:
            self._update_revisions()
            return
        access, meta, template = self._access, self._deployment.obj["metadata"], self._spec["template"]
        status = self._deployment.obj.get("status") or {}
        hash_ = template_hash(template, status.get("collisionCount") or 0)
        head = template.get("metadata") or {}
        labels = {**(head.get("labels") or {}), HASH_LABEL: hash_}
        selector = self._spec["selector"]
        created: Object = {
            "metadata": {
                "name": f"{meta['name']}-{hash_}",
                "labels": labels,
                "annotations": self._set_annotations(self._next_revision()),
                "ownerReferences": [owner_reference(DEPLOYMENT, self._deployment.obj)],
            },
            "spec": {
                "replicas": size(),
                "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_}},
                "template": {**template, "metadata": {**head, "labels": labels}},
            },
        }
        if self._spec.get("minReadySeconds"):
            created["spec"]["minReadySeconds"] = self._spec["minReadySeconds"]
        try:
            self._new = access.create(REPLICA_SET, self._deployment.key[0], created)
        except StatusError as error:
            if error.reason == "AlreadyExists":  # Another template has the same hash.
                collisions = {**status, "collisionCount": (status.get("collisionCount") or 0) + 1}
                access.update_status(DEPLOYMENT, self._deployment, collisions)
            raise
        self._created = True
        self._record_scaling_event(self._new.key[1], 0, _replicas(self._new))
        self._annotate_deployment(self._next_revision())

    def _next_revision(self) -> int:
        next_revision = max((int(_annotation(s, REVISION) or 0) for s in self._old), default=0) + 1
        return max(next_revision, int(_annotation(self._new, REVISION) or 0) if self._new else 0)

    def _set_annotations(self, revision: int) -> Object:
        own = self._deployment.obj["metadata"].get("annotations") or {}
        annotations = {k: v for k, v in own.items() if k not in _NOT_COPIED}
        return {**annotations, **self._size_annotations(), REVISION: str(revision)}

    def _size_annotations(self) -> Object:
        most = self._replicas + self._max_surge
        return {_DESIRED: str(self._replicas), _MAX: str(most)}

    def _update_revisions(self) -> None:
        if self._new is None:
            return
        revision = self._next_revision()
        annotations = {k: v for k, v in self._set_annotations(revision).items() if k not in (_DESIRED, _MAX)}
        before = _annotation(self._new, REVISION)
        if before and int(before) < revision:  # The Deployment was rolled back to an old template.
            history = _annotation(self._new, _HISTORY)
            annotations[_HISTORY] = f"{history},{before}" if history else before
        self._new = self._access.annotate(REPLICA_SET, self._new, annotations)
        self._annotate_deployment(revision)

    def _annotate_deployment(self, revision: int) -> None:
        self._deployment = self._access.annotate(DEPLOYMENT, self._deployment, {REVISION: str(revision)})

    def _replace(self, replica_set: StoredObject, size: int) -> None:
        """Scale a ReplicaSet to `size` pods, and replace its version in `_new` or `_old` by the new one."""
        scaled = self._scale(replica_set, size)
        if self._new is not None and replica_set.key == self._new.key:
            self._new = scaled
        else:
            self._old = [scaled if s.key == scaled.key else s for s in self._old]

    def _scale(self, replica_set: StoredObject, size: int) -> StoredObject:
        before = _replicas(replica_set)

        def scaled(obj: Object) -> Object:
            meta = obj["metadata"]
            annotations = {**(meta.get("annotations") or {}), **self._size_annotations()}
            return {
                **obj,
                "metadata": {**meta, "annotations": annotations},
                "spec": {**obj["spec"], "replicas": size},
            }

        changed = self._access.update(REPLICA_SET, replica_set, scaled)
        if size != before:
            self._record_scaling_event(replica_set.key[1], before, size)
        return changed

    def _record_scaling_event(self, name: str, before: int, size: int) -> None:
        if before == size:
            return
        direction = "up" if size > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {size}"
        self._access.record(DEPLOYMENT, self._deployment.obj, "ScalingReplicaSet", message)

    def _size_of_new(self, present: int) -> int:
        """Return how many pods the newest ReplicaSet, which has `present` pods, may have without exceeding maxSurge."""
        if present >= self._replicas:
            return self._replicas
        room = self._replicas + self._max_surge - sum(_replicas(s) for s in self._old) - present
        return present + max(0, min(room, self._replicas - present))

    def _is_scaling(self) -> bool:
        desired = [_annotation(s, _DESIRED) for s in self._all_replica_sets if _replicas(s)]
        return any(d is not None and int(d) != self._replicas for d in desired)

    # --- numbers ----------------------------------------------------------------------------------------------------

    @property
    def _max_surge(self) -> int:
        rolling = self._spec["strategy"].get("rollingUpdate")
        return resolve(rolling["maxSurge"], self._replicas, up=True) if rolling else 0

    @property
    def _max_unavailable(self) -> int:
        rolling = self._spec["strategy"].get("rollingUpdate")
        if not rolling or not self._replicas:
            return 0
        unavailable = resolve(rolling["maxUnavailable"], self._replicas, up=False)
        if not unavailable and not self._max_surge:
            return 1  # Both may round to 0, but the rollout must advance.
        return min(unavailable, self._replicas)

    # --- status -----------------------------------------------------------------------------------------------------

    def _counts(self) -> Object:
        status_of = [s.obj.get("status") or {} for s in self._all_replica_sets]
        total = sum(s.get("replicas", 0) for s in status_of)
        available = sum(s.get("availableReplicas", 0) for s in status_of)
        counts = {
            "replicas": total,
            "updatedReplicas": ((self._new.obj.get("status") or {}).get("replicas", 0)) if self._new else 0,
            "readyReplicas": sum(s.get("readyReplicas", 0) for s in status_of),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(_replicas(s) for s in self._all_replica_sets) - available),
        }
        return {k: v for k, v in counts.items() if v}

    def _is_complete(self) -> bool:
        counts, generation = self._counts(), self._deployment.obj["metadata"]["generation"]
        sizes = [counts.get(k, 0) for k in ("updatedReplicas", "replicas", "availableReplicas")]
        observed = (self._deployment.obj.get("status") or {}).get("observedGeneration", generation)
        return sizes == [self._replicas] * 3 and observed >= generation

    def _write_status(self) -> float:
        before = self._deployment.obj.get("status") or {}
        counts = self._counts()
        status: Object = {**counts, "observedGeneration": self._deployment.obj["metadata"]["generation"]}
        if before.get("collisionCount"):
            status["collisionCount"] = before["collisionCount"]
        conditions, again_s = self._progressing(before, counts)
        if counts.get("availableReplicas", 0) >= self._replicas - self._max_unavailable:
            available = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            available = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        status["conditions"] = self._with(conditions, _Condition("Available", *available))
        self._access.update_status(DEPLOYMENT, self._deployment, status)
        return again_s

    def _progressing(self, before: Object, counts: Object) -> tuple[list[Object], float]:
        """Return the conditions with an updated Progressing condition, and the seconds until the rollout may time out.

        `before` is the previous status, `counts` the current pod counts.
        """
        conditions: list[Object] = list(before.get("conditions") or [])
        progressing = find_condition({"status": before}, "Progressing")
        name = self._new.key[1] if self._new else ""
        complete = all(counts.get(k, 0) == self._replicas for k in ("updatedReplicas", "replicas", "availableReplicas"))
        if self._created:
            done = f'Created new replica set "{name}"'
            return self._with(conditions, _Condition("Progressing", "True", "NewReplicaSetCreated", done)), 0.1
        if self._spec.get("paused"):
            if progressing is None or progressing["reason"] != "DeploymentPaused":
                paused = _Condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
                conditions = self._with(conditions, paused)
            return conditions, 0.0
        if complete:
            done = f'ReplicaSet "{name}" has successfully progressed.'
            return self._with(conditions, _Condition("Progressing", "True", "NewReplicaSetAvailable", done)), 0.0
        was_complete = progressing is not None and progressing["reason"] == "NewReplicaSetAvailable"
        if was_complete and not self._has_changed(before):
            return conditions, 0.0  # The rollout is complete; pods that fail later do not start another one.
        if progressing is None or was_complete or self._has_progressed(before, counts):
            doing = f'ReplicaSet "{name}" is progressing.'
            conditions = self._with(
                conditions, _Condition("Progressing", "True", "ReplicaSetUpdated", doing), renew=True
            )
            progressing = find_condition({"status": {"conditions": conditions}}, "Progressing")
        assert progressing is not None
        limit_s = self._spec["progressDeadlineSeconds"]
        left = parse_timestamp(progressing["lastUpdateTime"]) + limit_s - self._access.clock()
        if left > 0:
            return conditions, left + 1
        late = f'ReplicaSet "{name}" has timed out progressing.'
        return self._with(conditions, _Condition("Progressing", "False", "ProgressDeadlineExceeded", late)), 0.0

    def _has_changed(self, before: Object) -> bool:
        return bool(before.get("observedGeneration") != self._deployment.obj["metadata"]["generation"])

    def _has_progressed(self, before: Object, counts: Object) -> bool:
        def number(status: Object, field: str) -> int:
            return int(status.get(field, 0))

        old_before = number(before, "replicas") - number(before, "updatedReplicas")
        old_now = number(counts, "replicas") - number(counts, "updatedReplicas")
        grown = any(
            number(counts, k) > number(before, k) for k in ("updatedReplicas", "readyReplicas", "availableReplicas")
        )
        return grown or old_now < old_before

    def _with(self, conditions: list[Object], condition: _Condition, *, renew: bool = False) -> list[Object]:
        new: Object = condition._asdict()
        old = next((c for c in conditions if c.get("type") == condition.type), None)
        changed = with_condition(conditions, new, self._access.clock())
        if changed is conditions and not renew:
            return conditions
        stamp = format_timestamp(self._access.clock())
        transition = stamp if old is None or old["status"] != condition.status else old["lastTransitionTime"]
        stamped = {**new, "lastUpdateTime": stamp, "lastTransitionTime": transition}
        return [*(c for c in conditions if c.get("type") != condition.type), stamped]


def _replicas(replica_set: StoredObject) -> int:
    return int(replica_set.obj["spec"]["replicas"])


def _available(replica_set: StoredObject) -> int:
    return int((replica_set.obj.get("status") or {}).get("availableReplicas", 0))


def _annotation(version: StoredObject, name: str) -> str | None:
    return (version.obj["metadata"].get("annotations") or {}).get(name)


def _has_template(replica_set: Object, template: Object) -> bool:
    """Return whether a ReplicaSet has this pod template, apart from the pod-template-hash label."""
    own = replica_set["spec"]["template"]
    return _without_hash(own) == _without_hash(template)


def _without_hash(template: Object) -> Object:
    head = template.get("metadata") or {}
    labels = {k: v for k, v in (head.get("labels") or {}).items() if k != HASH_LABEL}
    rest = {k: v for k, v in head.items() if k not in ("labels", "creationTimestamp") and v}
    return {**template, "metadata": {**rest, "labels": labels}}
