"""Owns: plans of faults as data: what goes wrong, for which requests, how often.

    seed: 7
    faults:
    - {fault: cut, methods: [WATCH], share: 0.2, events: [1, 40]}
    - {fault: refuse, client: herodotus-scheduler, share: 0.05, code: 429, retry_after_s: 1}
    - {fault: lose answer, methods: [POST], path: /binding$, times: 3}

Does not own: carrying them out (`faults`). Invariant: whether a rule strikes its n-th matching request follows from the
seed, the rule's place in the plan, and n alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from herodotus_sim.wire import Object, Request

FAULTS = (
    "bookmark", "compact", "cut", "end", "gone", "hang up", "late", "lose answer", "refuse", "repeat", "slow"
)  # fmt: skip
METHODS = ("GET", "WATCH", "POST", "PUT", "PATCH", "DELETE")


class PlanError(ValueError):
    """A plan that cannot be read: what is wrong with it."""


@dataclass(frozen=True)
class Fault:
    """One rule: a fault of FAULTS, the requests it may strike, and its parameters."""

    fault: str
    methods: tuple[str, ...] = ()
    """Of METHODS; a GET that watches is a WATCH. None named: all."""
    path: str = ""
    """A regular expression that is found in the path."""
    client: str = ""
    """How the User-Agent begins."""
    share: float = 1.0
    """Of the requests that match."""
    times: int = 0
    """At most so often; 0 is no limit."""
    code: int = 500
    """Of the answer of `refuse`."""
    retry_after_s: int = 0
    """Of the answer of `refuse`: the Retry-After header; 0 sends none."""
    seconds: tuple[float, float] = (0.0, 1.0)
    """How long `slow` and `late` hold back, drawn between these."""
    events: tuple[int, int] = (0, 0)
    """How many events `cut` and `end` let pass, drawn between these."""
    as_event: bool = False
    """`gone` as an ERROR event in a watch that began, as kube-apiserver does, instead of an HTTP status."""

    def matches(self, request: Request) -> bool:
        """Whether the rule is about this request."""
        method = "WATCH" if request.flag("watch") else request.method
        return (
            (not self.methods or method in self.methods)
            and request.headers.get("user-agent", "").startswith(self.client)
            and re.search(self.path, request.path) is not None
        )


@dataclass(frozen=True)
class Plan:
    """The faults of a simulated API server, in the order in which a request meets them."""

    seed: int = 0
    faults: tuple[Fault, ...] = ()

    def strikes(self, rule: int, number: int) -> random.Random | None:
        """Whether a rule strikes its `number`-th matching request: what its parameters are drawn from, or None."""
        draw = random.Random(f"{self.seed}/{rule}/{number}")
        return draw if draw.random() < self.faults[rule].share else None

    def document(self) -> Object:
        """The plan as `read` takes it."""
        return asdict(self)


def read(document: Any) -> Plan:
    """A plan from JSON or YAML. PlanError names the rule and the field that is wrong."""
    if not isinstance(document, Mapping) or not set(document) <= {"seed", "faults"}:
        raise PlanError("a plan of faults has the keys seed and faults, and no other")
    faults = document.get("faults") or []
    if not isinstance(faults, list | tuple) or not isinstance(document.get("seed", 0), int):
        raise PlanError("seed is a number and faults is a list")
    return Plan(document.get("seed", 0), tuple(_fault(i, rule) for i, rule in enumerate(faults)))


def _fault(at: int, rule: Any) -> Fault:
    if not isinstance(rule, Mapping):
        raise PlanError(f"faults[{at}]: expected a mapping")
    unknown = set(rule) - {f.name for f in fields(Fault)}
    if unknown:
        raise PlanError(f"faults[{at}]: unknown {', '.join(sorted(map(str, unknown)))}")
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in rule.items()}
    try:
        fault = Fault(**given)
        _check(fault)
    except (TypeError, ValueError, re.error) as e:
        raise PlanError(f"faults[{at}]: {e}") from e
    return fault


def _check(fault: Fault) -> None:
    if fault.fault not in FAULTS:
        raise ValueError(f"{fault.fault!r} is none of {', '.join(FAULTS)}")
    if not set(fault.methods) <= set(METHODS):
        raise ValueError(f"methods are of {', '.join(METHODS)}")
    if not 0 <= fault.share <= 1:
        raise ValueError("share is between 0 and 1")
    if not 400 <= fault.code <= 599:
        raise ValueError("code is the HTTP status of an error")
    for name in ("seconds", "events"):
        low, high = getattr(fault, name)
        if not 0 <= low <= high:
            raise ValueError(f"{name} is [least, most]")
    re.compile(fault.path)
