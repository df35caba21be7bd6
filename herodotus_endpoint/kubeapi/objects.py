"""Decisions as Kubernetes objects, and the columns of the tables of decisions and node histories.

Owns: an object's metadata, the fields of a list item, columns. Does not own: whole documents (`documents`), list items
of node histories (`herodotus_answers.node`). Pure.

Invariant: a field of a list item has the same path in the whole object.
"""

from __future__ import annotations

import re
from typing import Any, Final

from herodotus_endpoint.kubeapi.representations import Object, TableColumn, format_age
from herodotus_endpoint.resources import LABELS
from herodotus_endpoint.store.labels import parse_labels
from herodotus_record.model import API_VERSION
from herodotus_record.units import format_timestamp

Json = dict[str, Any]
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def build_decision(row: Any) -> Json:
    """Return a row of the table of decisions as a Decision list item, which has no verdicts or scores of nodes."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Decision",
        "metadata": build_decision_metadata(row),
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
                "owner": _parse_owner(row.owner),
            },
            "times": {"startedAt": format_timestamp(row.started_us)},
            "snapshot": {
                "generation": row.generation,
                "nodes": row.nodes_total,
                "evaluated": row.nodes_evaluated,
                "feasible": row.nodes_feasible,
            },
        },
        "status": {"state": row.state, "path": row.path, "node": row.node, "message": row.message},
    }


def build_decision_metadata(row: Any) -> Json:
    """Return the Kubernetes metadata of the decision in a row of the table of decisions.

    The resource version is the row's ID. It stays the same when the decision's result arrives.
    """
    return {
        "name": row.decision_id,
        "namespace": row.namespace,
        "uid": row.decision_id,
        "resourceVersion": str(row.id),
        "creationTimestamp": f"{format_timestamp(row.started_us)[:19]}Z",  # metav1.Time has seconds
        "labels": parse_labels(row.labels)
        | _valid_labels({label: getattr(row, column) for label, column in LABELS.items()}),
    }


def _valid_labels(values: dict[str, str | None]) -> Json:
    return {label: value for label, value in values.items() if value and _LABEL_VALUE.fullmatch(value)}


def _parse_owner(owner: str | None) -> Json | None:
    kind, slash, name = (owner or "").partition("/")
    return {"kind": kind, "name": name} if slash else None


def _format_feasible(o: Object, _now_s: float) -> str:
    snapshot = o["spec"]["snapshot"]
    return f"{snapshot['feasible']}/{snapshot['nodes']}"


DECISION_COLUMNS: Final = (
    TableColumn("Name", lambda o, _: o["metadata"]["name"], "The decision's id.", format="name"),
    TableColumn("Pod", lambda o, _: o["spec"]["pod"]["name"], "The pod that was to be placed."),
    TableColumn(
        "Attempt", lambda o, _: o["spec"]["key"]["attempt"], "The scheduler's count of attempts.", type="integer"
    ),
    TableColumn("State", lambda o, _: o["status"]["state"], "What became of it."),
    TableColumn("Node", lambda o, _: o["status"]["node"] or "<none>", "The chosen node."),
    TableColumn("Feasible", _format_feasible, "Nodes that fit, of all nodes."),
    TableColumn(
        "Age", lambda o, now: format_age(o["metadata"]["creationTimestamp"], now), "Time since the attempt began."
    ),
    TableColumn("Profile", lambda o, _: o["spec"]["scheduler"]["profile"], "The pod's spec.schedulerName.", wide=True),
    TableColumn("Path", lambda o, _: o["status"]["path"], "How the attempt came to its end.", wide=True),
    TableColumn(
        "Evaluated", lambda o, _: o["spec"]["snapshot"]["evaluated"], "Nodes looked at.", wide=True, type="integer"
    ),
    TableColumn("Message", lambda o, _: o["status"]["message"], "The pod's FailedScheduling event.", wide=True),
)
HISTORY_COLUMNS: Final = (
    TableColumn("Name", lambda o, _: o["metadata"]["name"], "The node.", format="name"),
    TableColumn("Considered", lambda o, _: o["considered"], "Decisions that had it in their table.", type="integer"),
    TableColumn("Feasible", lambda o, _: o["feasible"], "Decisions for which it fitted.", type="integer"),
    TableColumn("Chosen", lambda o, _: o["chosen"], "Decisions that chose it.", type="integer"),
    TableColumn("Evaluated", lambda o, _: o["evaluated"], "Decisions that looked at it.", wide=True, type="integer"),
    TableColumn("Since", lambda o, _: o["window"]["from"], "The start of the window.", wide=True),
)
