"""Recorded decisions with other weights have the winner of a scheduler with those weights."""

from __future__ import annotations


import pytest

from herodotus_answers.balance import build_balance
from scheduler.config.types import Configuration, PluginRef, Plugins, PluginSet, ProfileConfig
from tests.support.recordings import EvaluatedCase, cases_of, decided
from tests.support.breadth import widen

WEIGHTS = {"NodeResourcesFit": 7, "ImageLocality": 0, "TaintToleration": 1, "NodeAffinity": 5}


def weighing(weights: dict[str, int]) -> Configuration:
    """Return a profile with these weights; 0 disables a plugin."""
    enabled = tuple(PluginRef(name=name, weight=weight) for name, weight in weights.items() if weight)
    disabled = tuple(PluginRef(name=name) for name in weights)
    plugins = Plugins(score=PluginSet(enabled=enabled, disabled=disabled))
    return Configuration(profiles=(ProfileConfig(scheduler_name="herodotus-scheduler", plugins=plugins),))


def best(of: EvaluatedCase) -> set[str]:
    return {of.table.names[slot] for slot, rank in enumerate(of.decision.rank) if rank == 1}


@pytest.mark.parametrize("family", widen(("mixed", "taints", "images", "nodeaffinity"), every=4))
def test_reweighed_winners_equal_the_scheduler_s(family: str) -> None:
    questions = [{k: v for k, v in case.items() if k not in ("expect", "config")} for case in cases_of(family)]
    weighed = moved = 0
    for case in questions:
        before, after = decided(case, Configuration()), decided(case, weighing(WEIGHTS))
        names = {s.plugin for s in before.decision.scores if not s.skipped}
        weights = {name: weight for name, weight in WEIGHTS.items() if name in names}
        if len(before.decision.totals) == 0 or not weights:
            continue
        document = build_balance([before], weights, since_us=0, until_us=1, complete=True)
        would_win = {n["node"] for n in document["nodes"] if n["wouldWin"]}
        assert would_win <= best(after)
        assert document["moved"] == (before.table.names[before.decision.chosen or 0] not in best(after))
        weighed, moved = weighed + 1, moved + document["moved"]
    assert weighed >= 10
    assert family == "taints" or moved
