"""The codes of states and causes of workloads that `live.state` has, with their meanings, as `explain reasons` has.

Owns: the codes of workloads, which are never renamed. Does not own: those of pods (`live.codes`), sentences with names
and amounts (`workload_state` and the modules that it uses).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STATES: Final[Mapping[str, str]] = {
    "workload-ready": "The pods that the workload asks for exist and are ready.",
    "workload-not-created": "Pods that the workload asks for do not exist.",
    "workload-pending": "Pods of the workload wait for a node.",
    "workload-not-ready": "Pods of the workload have a node and are not ready.",
    "workload-scaled-to-zero": "The workload asks for no pods.",
    "workload-paused": "The Deployment is paused, so that changes of its template make no pods.",
    "workload-suspended": "The Job or CronJob is suspended, so that it makes no pods.",
    "workload-rolling-out": "Pods of the newest template replace those of an earlier one.",
    "workload-rollout-stuck": "Pods of the newest template do not become ready in the time that the Deployment allows.",
    "workload-update-held": "The update strategy keeps pods at an earlier template: a partition, or OnDelete.",
    "workload-elsewhere": "MultiKueue runs the Job's pods in another cluster.",
    "workload-running": "The Job's pods run, or are about to be made.",
    "workload-complete": "The Job has completed.",
    "workload-failed": "The Job has failed.",
    "workload-waits-for-schedule": "The CronJob has no active Job and waits for its next time.",
    "workload-terminating": "The workload is being deleted.",
    "workload-not-found": "The workload does not exist.",
    "workload-not-read": "The workload's object cannot be read; its pods and events are all that is known.",
}

CAUSES: Final[Mapping[str, str]] = {
    "quota-exceeded": "A ResourceQuota has too little left for another pod.",
    "quota-needs-amounts": "A ResourceQuota counts amounts that the pod's containers do not state.",
    "limit-range": "A LimitRange forbids an amount that a container, the pod or a claim states, or lacks.",
    "webhook-failed": "An admission webhook cannot be called.",
    "webhook-denied": "An admission webhook denied the request.",
    "policy-denied": "A ValidatingAdmissionPolicy denied the request.",
    "pod-security": "Pod security of the namespace forbids the pod.",
    "service-account-missing": "The ServiceAccount of the pods does not exist.",
    "priority-class-missing": "The PriorityClass of the pods does not exist.",
    "runtime-class-missing": "The RuntimeClass of the pods does not exist.",
    "template-invalid": "The API server finds the pod invalid.",
    "webhook-patch-failed": "The patch of a mutating webhook does not apply to the pod.",
    "webhook-made-invalid": "An admission webhook or plugin added a container or volume that makes the pod invalid.",
    "namespace-terminating": "The namespace is being deleted.",
    "name-taken": "A pod of that name exists and belongs to no or another owner.",
    "secret-not-listed": "The pods' ServiceAccount does not list a Secret that they use, and allows only those.",
    "creation-refused": "The creation of pods is refused or fails for another reason, which the text has.",
    "creation-unexplained": "Pods are missing, and no event or condition says why.",
    "controller-behind": "The controller has not acted on the last change of the workload.",
    "controller-silent": "kube-controller-manager, whose controllers make the pods, does not renew its Lease.",
    "replica-set-missing": "The Deployment has no ReplicaSet for its template.",
    "waits-for-earlier-pod": "The StatefulSet makes or updates its pods in order and waits for an earlier one.",
    "replicas-zero": "The workload's replicas are 0.",
    "autoscaler-zero": "An autoscaler asks for 0 replicas, or has set them to 0.",
    "autoscaler-disabled": "The HorizontalPodAutoscaler does nothing while the replicas are 0.",
    "autoscaler-limited": "The HorizontalPodAutoscaler asks for as many pods as its limits allow.",
    "autoscaler-inactive": "The HorizontalPodAutoscaler cannot compute a number of pods.",
    "paused": "spec.paused of the Deployment is true.",
    "suspended": "spec.suspend of the Job or CronJob is true.",
    "queued": "The Job is suspended until its queue admits it.",
    "progress-deadline": "The new ReplicaSet made no progress for progressDeadlineSeconds.",
    "old-pods-kept": "The rollout may not delete an old pod before a new one is available.",
    "min-ready": "Ready pods do not count as available before they were ready for minReadySeconds.",
    "partition": "The update strategy's partition keeps pods at an earlier template.",
    "update-waits": "The update replaces no further pod before those that are unavailable are there again.",
    "waits-for-terminating-pod": "The controller replaces a pod that is being deleted only after its end.",
    "on-delete": "The update strategy OnDelete keeps pods at an earlier template until they are deleted.",
    "no-node-selected": "No node matches the DaemonSet's node selector, affinity and tolerations.",
    "backoff-limit": "The Job's pods failed more often than backoffLimit allows.",
    "job-deadline": "The Job ran longer than activeDeadlineSeconds allows.",
    "job-failure-policy": "The Job's podFailurePolicy ended it.",
    "job-ended": "The Job ended for another reason, which the text has.",
    "other-controller": "Another controller manages the object (spec.managedBy).",
    "schedule-invalid": "The CronJob's schedule or time zone is invalid, or no time ever fits it.",
    "schedule-missed": "The CronJob missed times of its schedule.",
    "schedule-stopped": "The CronJob starts no more Jobs, because it missed too many times of its schedule.",
    "job-still-active": "concurrencyPolicy Forbid makes no Job while another one is active.",
    "job-replaced": "concurrencyPolicy Replace deletes a Job that still runs when the next one is due.",
    "pods-waiting": "Pods of the workload wait for a node; the text says why the first of them does.",
}
