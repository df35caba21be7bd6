"""Decisions and node histories as objects of the Kubernetes API, and the columns of their tables.

Owns: an object's metadata, what a list item holds, columns. Does not own: whole documents (`documents`, `history`).
Pure.

Invariant: what stands in a list item stands at the same place in the whole object.
"""

from __future__ import annotations

import re
from typing import Any, Final

from herodotus_endpoint.history import Window, window_document
from herodotus_endpoint.kubeapi.forms import Column, age
from herodotus_endpoint.kubeapi.resources import GROUP
from herodotus_endpoint.store import labels
from herodotus_endpoint.store.listing import COUNTED, NodeCounts
from herodotus_record.model import API_VERSION
from herodotus_record.units import timestamp

Json = dict[str, Any]

# Labels of a decision beside its pod's own: the columns by which it is looked for. Values that no label can have are
# left out.
LABELS: Final = {
    f"{GROUP}/pod": "pod",
    f"{GROUP}/profile": "profile",
    f"{GROUP}/state": "state",
    f"{GROUP}/path": "path",
    f"{GROUP}/node": "node",
}
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def decision(row: Any) -> Json:
    """A decision in a list: all but the nodes' verdicts and scores."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Decision",
        "metadata": decision_metadata(row),
        "spec": {
            "key": {
                "cluster": row.cluster,
                "source": row.source,
                "podUID": row.pod_uid,
                "attempt": row.attempt,
            },
            "scheduler": {"profile": row.profile},
            "pod": {
                "namespace": row.namespace,
                "name": row.pod,
                "uid": row.pod_uid,
                "owner": _owner(row.owner),
            },
            "times": {"startedAt": timestamp(row.started_us)},
            "snapshot": {
                "generation": row.generation,
                "nodes": row.nodes_total,
                "evaluated": row.nodes_evaluated,
                "feasible": row.nodes_feasible,
            },
        },
        "status": {"state": row.state, "path": row.path, "node": row.node, "message": row.message},
    }


def decision_metadata(row: Any) -> Json:
    """The metadata of a decision. It changes once, when its result comes; the version is its place in the store."""
    return {
        "name": row.decision_id,
        "namespace": row.namespace,
        "uid": row.decision_id,
        "resourceVersion": str(row.id),
        "creationTimestamp": f"{timestamp(row.started_us)[:19]}Z",  # metav1.Time has seconds
        "labels": labels.read(row.labels) | _labels({label: getattr(row, column) for label, column in LABELS.items()}),
    }


def node_history(node: NodeCounts, over: Window) -> Json:
    """A node's history in a list: its counts alone."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeHistory",
        "metadata": {"name": node.name},
        "window": window_document(over),
        **dict(zip(COUNTED, node.counts, strict=True)),
    }


def _labels(values: dict[str, str | None]) -> Json:
    return {label: value for label, value in values.items() if value and _LABEL_VALUE.fullmatch(value)}


def _owner(owner: str | None) -> Json | None:
    kind, slash, name = (owner or "").partition("/")
    return {"kind": kind, "name": name} if slash else None


def _feasible(o: Json, _now_s: float) -> str:
    snapshot = o["spec"]["snapshot"]
    return f"{snapshot['feasible']}/{snapshot['nodes']}"


DECISION_COLUMNS: Final = (
    Column("Name", lambda o, _: o["metadata"]["name"], "The decision's id.", format="name"),
    Column("Pod", lambda o, _: o["spec"]["pod"]["name"], "The pod that was to be placed."),
    Column("Attempt", lambda o, _: o["spec"]["key"]["attempt"], "The scheduler's count of attempts.", type="integer"),
    Column("State", lambda o, _: o["status"]["state"], "What became of it."),
    Column("Node", lambda o, _: o["status"]["node"] or "<none>", "The chosen node."),
    Column("Feasible", _feasible, "Nodes that fit, of all nodes."),
    Column("Age", lambda o, now: age(o["metadata"]["creationTimestamp"], now), "Time since the attempt began."),
    Column("Profile", lambda o, _: o["spec"]["scheduler"]["profile"], "The pod's spec.schedulerName.", wide=True),
    Column("Path", lambda o, _: o["status"]["path"], "How the attempt came to its end.", wide=True),
    Column("Evaluated", lambda o, _: o["spec"]["snapshot"]["evaluated"], "Nodes looked at.", wide=True, type="integer"),
    Column("Message", lambda o, _: o["status"]["message"], "The pod's FailedScheduling event.", wide=True),
)
HISTORY_COLUMNS: Final = (
    Column("Name", lambda o, _: o["metadata"]["name"], "The node.", format="name"),
    Column("Considered", lambda o, _: o["considered"], "Decisions that had it in their table.", type="integer"),
    Column("Feasible", lambda o, _: o["feasible"], "Decisions for which it fitted.", type="integer"),
    Column("Chosen", lambda o, _: o["chosen"], "Decisions that chose it.", type="integer"),
    Column("Evaluated", lambda o, _: o["evaluated"], "Decisions that looked at it.", wide=True, type="integer"),
    Column("Since", lambda o, _: o["window"]["from"], "The start of the window.", wide=True),
)
