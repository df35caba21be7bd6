"""Names of objects, as the user types them: `NAME`, `pod/NAME`, `deploy/NAME`.

Owns: parsing and checking names. Does not own: the options and arguments that hold them.
"""

from __future__ import annotations

import re

import click

# Letters, digits and ._:- may occur in a path. Capitals and _ are no pod's, but the service names similar pods.
_NAME = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._:-]{1,253}")


def parse_name(kind: str, given: str) -> str:
    """Return the name in `NAME` or `KIND/NAME`. Raises UsageError if it is of another kind or invalid."""
    prefix, slash, name = given.rpartition("/")
    if ".." in given:
        return require_valid_name(kind, given)
    if slash and prefix not in (kind, f"{kind}s", {"pod": "po", "node": "no"}.get(kind)):
        raise click.UsageError(f"{given!r} is not a {kind}: write NAME or {kind}/NAME")
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
    kind = next((kind for kind, names in WORKLOADS.items() if prefix.lower().partition(".")[0] in names), "")
    if not slash or not name or not kind:
        raise click.UsageError(f"{given[:60]!r} is not a workload: write KIND/NAME, such as deploy/web or sts/payments")
    return kind, require_valid_name(kind, name)


def is_valid_name(text: str) -> bool:
    """Return whether the text can be the name of a Kubernetes object."""
    return bool(_NAME.fullmatch(text))


def require_valid_name(kind: str, name: str) -> str:
    """Return the name unchanged. Raises UsageError if no Kubernetes object can have it."""
    if not is_valid_name(name):
        raise click.UsageError(f"{kind} {name[:60]!r}{'…' * (len(name) > 60)} is not a valid name")
    return name
