"""The Job controller: creates pods until `completions` of them succeeded, or more than `backoffLimit` failed.

The pods of an Indexed job have the completion indexes from 0 on, and each index needs one pod that succeeded.

Does not own: running pods (`kubelets`). Not built: failure and success policies and limits for single indexes
(`workloads.check_supported` rejects them). Invariant: a pod that ended is counted once, even if it was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, islice
from typing import NamedTuple

from herodotus_sim.controllers.access import (
    ControllerClient,
    format_timestamp,
    is_active,
    is_ready,
    parse_timestamp,
    with_condition,
)
from herodotus_sim.kinds import POD
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object
from herodotus_sim.workloads import JOB

# kube-controller-manager's backoff before a failed pod is replaced.
_BACKOFF_S = 10.0
_LONGEST_BACKOFF_S = 600.0
_BURST = 500
_INDEX = "batch.kubernetes.io/job-completion-index"  # annotation and label of the pods of an Indexed job


class EndedPod(NamedTuple):
    """How and when a pod of a Job ended, and its completion index, or None if it has none."""

    phase: str
    time_s: float
    completion_index: int | None


class JobController:
    """The controller that creates the pods of Jobs, counts how they ended, and finishes the Jobs."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access
        self._ended: dict[str, dict[str, EndedPod]] = {}  # by job UID and pod UID

    def reconcile(self, job: StoredObject) -> float:
        """Take the next step for a Job and update its status.

        Returns the seconds until the next check, or 0 if none is needed.
        """
        access, spec, meta = self._access, job.obj["spec"], job.obj["metadata"]
        status = dict(job.obj.get("status") or {})
        if _is_finished(status):
            self._ended.pop(meta["uid"], None)
            return self._expire(job, status)
        pods = access.claim(JOB, job, POD)
        ended = self._ended.setdefault(meta["uid"], {})
        for pod in pods:
            phase = pod.obj["status"].get("phase")
            if phase in ("Succeeded", "Failed"):
                ended.setdefault(pod.obj["metadata"]["uid"], EndedPod(phase, access.clock(), _find_index(pod)))
        active = [p for p in pods if is_active(p.obj)]
        done = [each.completion_index for each in ended.values() if each.phase == "Succeeded"]
        if spec["completionMode"] == "Indexed":
            done = [*{*done}]
            status["completedIndexes"] = _format_indexes(index for index in done if index is not None)
        succeeded = len(done)
        failures = [each.time_s for each in ended.values() if each.phase == "Failed"]
        if spec.get("suspend"):
            return self._suspend(job, active, succeeded, len(failures))
        status["conditions"] = _without_suspension(status.get("conditions") or [], access.clock())
        status.setdefault("startTime", format_timestamp(access.clock()))
        verdict = self._final_condition(job, active, succeeded, len(failures), status)
        again_s = 0.0
        if verdict is None:
            active, again_s = self._create(job, active, done, failures)
        else:
            for pod in active:
                access.delete_pod(JOB, job, pod)
            active = []
            status["conditions"] = _final_conditions(status["conditions"], *verdict, access.clock())
            if verdict[0] == "Complete":
                status["completionTime"] = format_timestamp(access.clock())
            access.record(JOB, job.obj, verdict[1], verdict[2], "Normal" if verdict[0] == "Complete" else "Warning")
        self._write_status(job, status, active, succeeded, len(failures))
        deadline_s = spec.get("activeDeadlineSeconds")
        if verdict is None and deadline_s:
            left = max(0.01, parse_timestamp(status["startTime"]) + deadline_s - access.clock())
            again_s = min(again_s or left, left)
        if verdict is not None:
            return float(spec.get("ttlSecondsAfterFinished") or 0)
        return again_s

    def _final_condition(
        self, job: StoredObject, active: list[StoredObject], succeeded: int, failed: int, status: Object
    ) -> tuple[str, str, str] | None:
        """Return type, reason and message of the Job's final condition, or None while the Job is not finished."""
        spec = job.obj["spec"]
        restarts = sum(c.get("restartCount", 0) for p in active for c in p.obj["status"].get("containerStatuses") or [])
        on_failure = spec["template"]["spec"].get("restartPolicy") == "OnFailure"
        if failed > spec["backoffLimit"] or (on_failure and restarts > spec["backoffLimit"]):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline_s = spec.get("activeDeadlineSeconds")
        if deadline_s and self._access.clock() >= parse_timestamp(status["startTime"]) + deadline_s:
            return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        completions = spec.get("completions")
        done = succeeded > 0 and not active if completions is None else succeeded >= completions
        if done:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _create(
        self, job: StoredObject, active: list[StoredObject], done: list[int | None], failures: list[float]
    ) -> tuple[list[StoredObject], float]:
        """Create or delete pods until as many are active as should be; return these, and the seconds until more may be.

        `done` has the completion index of each pod that succeeded, `failures` when others failed.
        """
        spec, succeeded = job.obj["spec"], len(done)
        completions, wanted = spec.get("completions"), spec["parallelism"]
        if completions is not None:
            wanted = min(wanted, completions - succeeded)
        elif succeeded:
            wanted = min(wanted, len(active))  # In a work queue the first success means that no work is left.
        for pod in active[wanted:]:
            self._access.delete_pod(JOB, job, pod)
        active, missing = active[:wanted], wanted - len(active)
        if missing <= 0:
            return active, 0.0
        if failures:
            wait_s = min(_BACKOFF_S * 2.0 ** (len(failures) - 1), _LONGEST_BACKOFF_S)
            left = max(failures) + wait_s - self._access.clock()
            if left > 0:
                return active, left
        if spec["completionMode"] == "Indexed":
            taken = {*done, *map(_find_index, active)}
            indexes = islice((index for index in count() if index not in taken), min(missing, _BURST))
            created = [self._create_indexed(job, index) for index in indexes]
        else:
            created = [self._access.create_pod(JOB, job, spec["template"]) for _ in range(min(missing, _BURST))]
        return [*active, *created], 0.01 if missing > _BURST else 0.0

    def _create_indexed(self, job: StoredObject, index: int) -> StoredObject:
        """Create the pod with a completion index, which its containers get in the variable JOB_COMPLETION_INDEX.

        Source: pkg/controller/job/indexed_job_utils.go v1.36.
        """
        template, name = job.obj["spec"]["template"], f"{job.key[1]}-{index}"
        head, spec = template.get("metadata") or {}, template["spec"]
        head = {**head, "annotations": {**(head.get("annotations") or {}), _INDEX: str(index)}}
        field = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{_INDEX}']"}}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}
        containers = {
            kind: [{**each, "env": [*(each.get("env") or ()), variable]} for each in spec[kind]]
            for kind in ("initContainers", "containers")
            if spec.get(kind)
        }
        own = {"metadata": head, "spec": {"hostname": name, **spec, **containers}}
        return self._access.create_pod(JOB, job, own, name_prefix=name, **{_INDEX: str(index)})

    def _suspend(self, job: StoredObject, active: list[StoredObject], succeeded: int, failed: int) -> float:
        for pod in active:
            self._access.delete_pod(JOB, job, pod)
        status = {k: v for k, v in (job.obj.get("status") or {}).items() if k != "startTime"}
        suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
        status["conditions"] = with_condition(status.get("conditions") or [], suspended, self._access.clock())
        self._write_status(job, status, [], succeeded, failed)
        return 0.0

    def _write_status(
        self, job: StoredObject, status: Object, active: list[StoredObject], succeeded: int, failed: int
    ) -> None:
        counts = {"active": len(active), "succeeded": succeeded, "failed": failed}
        others = {k: v for k, v in status.items() if k not in counts and not (k == "conditions" and not v)}
        new = {**others, **{k: v for k, v in counts.items() if v}}
        new |= {"ready": sum(is_ready(p.obj) for p in active), "terminating": 0, "uncountedTerminatedPods": {}}
        self._access.update_status(JOB, job, new)

    def _expire(self, job: StoredObject, status: Object) -> float:
        """Delete a finished Job if `ttlSecondsAfterFinished` is over.

        Returns the seconds that are left until then, or 0 if the Job was deleted or has no such limit.
        """
        ttl_s = job.obj["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return 0.0
        ended = max(parse_timestamp(c.get("lastTransitionTime")) for c in status["conditions"] if c["type"] in _FINAL)
        left: float = ended + ttl_s - self._access.clock()
        if left > 0:
            return left
        self._access.delete(JOB, job)
        return 0.0


_FINAL = ("Complete", "Failed")


def _find_index(pod: StoredObject) -> int | None:
    index = (pod.obj["metadata"].get("annotations") or {}).get(_INDEX)
    return None if index is None else int(index)


def _format_indexes(indexes: Iterable[int]) -> str:
    """Return indexes as status.completedIndexes has them, such as "0,1,3-5"."""
    ranges: list[tuple[int, int]] = []
    for index in sorted(indexes):
        first, last = ranges.pop() if ranges and ranges[-1][1] == index - 1 else (index, index)
        ranges.append((first, max(index, last)))
    return ",".join(
        str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}" for first, last in ranges
    )


def _is_finished(status: Object) -> bool:
    return any(c["type"] in _FINAL and c["status"] == "True" for c in status.get("conditions") or [])


def _without_suspension(conditions: list[Object], time_s: float) -> list[Object]:
    if not any(c["type"] == "Suspended" for c in conditions):
        return conditions
    resumed = {"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}
    return with_condition(conditions, resumed, time_s)


def _final_conditions(conditions: list[Object], type_: str, reason: str, message: str, time_s: float) -> list[Object]:
    """Return the conditions with two added, as since Kubernetes 1.31: the criterion that was met, and the final one.

    `type_` is Complete or Failed, the type of the final condition.
    """
    first = "SuccessCriteriaMet" if type_ == "Complete" else "FailureTarget"
    for each in (first, type_):
        new = {"type": each, "status": "True", "reason": reason, "message": message}
        conditions = with_condition(conditions, new, time_s)
        conditions = [{**c, "lastProbeTime": c["lastTransitionTime"]} for c in conditions]
    return conditions
