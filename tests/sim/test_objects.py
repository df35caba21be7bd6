"""Create, get, list, update and delete, as kube-apiserver answers them."""

from typing import Any

import pytest

from tests.sim.client import LEASES, PODS, SimClient, a_node, a_pod, names, select_keys


def failure_status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "message": message, "reason": reason, **({"details": details} if details else {}), "code": code}


def test_a_created_pod_has_identity_and_defaults(api: SimClient) -> None:
    container = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}}
    status, pod = api("POST", PODS, a_pod("web", containers=[container]))
    meta = pod["metadata"]
    assert (status, meta["resourceVersion"].isdigit(), len(meta["uid"]), meta["creationTimestamp"][-1]) == (
        201, True, 36, "Z"
    )  # fmt: skip
    assert pod == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**meta, "name": "web", "namespace": "default", "generation": 1},
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "enableServiceLinks": True,
            "containers": [
                {**container, "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}}}
            ],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending"},
    }
    assert api("GET", f"{PODS}/web") == (200, pod)


def test_a_client_s_new_pod_is_pending_regardless_of_its_status(api: SimClient) -> None:
    _, pod = api("POST", PODS, {**a_pod("web"), "status": {"phase": "Running"}})
    assert pod["status"] == {"phase": "Pending"}


def test_a_gated_pod_has_the_condition(api: SimClient) -> None:
    _, pod = api("POST", PODS, a_pod("web", schedulingGates=[{"name": "example.com/wait"}]))
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": None,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    assert pod["status"] == {"phase": "Pending", "conditions": [condition]}
    status, opened = api("PATCH", f"{PODS}/web", {"spec": {"schedulingGates": None}}, "application/merge-patch+json")
    assert (status, "schedulingGates" in opened["spec"], opened["status"]) == (
        200, False, {"phase": "Pending", "conditions": []}
    )  # fmt: skip


def test_priority_is_resolved_from_its_class(api: SimClient) -> None:
    _, system = api("POST", PODS, a_pod("system", priorityClassName="system-node-critical"))
    status, unknown = api("POST", PODS, a_pod("other", priorityClassName="gold"))
    assert system["spec"]["priority"] == 2_000_001_000
    assert (status, unknown["message"]) == (
        403, 'pods "other" is forbidden: no PriorityClass with name gold was found'
    )  # fmt: skip


def test_a_name_can_be_generated(api: SimClient) -> None:
    _, pod = api("POST", PODS, {**a_pod(""), "metadata": {"generateName": "web-"}})
    assert pod["metadata"]["name"].startswith("web-")
    assert len(pod["metadata"]["name"]) == len("web-") + 5


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        pytest.param(
            "GET", f"{PODS}/none", None,
            failure_status(404, "NotFound", 'pods "none" not found', {"name": "none", "kind": "pods"}),
            id="missing",
        ),
        pytest.param(
            "GET", f"{LEASES}/none", None,
            failure_status(404, "NotFound", 'leases.coordination.k8s.io "none" not found',
                    {"name": "none", "group": "coordination.k8s.io", "kind": "leases"}),
            id="missing, in a group",
        ),
        pytest.param(
            "POST", PODS, a_pod("web"),
            failure_status(409, "AlreadyExists", 'pods "web" already exists', {"name": "web", "kind": "pods"}),
            id="already there",
        ),
        pytest.param(
            "POST", "/api/v1/namespaces/none/pods", a_pod("web"),
            failure_status(404, "NotFound", 'namespaces "none" not found', {"name": "none", "kind": "namespaces"}),
            id="no such namespace",
        ),
        pytest.param(
            "PUT", f"{PODS}/web", {**a_pod("web"), "metadata": {"name": "web", "resourceVersion": "1"}},
            failure_status(409, "Conflict",
                    'Operation cannot be fulfilled on pods "web": the object has been modified; please apply your '
                    "changes to the latest version and try again", {"name": "web", "kind": "pods"}),
            id="stale version",
        ),
        pytest.param(
            "PUT", f"{PODS}/web", a_pod("other"),
            failure_status(
                400, "BadRequest", "the name of the object (other) does not match the name on the URL (web)"
            ),
            id="another name in the body",
        ),
        pytest.param(
            "POST", PODS, a_pod(""),
            failure_status(422, "Invalid",
                    'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
                    {"name": "", "kind": "Pod", "causes": [{
                        "reason": "FieldValueRequired", "field": "metadata.name",
                        "message": "Required value: name or generateName is required"}]}),
            id="no name",
        ),
        pytest.param(
            "DELETE", f"{PODS}/none", None,
            failure_status(404, "NotFound", 'pods "none" not found', {"name": "none", "kind": "pods"}),
            id="delete what is not there",
        ),
    ],
)  # fmt: skip
def test_errors_have_kube_apiserver_s_wording(
    api: SimClient, method: str, path: str, body: Any, expected: dict[str, Any]
) -> None:
    api("POST", PODS, a_pod("web"))
    assert api(method, path, body) == (expected["code"], expected)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/api/v1/namespaces/default/widgets", 404, id="unknown resource"),
        pytest.param("GET", "/apis/example.com/v1/widgets", 404, id="unknown group"),
        pytest.param("GET", "/apis/apps/v1beta1/deployments", 404, id="unknown version"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes", 404, id="a cluster's kind in a namespace"),
        pytest.param("GET", f"{PODS}/web/log", 404, id="unknown subresource"),
        pytest.param("GET", "/nowhere", 404, id="unknown path"),
        pytest.param("POST", "/livez", 404, id="post to health"),
        pytest.param("POST", f"{PODS}/web", 405, id="create with a name"),
        pytest.param("PUT", PODS, 405, id="update without one"),
        pytest.param("POST", "/api/v1/pods", 405, id="create without a namespace"),
        pytest.param("GET", f"{PODS}/web/binding", 405, id="get a binding"),
        pytest.param("GET", "/api/v1/namespaces/default/bindings", 405, id="list bindings"),
        pytest.param("DELETE", "/api/v1/namespaces", 405, id="delete all namespaces"),
        pytest.param("BREW", PODS, 405, id="unknown method"),
    ],
)
def test_unsupported_resources_and_verbs_are_rejected(api: SimClient, method: str, path: str, code: int) -> None:
    reason, message = {
        404: ("NotFound", "the server could not find the requested resource"),
        405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    }[code]
    assert api(method, path) == (code, failure_status(code, reason, message) | {"details": {}})


def test_updates_of_spec_and_status_are_separate(api: SimClient) -> None:
    _, node = api("POST", "/api/v1/nodes", a_node("n1", allocatable={"cpu": "4"}))
    changed = {**node, "spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "8"}}}
    _, by_object = api("PUT", "/api/v1/nodes/n1", changed)
    changed["metadata"] = by_object["metadata"]
    _, by_status = api("PUT", "/api/v1/nodes/n1/status", {**changed, "spec": {}})
    assert [(n.get("spec"), n["status"]) for n in (by_object, by_status)] == [
        ({"unschedulable": True}, {"allocatable": {"cpu": "4"}}),
        ({"unschedulable": True}, {"allocatable": {"cpu": "8"}}),
    ]


def test_an_update_without_a_change_keeps_the_version(api: SimClient) -> None:
    _, pod = api("POST", PODS, a_pod("web"))
    assert api("PUT", f"{PODS}/web", pod) == (200, pod)


def test_only_some_fields_of_a_pod_s_spec_can_change(api: SimClient) -> None:
    _, pod = api("POST", PODS, a_pod("web"))
    status, refused = api("PUT", f"{PODS}/web", {**pod, "spec": {**pod["spec"], "nodeName": "n1"}})
    assert (status, refused["reason"], refused["message"][:76]) == (
        422, "Invalid", 'Pod "web" is invalid: spec: Forbidden: pod updates may not change fields oth'
    )  # fmt: skip
    tolerations = [{"key": "k", "operator": "Exists"}]
    status, _ = api("PUT", f"{PODS}/web", {**pod, "spec": {**pod["spec"], "tolerations": tolerations}})
    assert status == 200


def test_a_lease_requires_its_version_and_microseconds(api: SimClient) -> None:
    lease = {"metadata": {"name": "herodotus"}, "spec": {"renewTime": "2026-01-02T03:04:05.000000Z"}}
    created, _ = api("PUT", f"{LEASES}/herodotus", lease)
    unconditional, refused = api("PUT", f"{LEASES}/herodotus", lease)
    coarse, unparsed = api("POST", LEASES, {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-02T03:04:05Z"}})
    assert (created, unconditional, coarse) == (201, 422, 400)
    assert refused["message"] == (
        'Lease.coordination.k8s.io "herodotus" is invalid: metadata.resourceVersion: '
        "Invalid value: 0x0: must be specified for an update"
    )
    assert unparsed["message"] == (
        'Lease in version "v1" cannot be handled as a Lease: parsing time "2026-01-02T03:04:05Z" as '
        '"2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
    )


def test_dry_run_stores_nothing(api: SimClient) -> None:
    api("POST", PODS, a_pod("web"))
    assert api("POST", f"{PODS}?dryRun=All", a_pod("dry"))[0] == 201
    assert api("DELETE", f"{PODS}/web?dryRun=All")[0] == 200
    assert names(api("GET", PODS)[1]) == ["web"]


def test_a_deleted_object_remains_until_its_last_finalizer_is_removed(api: SimClient) -> None:
    held = a_pod("web")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api("POST", PODS, held)
    _, marked = api("DELETE", f"{PODS}/web")
    _, again = api("DELETE", f"{PODS}/web")
    assert "deletionTimestamp" in marked["metadata"]
    assert again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    api("PATCH", f"{PODS}/web", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    assert api("GET", f"{PODS}/web")[0] == 404


def test_delete_preconditions(api: SimClient) -> None:
    _, pod = api("POST", PODS, a_pod("web"))
    status, refused = api("DELETE", f"{PODS}/web", {"preconditions": {"uid": "another"}})
    assert (status, refused["reason"]) == (409, "Conflict")
    uid = pod["metadata"]["uid"]
    assert api("DELETE", f"{PODS}/web", {"preconditions": {"uid": uid}, "propagationPolicy": "Background"})[0] == 200


def test_deleting_a_namespace_deletes_its_objects(api: SimClient) -> None:
    api("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
    api("POST", "/api/v1/namespaces/team-a/pods", a_pod("web"))
    api("DELETE", "/api/v1/namespaces/team-a")
    assert api("GET", "/api/v1/namespaces/team-a/pods/web")[0] == 404
    assert api("GET", "/api/v1/namespaces/team-a")[0] == 404


def test_delete_collection_deletes_the_selected_objects(api: SimClient) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        api("POST", PODS, a_pod(name, labels={"tier": tier}))
    _, deleted = api("DELETE", f"{PODS}?labelSelector=tier%3Dfront")
    assert (names(deleted), names(api("GET", PODS)[1])) == (["a", "c"], ["b"])


def test_items_of_a_list_have_no_kind_and_api_version(api: SimClient) -> None:
    api("POST", PODS, a_pod("web"))
    _, listed = api("GET", PODS)
    assert (listed["kind"], listed["apiVersion"], sorted(listed["items"][0])) == (
        "PodList", "v1", ["metadata", "spec", "status"]
    )  # fmt: skip


def test_both_event_groups_return_the_same_event(api: SimClient) -> None:
    regarding = {"kind": "Pod", "namespace": "default", "name": "web"}
    event = {
        "metadata": {"name": "web.1"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "herodotus",
        "reportingInstance": "herodotus-0",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": regarding,
        "note": "0/1 nodes are available",
        "type": "Warning",
    }
    status, created = api("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    _, core = api("GET", "/api/v1/namespaces/default/events/web.1")
    wanted = {
        "apiVersion": "v1",
        "involvedObject": regarding,
        "message": "0/1 nodes are available",
        "reportingComponent": "herodotus",
        "reason": "FailedScheduling",
    }
    assert (status, select_keys(created, event)) == (201, event | {"metadata": {"name": "web.1"}})
    assert select_keys(core, wanted) == wanted
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000006Z"}}
    path = "/apis/events.k8s.io/v1/namespaces/default/events/web.1"
    _, patched = api("PATCH", path, series, "application/strategic-merge-patch+json")
    assert select_keys(patched, series | {"note": ""}) == series | {"note": event["note"]}


def test_kube_system_keeps_its_uid_and_default_namespaces_exist(api: SimClient) -> None:
    _, listed = api("GET", "/api/v1/namespaces")
    uids = {api("GET", "/api/v1/namespaces/kube-system")[1]["metadata"]["uid"] for _ in range(2)}
    assert names(listed) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert len(uids) == 1


def test_pod_groups_are_served_with_their_members_and_status(api: SimClient) -> None:
    """The scheduler reads PodGroups and spec.schedulingGroup, and sets a condition by a strategic merge patch."""
    groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    assert api("POST", groups, body)[0] == 201
    _, pod = api("POST", PODS, a_pod("web", schedulingGroup={"podGroupName": "g"}))
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    condition = {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    for changed in (condition, {**condition, "status": "True"}):
        patch = {"status": {"conditions": [changed]}}
        status, _ = api("PATCH", f"{groups}/g/status", patch, "application/strategic-merge-patch+json")
        assert status == 200
    assert api("GET", f"{groups}/g")[1]["status"] == {"conditions": [{**condition, "status": "True"}]}
