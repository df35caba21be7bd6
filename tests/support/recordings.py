"""Decisions of kube-scheduler that were recorded, and this engine's for the same pods."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from herodotus_record.model import Decision, NodeTable
from scheduler.config.types import Configuration
from scheduler.offline.evaluate import cases

HERE = Path(__file__).parents[1] / "golden"
Json = dict[str, Any]


def cases_of(family: str) -> list[Json]:
    with gzip.open(HERE / f"{family}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class EvaluatedCase:
    decision: Decision
    table: NodeTable
    outcomes: tuple[()] = ()


def decided(case: Json, config: Configuration) -> EvaluatedCase:
    with pytest.MonkeyPatch.context() as patch:  # the record itself, and not its document
        patch.setattr(
            "scheduler.offline.evaluate.engine.build_decision_document", lambda record, _, table: (record, table)
        )
        record, table = cast("tuple[Decision, NodeTable]", cases.evaluate(case, config).decision())
    return EvaluatedCase(record, table)
