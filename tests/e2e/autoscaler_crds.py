"""CustomResourceDefinitions of Karpenter's and Cluster API's kinds, with the fields that Herodotus reads.

Other fields are accepted and kept. The real definitions are larger; their fields of these names have these types.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_LABELS = {"type": "object", "additionalProperties": _TEXT}
_AMOUNTS = {
    "type": "object",
    "additionalProperties": {"anyOf": [_NUMBER, _TEXT], "x-kubernetes-int-or-string": True},
}


def _obj(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


_TAINTS = _array(_obj(key=_TEXT, value=_TEXT, effect=_TEXT))
_REQUIREMENTS = _array(_obj(key=_TEXT, operator=_TEXT, values=_array(_TEXT)))
_CONDITIONS = _array(_obj(type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT))
_MACHINES = _obj(
    replicas=_NUMBER,
    template=_obj(metadata=_obj(labels=_LABELS), spec=_obj(failureDomain=_TEXT, taints=_TAINTS)),
)
_NODE_POOL = _obj(
    template=_obj(
        metadata=_obj(labels=_LABELS),
        spec=_obj(taints=_TAINTS, startupTaints=_TAINTS, requirements=_REQUIREMENTS),
    ),
    limits=_AMOUNTS,
    weight=_NUMBER,
    replicas=_NUMBER,
    disruption=_obj(consolidateAfter=_TEXT, consolidationPolicy=_TEXT, budgets=_array(_obj(nodes=_TEXT))),
)
_NODE_CLAIM = _obj(taints=_TAINTS, startupTaints=_TAINTS, requirements=_REQUIREMENTS)


def _define(group: str, version: str, kind: str, scope: str, spec: Json, status: Json) -> Json:
    singular = kind.lower()
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": f"{singular}s", "singular": singular, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


DEFINITIONS = (
    _define("karpenter.sh", "v1", "NodePool", "Cluster", _NODE_POOL, _obj(resources=_AMOUNTS, conditions=_CONDITIONS)),
    _define(
        "karpenter.sh",
        "v1",
        "NodeClaim",
        "Cluster",
        _NODE_CLAIM,
        _obj(nodeName=_TEXT, allocatable=_AMOUNTS, conditions=_CONDITIONS),
    ),
    _define("cluster.x-k8s.io", "v1beta1", "MachineDeployment", "Namespaced", _MACHINES, _obj()),
    _define("cluster.x-k8s.io", "v1beta1", "MachineSet", "Namespaced", _MACHINES, _obj()),
)
PATHS = {
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "MachineDeployment": "/apis/cluster.x-k8s.io/v1beta1/namespaces/capi/machinedeployments",
    "MachineSet": "/apis/cluster.x-k8s.io/v1beta1/namespaces/capi/machinesets",
}
