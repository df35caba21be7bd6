"""ResourceQuotas: what pods use of them, and which new pods kube-apiserver's admission of that name refuses.

Owns: amounts of pods, the use of a namespace, the refusal and its words. Does not own: writing the use to the status
(`controllers.resource_quota`). Only pods are counted, and a quota with scopes limits nothing here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from herodotus_sim import errors
from herodotus_sim.kinds import POD, RESOURCE_QUOTA
from herodotus_sim.storage import ObjectStorage
from herodotus_sim.wire import Object

Amounts = Mapping[str, Decimal]  # by the name that a quota has for it: pods, requests.cpu, limits.memory, cpu

_ENDED: Final = ("Succeeded", "Failed")
_COUNTS: Final = ("pods", "count/pods")
_REQUESTED: Final = ("cpu", "memory", "ephemeral-storage")  # as requests.cpu
_QUANTITY: Final = re.compile(r"([0-9.]+)(m|[kKMGTP]i?)?")
_PREFIXES: Final = "KMGTP"


def check_new_pod(store: ObjectStorage, pod: Object) -> None:
    """Raise StatusError 403 if a new pod would exceed a quota of its namespace.

    Also raise it if the pod does not state an amount, such as requests.cpu, that a quota limits.
    """
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    quotas = [quota for quota in store.list_sorted(RESOURCE_QUOTA) if quota.key[0] == namespace]
    if not quotas:
        return
    asked, used = _measure(pod), measure_use(store, namespace)
    for quota in quotas:
        hard = read_limits(quota.obj)
        missing = hard.keys() - asked.keys()
        if missing:
            raise errors.forbidden(POD, name, f"failed quota: {quota.key[1]}: must specify {','.join(sorted(missing))}")
        over = [resource for resource in sorted(hard) if used[resource] + asked[resource] > hard[resource]]
        if over:
            sums = {"requested": asked, "used": used, "limited": hard}
            words = ", ".join(f"{title}: {_join(amounts, over)}" for title, amounts in sums.items())
            raise errors.forbidden(POD, name, f"exceeded quota: {quota.key[1]}, {words}")


def read_limits(quota: Object) -> Amounts:
    """Return the limits of a quota that are about pods, by their names in the quota; {} for a quota with scopes."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    hard = (spec.get("hard") or {}).items()
    return {name: _parse(amount) for name, amount in hard if name in _COUNTS + _REQUESTED or "." in name}


def measure_use(store: ObjectStorage, namespace: str) -> Amounts:
    """Return the amounts that the running and pending pods of a namespace use, by their names in a quota.

    Any other name gives 0.
    """
    used: dict[str, Decimal] = defaultdict(Decimal)
    for pod in store.list_sorted(POD):
        if pod.key[0] == namespace and (pod.obj.get("status") or {}).get("phase") not in _ENDED:
            for name, amount in _measure(pod.obj).items():
                used[name] += amount
    return used


def format_amount(name: str, amount: Decimal) -> str:
    """Return an amount in the API's form: `3`, `1500m`, `2Gi`."""
    if amount % 1:
        return f"{int(amount * 1000)}m"
    for power, prefix in enumerate(_PREFIXES[2::-1]) if name.endswith("memory") and amount else ():
        unit = 1024 ** (3 - power)
        if amount % unit == 0:
            return f"{int(amount) // unit}{prefix}i"
    return str(int(amount))


def _join(amounts: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={format_amount(name, amounts[name])}" for name in names)


def _parse(quantity: object) -> Decimal:
    matched = _QUANTITY.fullmatch(str(quantity))
    if matched is None:
        raise errors.bad_request(f'quantity "{quantity}" is in a form that the simulated quotas do not read')
    number, suffix = Decimal(matched[1]), matched[2] or ""
    if suffix == "m":
        return number / 1000
    power = _PREFIXES.index(suffix[0].upper()) + 1 if suffix else 0
    return number * Decimal(1024 if suffix.endswith("i") else 1000) ** power


def _measure(pod: Object) -> Amounts:
    """Return the amounts that one pod uses, by their names in a quota. Init containers are not counted."""
    amounts: dict[str, Decimal] = defaultdict(Decimal, dict.fromkeys(_COUNTS, Decimal(1)))
    for container in pod["spec"]["containers"]:
        for kind in ("requests", "limits"):
            for resource, quantity in ((container.get("resources") or {}).get(kind) or {}).items():
                amounts[f"{kind}.{resource}"] += _parse(quantity)
                if kind == "requests" and resource in _REQUESTED:
                    amounts[resource] += _parse(quantity)
    return amounts
