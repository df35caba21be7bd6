"""64 configuration files: kube-scheduler v1.36 and ours accept the same ones, with the same defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config import ConfigError, build_profile, parse_config
from scheduler.config.defaulted import fill_defaults
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate import NoCluster

Json = dict[str, Any]

CASES = [json.loads(line) for line in (Path(__file__).parent / "config/cases.jsonl").read_text().splitlines()]
FIELDS = ("profiles[", "extenders", "leaderElection.", "pod", "parallelism")  # how an error that names one begins
DIFFERENT_ON_PURPOSE = ("leaderElection",)  # the Lease is Herodotus' own: docs/parity.md


def validated(text: str) -> Json:
    config = parse_config(text, default_name="default-scheduler")
    for i in range(len(config.profiles)):
        build_profile(config, i, IN_TREE, NoCluster())
    return fill_defaults(config, IN_TREE)


@pytest.mark.parametrize("case", [c for c in CASES if c["accepted"]], ids=lambda c: c["name"])
def test_configurations_that_kube_scheduler_accepts_get_its_defaults(case: Json) -> None:
    ours, theirs = validated(case["input"]), yaml.safe_load(case["defaulted"])
    for profile in (*ours["profiles"], *theirs["profiles"]):  # points that say nothing
        profile["plugins"] = {point: plugins for point, plugins in profile["plugins"].items() if plugins}
    for key in DIFFERENT_ON_PURPOSE:
        ours.pop(key, None), theirs.pop(key, None)
    assert {key: ours[key] for key in theirs} == theirs


@pytest.mark.parametrize("case", [c for c in CASES if not c["accepted"]], ids=lambda c: c["name"])
def test_configurations_that_kube_scheduler_rejects_are_rejected_with_its_field_errors(case: Json) -> None:
    with pytest.raises(ConfigError) as refused:
        validated(case["input"])
    said = str(refused.value)
    assert "\n" not in said
    if case["error"].removeprefix("[").startswith(FIELDS):
        assert said == case["error"]
