"""What helps when there is no answer about something: names alike, other places, who else may know.

Owns: these hints. Does not own: the errors that they stand below (`errors`).
"""

from __future__ import annotations

from herodotus_cli.connection import Connection
from herodotus_cli.errors import ServerError

_NAMED = 5  # similar names or other namespaces in a hint
_WHOSE = "custom-columns=SCHEDULER:.spec.schedulerName,NODE:.spec.nodeName,GATES:.spec.schedulingGates[*].name"


def similar(error: ServerError) -> list[str]:
    """Names like the one that was asked for."""
    names = error.details.get("similar") or []
    return [f"similar: {', '.join(names[:_NAMED])}"] if names else []


def pod_hints(error: ServerError, pod: str, namespace: str, connection: Connection) -> list[str]:
    """For a pod that is not found: pods called alike, the same name elsewhere, and why there may be no record."""
    if error.reason != "NotFound" or not error.words.startswith("no decision for pod"):
        return []
    if " with attempt" in error.words:
        return ["the last attempt: leave out --attempt", "all of them: --attempts"]
    elsewhere = error.details.get("otherNamespaces") or []
    return [
        *similar(error),
        *([f"in other namespaces: {', '.join(elsewhere[:_NAMED])}"] if elsewhere else []),
        "if it exists: it is another scheduler's, spec.nodeName was set, someone else bound it, it waits for its"
        " schedulingGates, or its record was pruned:",
        _look_at(pod, namespace, connection),
    ]


def _look_at(pod: str, namespace: str, connection: Connection) -> str:
    """The command that shows which of the reasons it is, ready to be pasted into a shell."""
    import shlex  # here, because only this failure needs it

    command = ["kubectl", "get", "pod", pod, "-n", namespace]
    command += ["--context", connection.context] * bool(connection.context)
    command += ["--kubeconfig", connection.kubeconfig] * bool(connection.kubeconfig)
    return shlex.join([*command, "-o", _WHOSE])
