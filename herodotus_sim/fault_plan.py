"""Plans of injected faults as data: which faults, for which requests, how often.

    seed: 7
    faults:
    - {fault: cut, methods: [WATCH], share: 0.2, events: [1, 40]}
    - {fault: refuse, client: herodotus-scheduler, share: 0.05, code: 429, retry_after_s: 1}
    - {fault: lose answer, methods: [POST], path: /binding$, times: 3}

Does not own: injecting them (`faults`). Invariant: whether a rule applies to its n-th matching request depends only on
the seed, the rule's position in the plan, and n.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from herodotus_sim.wire import Object, SimulatedRequest

FAULTS = (
    "bookmark", "compact", "cut", "end", "gone", "hang up", "late", "lose answer", "refuse", "repeat", "slow",
    "time out"
)  # fmt: skip
METHODS = ("GET", "WATCH", "POST", "PUT", "PATCH", "DELETE")


class FaultPlanError(ValueError):
    """The plan of faults is invalid; the message names the rule and says why."""


@dataclass(frozen=True)
class FaultRule:
    """One rule of a fault plan: a fault of FAULTS, the requests that it applies to, and its parameters."""

    fault: str
    methods: tuple[str, ...] = ()
    """Values of METHODS; a GET with `watch` is WATCH. Empty: all methods."""
    path: str = ""
    """A regular expression to search for in the path."""
    client: str = ""
    """A prefix of the User-Agent."""
    share: float = 1.0
    """The share of the matching requests that get the fault."""
    times: int = 0
    """The maximum number of times; 0 is no limit."""
    code: int = 500
    """The HTTP status of `refuse`."""
    retry_after_s: int = 0
    """The Retry-After header of `refuse`; 0 sends none."""
    seconds: tuple[float, float] = (0.0, 1.0)
    """The range of the delay of `slow` and `late`."""
    events: tuple[int, int] = (0, 0)
    """The range of the number of events before `cut` and `end`."""
    as_event: bool = False
    """Whether `gone` is an ERROR event in a started watch, as with kube-apiserver, instead of an HTTP status."""

    def matches(self, request: SimulatedRequest) -> bool:
        """Return whether the rule applies to requests with this method, path and client (User-Agent)."""
        method = "WATCH" if request.flag("watch") else request.method
        return (
            (not self.methods or method in self.methods)
            and request.headers.get("user-agent", "").startswith(self.client)
            and re.search(self.path, request.path) is not None
        )


@dataclass(frozen=True)
class FaultPlan:
    """The rules for injecting faults into requests, in the order in which they apply to a request.

    `seed` makes the injected faults repeatable.
    """

    seed: int = 0
    faults: tuple[FaultRule, ...] = ()

    def draw_for(self, rule: int, number: int) -> random.Random | None:
        """Return the random generator for a rule's parameters, or None if the rule skips this request.

        `rule` is the rule's index, and the request is the `number`-th one that the rule matches.
        """
        draw = random.Random(f"{self.seed}/{rule}/{number}")
        return draw if draw.random() < self.faults[rule].share else None

    def document(self) -> Object:
        """Return the plan as the JSON document that `parse_plan` accepts."""
        return asdict(self)


def parse_plan(document: Any) -> FaultPlan:
    """Return the fault plan that a decoded JSON or YAML document describes; raise FaultPlanError if it is invalid."""
    if not isinstance(document, Mapping) or not set(document) <= {"seed", "faults"}:
        raise FaultPlanError("a plan of faults has the keys seed and faults, and no other")
    faults = document.get("faults") or []
    if not isinstance(faults, list | tuple) or not isinstance(document.get("seed", 0), int):
        raise FaultPlanError("seed is a number and faults is a list")
    return FaultPlan(document.get("seed", 0), tuple(_fault(i, rule) for i, rule in enumerate(faults)))


def _fault(index: int, rule: Any) -> FaultRule:
    if not isinstance(rule, Mapping):
        raise FaultPlanError(f"faults[{index}]: expected a mapping")
    unknown = set(rule) - {f.name for f in fields(FaultRule)}
    if unknown:
        raise FaultPlanError(f"faults[{index}]: unknown {', '.join(sorted(map(str, unknown)))}")
    parameters: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in rule.items()}
    try:
        fault = FaultRule(**parameters)
        _check(fault)
    except (TypeError, ValueError, re.error) as e:
        raise FaultPlanError(f"faults[{index}]: {e}") from e
    return fault


def _check(fault: FaultRule) -> None:
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
