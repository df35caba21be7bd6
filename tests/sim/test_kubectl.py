"""A real kubectl, old and new, from its first question to its tables."""

import re
from collections.abc import Callable

from tests.processes import eventually
from tests.sim.client import SimClient, a_node, a_pod

Kubectl = Callable[..., str]

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: main, image: "registry.example/app:1"}]
  tolerations: [{key: a, operator: Exists}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "registry.example/app:1"}, {name: side, image: "registry.example/side:1"}]}
"""


AGENT = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {disk: ssd}, containers: [{name: main, image: "registry.example/agent:1"}]}
"""


def rows(table: str) -> list[list[str]]:
    """Cells of a printed table, ages replaced."""
    cells = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines() if line.strip()]
    return [[re.sub(r"^\d+s$", "AGE", cell) for cell in row] for row in cells]


def test_apply_can_be_repeated(api: SimClient, kubectl: Kubectl) -> None:
    first = kubectl("apply", "-f", "-", stdin=MANIFEST)
    second = kubectl("apply", "-f", "-", stdin=MANIFEST)
    fewer = MANIFEST.replace(', {name: side, image: "registry.example/side:1"}', "").replace("app:1", "app:2")
    third = kubectl("apply", "-f", "-", stdin=fewer.replace("labels: {app: web}}\nspec", "labels: {tier: x}}\nspec"))
    assert [first, second, third] == [
        "pod/web created\ndeployment.apps/web created\n",
        "pod/web unchanged\ndeployment.apps/web unchanged\n",
        "pod/web configured\ndeployment.apps/web configured\n",
    ]
    pod, deployment = api.sim.get("Pod", "default", "web"), api.sim.get("Deployment", "default", "web")
    images = [c["image"] for c in deployment["spec"]["template"]["spec"]["containers"]]
    assert (pod["metadata"]["labels"], pod["spec"]["containers"][0]["image"], images) == (
        {"tier": "x"}, "registry.example/app:2", ["registry.example/app:2"]
    )  # fmt: skip


def test_server_side_apply_and_dry_run(api: SimClient, kubectl: Kubectl) -> None:
    dry = kubectl("apply", "--dry-run=server", "-f", "-", stdin=MANIFEST)
    assert (dry.splitlines()[0], api.sim.list("Pod")) == ("pod/web created (server dry run)", [])
    assert kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST).splitlines()[0] == "pod/web serverside-applied"


def test_pods_and_nodes_are_printed_with_the_servers_columns(api: SimClient, kubectl: Kubectl) -> None:
    addresses = [{"type": "InternalIP", "address": "192.0.2.7"}]
    node = a_node("n1", addresses=addresses, nodeInfo={"kubeletVersion": "v1.36.0", "osImage": "Linux"})
    node["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    api.sim.create(node)
    api.sim.create({**a_pod("run", nodeName="n1"), "status": {"phase": "Running", "podIP": "198.51.100.1"}})
    api.sim.create(a_pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    assert rows(kubectl("get", "pods", "-o", "wide")) == [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"],
        ["gated", "0/1", "SchedulingGated", "0", "AGE", "<none>", "<none>", "<none>", "<none>"],
        ["run", "0/1", "Running", "0", "AGE", "198.51.100.1", "n1", "<none>", "<none>"],
    ]
    assert rows(kubectl("get", "pods")) == [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["gated", "0/1", "SchedulingGated", "0", "AGE"],
        ["run", "0/1", "Running", "0", "AGE"],
    ]
    kubectl("cordon", "n1")
    assert rows(kubectl("get", "nodes", "-o", "wide")) == [
        ["NAME", "STATUS", "ROLES", "AGE", "VERSION", "INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION",
         "CONTAINER-RUNTIME"],
        ["n1", "Ready,SchedulingDisabled", "worker", "AGE", "v1.36.0", "192.0.2.7", "<none>", "Linux", "<unknown>",
         "<unknown>"],
    ]  # fmt: skip
    assert rows(kubectl("get", "ns,cm", "-A"))[1] == ["namespace/default", "Active", "AGE"]


def test_get_and_describe_show_events(api: SimClient, kubectl: Kubectl) -> None:
    pod = api.sim.create(a_pod("web"))
    about = {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "default", "uid": pod["metadata"]["uid"]}
    api.sim.create({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.1"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "herodotus",
        "reportingInstance": "h-0",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": about,
        "note": "0/1 nodes are available",
        "type": "Warning",
    })  # fmt: skip
    (row,) = rows(kubectl("get", "events"))[1:]
    assert row[1:] == ["Warning", "FailedScheduling", "pod/web", "0/1 nodes are available"]
    described = kubectl("describe", "pod", "web")
    assert re.search(r"Warning +FailedScheduling +\S+ +herodotus +0/1 nodes are available", described)
    assert kubectl("get", "events.events.k8s.io", "-o", "jsonpath={.items[0].note}") == "0/1 nodes are available"


def test_label_taint_patch_and_namespace_commands(api: SimClient, kubectl: Kubectl) -> None:
    api.sim.create(a_node("n1"))
    kubectl("label", "node", "n1", "zone=a")
    kubectl("taint", "node", "n1", "k=v:NoSchedule")
    kubectl(
        "patch", "node", "n1", "--type=json", "-p", '[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]'
    )
    kubectl("patch", "node", "n1", "--subresource=status", "--type=merge", "-p", '{"status":{"capacity":{"cpu":"4"}}}')
    kubectl("create", "namespace", "team-a")
    node = api.sim.get("Node", "", "n1")
    assert (node["metadata"]["labels"], node["metadata"]["annotations"], node["spec"], node["status"]["capacity"]) == (
        {"zone": "a"}, {"a": "b"}, {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}, {"cpu": "4"}
    )  # fmt: skip
    assert "team-a" in [n["metadata"]["name"] for n in api.sim.list("Namespace")]
    assert kubectl("describe", "node", "n1").startswith("Name: ")


def test_create_delete_and_not_found(api: SimClient, kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", stdin=MANIFEST).splitlines()[0] == "pod/web created"
    again = kubectl("create", "-f", "-", stdin=MANIFEST, code=1)
    assert 'Error from server (AlreadyExists): error when creating "STDIN": pods "web" already exists' in again
    kubectl("delete", "-f", "-", stdin=MANIFEST)
    assert kubectl("get", "pod", "web", code=1) == 'Error from server (NotFound): pods "web" not found\n'
    assert kubectl("get", "all") == ""


def test_drain_evicts_pods(api: SimClient, kubectl: Kubectl) -> None:
    api.sim.create(a_node("n1"))
    api.sim.create(a_pod("web", nodeName="n1"))
    kubectl("drain", "n1", "--force", "--timeout=90s")
    assert (api.sim.list("Pod"), api.sim.get("Node", "", "n1")["spec"]["unschedulable"]) == ([], True)


def test_wait_and_watch(api: SimClient, kubectl: Kubectl) -> None:
    api.sim.create(a_pod("web"))
    api.sim.patch("Pod", "default", "web", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=60s") == "pod/web condition met\n"
    # kubectl ends with the server's stream.
    assert rows(kubectl("get", "pods", "-w", "--request-timeout=3s"))[1] == ["web", "0/1", "Pending", "0", "AGE"]


def test_auth_and_version_commands(api: SimClient, kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods/binding") == "yes\n"
    assert "herodotus-sim" in kubectl("auth", "whoami")
    assert kubectl("get", "--raw", "/livez") == "ok"
    assert "Server Version: v1.36.0-herodotus-sim" in kubectl("version")
    resources = kubectl("api-resources", "--no-headers", "-o", "name").split()
    assert {"pods", "leases.coordination.k8s.io", "events.events.k8s.io"} <= set(resources)


def test_get_daemonsets_has_the_columns_of_kubernetes(api: SimClient, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=AGENT)
    api.sim.patch("DaemonSet", "default", "agent", {"status": {"desiredNumberScheduled": 3, "numberReady": 2}})
    assert rows(kubectl("get", "daemonsets")) == [
        ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "NODE SELECTOR", "AGE"],
        ["agent", "3", "0", "2", "0", "0", "disk=ssd", "AGE"],
    ]


def test_create_deployment_and_create_job(api: SimClient, kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=registry.example/app:1", "--replicas=3", "--port=80")
    kubectl("create", "job", "once", "--image=registry.example/app:1", "--", "sh", "-c", "echo hi")
    deployment, job = api.sim.get("Deployment", "default", "web"), api.sim.get("Job", "default", "once")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container == {
        "name": "app", "image": "registry.example/app:1", "ports": [{"containerPort": 80}], "resources": {}
    }  # fmt: skip
    assert (deployment["spec"]["replicas"], deployment["spec"]["selector"]) == (3, {"matchLabels": {"app": "web"}})
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert (container["command"], job["spec"]["template"]["spec"]["restartPolicy"]) == (
        ["sh", "-c", "echo hi"],
        "Never",
    )
    assert kubectl("scale", "deployment/web", "--replicas=5") == "deployment.apps/web scaled\n"
    assert kubectl("scale", "deployment/web", "--current-replicas=5", "--replicas=6") == "deployment.apps/web scaled\n"
    assert "Expected replicas to be 5" in kubectl(
        "scale", "deployment/web", "--current-replicas=5", "--replicas=7", code=1
    )
    assert api.sim.get("Deployment", "default", "web")["spec"]["replicas"] == 6
    assert rows(kubectl("get", "deployments"))[1] == ["web", "0/6", "0", "0", "AGE"]
    assert rows(kubectl("get", "jobs"))[1][:3] == ["once", "Running", "0/1"]


def test_a_rollout_from_apply_to_undo(
    serve: Callable[..., SimClient], make_kubectl: Callable[[SimClient], Kubectl]
) -> None:
    api = serve(run_controllers=True)
    kubectl = make_kubectl(api)
    manifest = MANIFEST.partition("---")[2]
    assert kubectl("apply", "-f", "-", stdin=manifest) == "deployment.apps/web created\n"

    def run_pods() -> None:
        for pod in api.sim.list("Pod"):
            if not pod["spec"].get("nodeName"):
                api.sim.bind("default", pod["metadata"]["name"], "n1")
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                status = {"status": {"phase": "Running", "conditions": [ready]}}
                api.sim.patch("Pod", "default", pod["metadata"]["name"], status)

    def rolled_out() -> bool:
        run_pods()
        said = kubectl("rollout", "status", "deployment/web", "--watch=false")
        return said == 'deployment "web" successfully rolled out\n'

    eventually(rolled_out, "the first rollout")
    kubectl("set", "image", "deployment/web", "main=registry.example/app:2")
    eventually(rolled_out, "the second rollout")
    assert [p["spec"]["containers"][0]["image"] for p in api.sim.list("Pod")] == ["registry.example/app:2"]
    assert rows(kubectl("rollout", "history", "deployment/web"))[1:] == [
        ["REVISION", "CHANGE-CAUSE"], ["1", "<none>"], ["2", "<none>"]
    ]  # fmt: skip
    kubectl("rollout", "undo", "deployment/web")
    eventually(rolled_out, "the way back")
    assert [p["spec"]["containers"][0]["image"] for p in api.sim.list("Pod")] == ["registry.example/app:1"]
    kubectl("delete", "deployment", "web")
    eventually(lambda: not api.sim.list("Pod"), "the pods to go with their owners")
    replication_controller = manifest.replace("apps/v1", "v1").replace(
        "kind: Deployment", "kind: ReplicationController"
    )
    refused = kubectl("apply", "-f", "-", stdin=replication_controller, code=1)
    assert "the simulated cluster has no controller for replicationcontrollers" in refused
