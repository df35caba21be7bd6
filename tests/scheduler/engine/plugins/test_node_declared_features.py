"""NodeDeclaredFeatures: what a pod needs of the kubelet."""

from typing import Any

import pytest

from herodotus_record.model import Code, Reason, Verdict
from scheduler.engine.framework.plugin import NoArgs
from scheduler.engine.plugins.node_declared_features import NodeDeclaredFeatures
from tests.scheduler.builders import Json, NodeBuilder, PodBuilder, columns_of, make_node, make_pod
from tests.scheduler.storage import ClusterWithObjects, codes, tried

RESTART, NETWORK = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]


def node(name: str, *features: str) -> NodeBuilder:
    made = make_node(name)
    made.json["status"]["declaredFeatures"] = list(features)
    return made


def containers(rules: Any, group: str = "containers") -> Json:
    return {group: [{"name": "c", "restartPolicyRules": rules}]}


NODES = columns_of([node("old"), node("new", RESTART, NETWORK, "Unknown"), node("half", RESTART)])


def filtered(pod: PodBuilder) -> Any:
    return tried(NodeDeclaredFeatures(NoArgs(), ClusterWithObjects()), pod, NODES)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, "skip", id="nothing"),
        pytest.param(containers([{"action": "Restart"}]), "skip", id="another action"),
        pytest.param(containers(RULES), {"old": "features", "new": "", "half": ""}, id="restart all containers"),
        pytest.param(
            containers(RULES, "initContainers"), {"old": "features", "new": "", "half": ""}, id="of an init container"
        ),
        pytest.param({"hostNetwork": True, "hostUsers": True}, "skip", id="host network with the host's users"),
        pytest.param({"hostNetwork": True}, "skip", id="host network alone"),
        pytest.param({"hostUsers": False}, "skip", id="user namespace alone"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False},
            {"old": "features", "new": "", "half": "features"},
            id="user namespace on the host network",
        ),
    ],
)
def test_required_features_of_pods(spec: Json, expected: Any) -> None:
    assert codes(filtered(make_pod().with_spec(**spec))) == expected


def test_the_reason_names_what_is_missing_and_preemption_cannot_help() -> None:
    said = filtered(make_pod().with_spec(hostNetwork=True, hostUsers=False, **containers(RULES)))
    missing = {"old": f"{RESTART}, {NETWORK}", "half": NETWORK}
    for name, features in missing.items():
        reason = Reason("features", {"features": features})
        assert said[name] == Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
