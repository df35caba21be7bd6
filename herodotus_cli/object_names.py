"""Names of objects, as the user types them or lists print them: `NAME`, `pod/NAME`, `deploy/NAME`, `NAMESPACE/NAME`.

Owns: parsing and checking names. Does not own: the options and arguments that hold them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import click

# Letters, digits and ._:- may occur in a path. Capitals and _ are no pod's, but the service names similar pods.
_NAME = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._:-]{1,253}")


class ObjectName(NamedTuple):
    """A name of an object. Without a kind, or with an empty namespace, the text had none."""

    namespace: str
    kind: str
    name: str


# Kinds that stand before a name, so that they are no namespaces there.
_OTHER_KINDS = ("node", "nodes", "no", "podgroup", "podgroups", "service", "services", "svc", "namespace", "ns")


def parse_pod(given: str, option: str = "") -> ObjectName:
    """Return the pod in `NAME`, `pod/NAME` or `NAMESPACE/NAME`. Raises UsageError for other text.

    For a workload the error has the command that explains it, with the namespace of -n, which is `option`.
    """
    parts = given.split("/")
    prefix = parts[0].lower().partition(".")[0]
    if _find_kind(parts[-2] if len(parts) > 1 else ""):
        parse_workload_name(given)  # so that the command is not another error
        question = f"kubectl herodotus workload {given}" + (f" -n {option}" if option else "")
        raise click.UsageError(f"{given[:60]!r} is a workload. To explain it:\n  {question}")
    if len(parts) != 2 or prefix in ("pod", "pods", "po", "") or prefix in _OTHER_KINDS:
        return ObjectName("", "pod", parse_name("pod", given))
    return ObjectName(require_valid_name("namespace", parts[0]), "pod", parse_name("pod", parts[1]))


def choose_namespace(option: str, name: ObjectName) -> str:
    """Return the namespace of -n or that of the name. Raises UsageError if they differ."""
    if option and name.namespace and option != name.namespace:
        raise click.UsageError(f"{name.namespace}/{name.name} is not in the namespace of -n {option}")
    return option or name.namespace


def parse_name(kind: str, given: str) -> str:
    """Return the name in `NAME` or `KIND/NAME`. Raises UsageError if it is of another kind or invalid."""
    prefix, slash, name = given.rpartition("/")
    if ".." in given:
        return require_valid_name(kind, given)
    if slash and prefix not in (kind, f"{kind}s", {"pod": "po", "node": "no"}.get(kind)):
        is_workload = kind == "pod" and any(prefix.partition(".")[0].lower() in names for names in WORKLOADS.values())
        instead = f"; for all its pods: kubectl herodotus workload {given}" if is_workload else ""
        raise click.UsageError(f"{given!r} is not a {kind}: write NAME or {kind}/NAME{instead}")
    if not name:
        raise click.UsageError(f"{given!r} names no {kind}")
    return require_valid_name(kind, name)


def parse_pod_group(given: str) -> str:
    """Return the name in `NAME` or `podgroup/NAME`, also with the API group. Raises UsageError if it is invalid."""
    prefix, slash, name = given.rpartition("/")
    if slash and prefix.partition(".")[0] not in ("podgroup", "podgroups"):
        raise click.UsageError(f"{given[:60]!r} is not a podgroup: write NAME or podgroup/NAME")
    return require_valid_name("podgroup", name)


WORKLOADS = {
    "deployment": ("deployment", "deployments", "deploy"),
    "statefulset": ("statefulset", "statefulsets", "sts"),
    "replicaset": ("replicaset", "replicasets", "rs"),
    "daemonset": ("daemonset", "daemonsets", "ds"),
    "job": ("job", "jobs"),
    "cronjob": ("cronjob", "cronjobs", "cj"),
    "replicationcontroller": ("replicationcontroller", "replicationcontrollers", "rc"),
}


def parse_workload(given: str) -> tuple[str, str]:
    """Return (kind, name) of a workload such as `deploy/NAME` or `deployment.apps/NAME`.

    The kind is in full, such as `deployment`. Raises UsageError for any other text.
    """
    prefix, slash, name = given.partition("/")
    kind = _find_kind(prefix)
    if not slash or not name or not kind:
        raise click.UsageError(f"{given[:60]!r} is not a workload: write KIND/NAME, such as deploy/web or sts/payments")
    return kind, require_valid_name(kind, name)


def parse_workload_name(given: str) -> ObjectName:
    """Return the workload in `KIND/NAME`, `NAME`, `NAMESPACE/NAME` or `NAMESPACE/KIND/NAME`.

    The kind is in full, or empty if the text has none. Raises UsageError for any other text.
    """
    *before, name = given.split("/")
    kind = _find_kind(before[-1]) if before else ""
    namespaces = before[:-1] if kind else before
    if not name or len(namespaces) > 1 or (not kind and before and _find_other_kind(before[-1])):
        raise click.UsageError(f"{given[:60]!r} is not a workload: write KIND/NAME, such as deploy/web or sts/payments")
    namespace = require_valid_name("namespace", namespaces[0]) if namespaces else ""
    return ObjectName(namespace, kind, require_valid_name(kind or "workload", name))


def _find_kind(text: str) -> str:
    """Return the kind of workload that a text such as `deploy` or `deployments.apps` means; "" if it means none."""
    return next((kind for kind, names in WORKLOADS.items() if text.lower().partition(".")[0] in names), "")


def _find_other_kind(text: str) -> bool:
    return text.lower() in (*_OTHER_KINDS, "pod", "pods", "po")


def is_valid_name(text: str) -> bool:
    """Return whether the text can be the name of a Kubernetes object."""
    return bool(_NAME.fullmatch(text))


def require_valid_name(kind: str, name: str) -> str:
    """Return the name unchanged. Raises UsageError if no Kubernetes object can have it."""
    if not is_valid_name(name):
        raise click.UsageError(f"{kind} {name[:60]!r}{'…' * (len(name) > 60)} is not a valid name")
    return name
