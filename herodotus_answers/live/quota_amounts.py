"""Read the amounts of a ResourceQuota in the message of a refusal, and say what would let the refused object in.

Owns: the form of the message and of amounts. Does not own: what the refusal means for a workload (`amount_causes`) or
for a claim (`claim_causes`, `waiting_causes`). Pure.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from herodotus_answers.live.pod_facts import kubectl, make_remedy, quote_patch
from herodotus_answers.quantities import format_requested_amount, parse_quantity
from herodotus_record.units import is_in_bytes

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import Remedy

# The message of kube-apiserver's plugin/pkg/admission/resourcequota.
EXCEEDED: Final = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)")


def raise_quota(message: str, namespace: str, objects: ClusterObjects) -> Remedy | None:
    """Return the remedy that lets a ResourceQuota admit the object that a message refuses.

    None if the message is not of a quota, or if the quota cannot be read.
    """
    match = EXCEEDED.search(message)
    quota = objects.get("ResourceQuota", match[1], namespace).object if match else None
    if match is None or quota is None:
        return None
    requested, used = parse_amounts(match[2]), parse_amounts(match[3])
    amounts = {key: (parse_quantity(asked), parse_quantity(used.get(key, "0"))) for key, asked in requested.items()}
    hard = {
        key: format_limit(key, ask + taken)
        for key, (ask, taken) in amounts.items()
        if ask is not None and taken is not None
    }
    raised = ", ".join(f"{key} to {amount}" for key, amount in hard.items())
    command = kubectl(quota, f"patch resourcequota {match[1]}", "-p", quote_patch({"spec": {"hard": hard}}))
    text = f"raise ResourceQuota {match[1]}: {raised} (an administrator), or delete what uses it and nothing needs"
    return make_remedy(text, command) if hard else None


def parse_amounts(listed: str) -> dict[str, str]:
    """Return the amounts in a list such as `cpu=500m,pods=1`."""
    return dict(each.split("=", 1) for each in listed.strip("[],").split(",") if "=" in each)


def format_limit(name: str, amount: Fraction) -> str:
    """Return an amount of a resource, rounded up. `name` may be a quota's, such as requests.cpu."""
    resource = strip_kind(name)
    if is_in_bytes(resource):
        for power, unit in ((3, "G"), (2, "M")):  # an amount such as 4G, which has no short binary form
            if amount and not amount % 1000**power and amount % 1024**power:
                return f"{amount / 1000**power}{unit}"
    return format_requested_amount(resource, amount)


def strip_kind(name: str) -> str:
    """Return the resource that a name in a quota is about: `requests.cpu` is about cpu."""
    for prefix in ("requests.", "limits."):
        name = name.removeprefix(prefix)
    return (name.rpartition("/storageclass.storage.k8s.io/")[0] and "storage") or name
