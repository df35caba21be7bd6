"""The random order of disturbances, and the limits of elections."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

from bench.reliability.__main__ import exceeded_limits, report
from bench.reliability.disturbances import DISTURBANCES, RULES
from bench.reliability.driver import FaultRun, shuffle_by_weight
from bench.reliability.system import Election
from herodotus_sim.fault_plan import FAULTS, parse_plan


def test_disturbances_occur_once_each_and_then_in_weighted_rounds() -> None:
    share = {d.name: d.weight for d in DISTURBANCES}
    cards = shuffle_by_weight(random.Random(1), list(DISTURBANCES))
    assert sorted(d.name for d in islice(cards, len(share))) == sorted(share)
    rounds = [[d.name for d in islice(cards, sum(share.values()))] for _ in range(3)]
    assert [dict(Counter(names)) for names in rounds] == [share] * 3
    assert rounds[0] != rounds[1]


def test_a_seed_gives_the_same_disturbances() -> None:
    def names(seed: int) -> list[str]:
        return [d.name for d in islice(shuffle_by_weight(random.Random(seed), list(DISTURBANCES)), 30)]

    assert names(1) == names(1) != names(2)


def test_every_fault_occurs_in_the_plans() -> None:
    assert {fault.fault for fault in parse_plan({"faults": list(RULES)}).faults} == set(FAULTS)


def test_an_election_over_its_limit_is_a_violation() -> None:
    """The limit is a Lease and two retry periods after SIGKILL, two retry periods after SIGTERM."""
    election = Election(6.0, 4.0, 1.0)
    result = FaultRun(waits_s={"SIGKILL": [7.9, 8.1], "SIGTERM": [1.9, 2.1]})
    assert exceeded_limits(result, election) == [
        "8.10 s without a leader after SIGKILL, of 8.00 s",
        "2.10 s without a leader after SIGTERM, of 2.00 s",
    ]
    assert "2 x SIGTERM of the leader: at most 2.10 s (of 2.00 s) without a leader, 2.00 s on average" in report(
        result, election
    )
    assert "at most 2.10 s without a leader" in report(result, election, bounded=False)
