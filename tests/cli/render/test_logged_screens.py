"""Decisions read from another scheduler's log: fields missing in the log are shown as unknown, never as a value."""

from __future__ import annotations

import gzip
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from herodotus_answers.merging import merge_records
from herodotus_answers.pod import build_pod_explanation
from herodotus_cli.render import plain_text, pod, pod_on_node, terminal
from herodotus_cli.render.screen_elements import ViewOptions
from herodotus_record.model import Agreement, Cause, NodeTable, Reconstruction
from scheduler.offline.read_log.reader import LogReader
from tests import observed
from tests.support.answers import as_json

LOG = Path(__file__).parents[2] / "golden/logs/kube-scheduler-v10.log.gz"
NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)
VIEWS = [
    ViewOptions(NOW),
    ViewOptions(NOW, wide=True),
    ViewOptions(NOW, width=80),
    ViewOptions(NOW, width=80, wide=True),
]
IDS = ["piped", "piped-wide", "80", "80-wide"]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def answers() -> list[tuple[Json, Json]]:
    """Return the answers about the first decisions of a log, and those about one node of each."""
    table, found = NodeTable(), []
    with gzip.open(LOG, "rt", errors="replace") as file:
        for read in LogReader(now=lambda: NOW).all(line.rstrip("\n") for line in file):
            if read.rows is not None:
                table.apply(read.rows)
            said = read.decision, (read.outcome,) if read.outcome else (), table
            one_node = build_pod_explanation(*said, node=table.names[0])
            found.append((as_json(build_pod_explanation(*said)), as_json(one_node)))
    return found


def drawn(view: ViewOptions, blocks: Any) -> str:
    return plain_text.draw(blocks, view) if view.piped else terminal.draw(blocks, view, color=False)


@pytest.mark.parametrize("view", VIEWS, ids=IDS)
def test_prints_no_none_for_fields_missing_in_log(answers: list[tuple[Json, Json]], view: ViewOptions) -> None:
    for answer, of_node in answers[::7]:
        assert "None" not in drawn(view, pod.build_screen(answer, view))
        assert "None" not in drawn(view, pod_on_node.build_screen(of_node, view))


def test_tie_states_that_log_has_no_seed(answers: list[tuple[Json, Json]]) -> None:
    answer = next(answer for answer, _ in answers if answer["tie"])
    (line,) = [
        line for line in drawn(VIEWS[0], pod.build_screen(answer, VIEWS[0])).splitlines() if line.startswith("TIE")
    ]
    nodes = answer["tie"]["nodes"]
    assert line.split(maxsplit=1)[1] == (
        f"random choice among {len(nodes)} equal nodes (the seed is not in the log): {', '.join(nodes)}"
    )


def test_omits_raw_scores_missing_in_log(answers: list[tuple[Json, Json]]) -> None:
    answer = next(answer for answer, _ in answers if answer["ranking"] and answer["ranking"][0]["total"])
    header = next(line for line in drawn(VIEWS[1], pod.build_screen(answer, VIEWS[1])).splitlines() if "PLUGIN" in line)
    assert header.split() == ["RANK", "NODE", "TOTAL", "PLUGIN", "NORM", "POINTS"]


@pytest.mark.parametrize("view", VIEWS, ids=IDS)
def test_merged_decision_names_its_sources(view: ViewOptions) -> None:
    points = {"worker-1": {"NodeResourcesFit": 60}, "worker-2": {"NodeResourcesFit": 50}}
    disagrees = Reconstruction(Agreement.DISAGREE, Cause.UNEXPLAINED)
    ours, theirs = observed.seen(points=points, chosen="worker-2", found=disagrees), dict(points)
    theirs["worker-2"] = {"NodeResourcesFit": 70}
    both = merge_records(ours, observed.logged("worker-2", theirs))
    answer = as_json(build_pod_explanation(both.decision, both.outcomes, both.table))
    answer |= {"origins": both.origins.to_document(), "reconstruction": both.origins.reconstruction}
    text = " ".join(drawn(view, pod.build_screen(answer, view)).split())
    assert "SOURCES an observer and the scheduler's log, which takes precedence: it differs in " in text
    assert "points of NodeResourcesFit (1)" in text
    assert "EVALUATED On worker-2, by default-scheduler. The evaluation puts worker-1 10 points ahead" in text
