"""`explain` knows the words that screens print. They are gathered where they are declared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import herodotus_cli.render
from herodotus_answers.plugin_reference import PLUGINS, find_plugins
from herodotus_answers.terms import find_term
from herodotus_cli.render.formatting import NOT_EVALUATED
from herodotus_record.model import Evaluation
from scheduler.backend.queue.queued_pod import PLACES
from scheduler.engine.framework.events import ClusterEvent

# Headings whose word is the meaning: nouns of Kubernetes, and of English.
PLAIN = frozenset(
    [
        "ACCUMULATED",
        "AGREE",
        "AMOUNTS",
        "AND",
        "ARCHIVE",
        "AVERAGE",
        "BLOCKED",
        "CAUSES",
        "CHANGE",
        "CODE",
        "CONDITION",
        "DECIDED",
        "DEVICES",
        "DIFF",
        "DISAGREE",
        "DRA",
        "EFFECT",
        "EMPTIED",
        "ENDS",
        "ENOUGH",
        "EVALUATED",
        "EVALUATION",
        "EXPLAINED",
        "FILTERS",
        "FIRST",
        "FLAVOR",
        "FOR",
        "ID",
        "INPUT",
        "INPUTS",
        "KEPT",
        "LAST",
        "LIMIT",
        "MEASURED",
        "MEMORY",
        "MESSAGE",
        "MIN",
        "MISSING",
        "MORE",
        "NAME",
        "NEEDS",
        "NEWEST",
        "NODE",
        "NODES",
        "NOTE",
        "OF",
        "OLDEST",
        "ON",
        "OTHER",
        "OUTCOMES",
        "PENDING",
        "POD",
        "PODS",
        "POSITION",
        "PRIORITY",
        "QUOTA",
        "READS",
        "REASON",
        "REQUEST",
        "REQUESTS",
        "RESULT",
        "RULE",
        "RUNS",
        "SCHEDULER",
        "SCHEDULERS",
        "SCORES",
        "SINCE",
        "SOURCE",
        "SOURCES",
        "SPREAD",
        "STATE",
        "STATUS",
        "TIE",
        "TIME",
        "TIMELINE",
        "TO",
        "UNIT",
        "UNKNOWN",
        "USED",
        "VALUE",
        "WF",
        "WHY",
        "WORKLOAD",
        "ZONE",
    ]
)
PLAIN_PHRASES = frozenset(
    {
        "BECAUSE OF",
        "BEST NODES",
        "BY ZONE",
        "CHANGED WINNER",
        "DAEMON PODS",
        "IN FLIGHT",
        "LAST POD",
        "LAST PODS",
        "LIMIT OF",
        "NEW NODE",
        "NEW NODES",
        "NO BLOCKER",
        "NO POD ON",
        "NODE GROUP",
        "NODE OR REASON",
        "NORMALIZED",
        "NOT RECORDED",
        "NOT TRIED",
        "OR EVICT",
        "PENDING, GETS A NODE",
        "POD GROUP",
        "PODS LEFT",
        "PODS PLACED",
        "PODS TO MOVE",
        "RECENT PODS",
        "REJECTED FOR",
        "SHORT OF",
        "STATUS AFTERWARDS",
        "WENT TO",
        "WHAT CHANGED IN",
        "WHAT IT DOES",
        "WOULD GO TO",
        "WOULD WIN",
    }
)


def list_headings() -> Iterator[str]:
    """Yield the texts in capitals of the modules that build screens."""
    for file in Path(herodotus_cli.render.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"[A-Z]{2}[A-Z ,']*", text):
                yield text.strip()


@pytest.mark.parametrize("word", [*(event.label for event in ClusterEvent), *PLACES])
def test_explains_events_and_queues(word: str) -> None:
    assert find_term(word), word


@pytest.mark.parametrize("word", sorted({*NOT_EVALUATED, *(each.label for each in Evaluation)}))
def test_explains_evaluations(word: str) -> None:
    assert find_term(word), word


def test_explains_headings() -> None:
    headings = {*list_headings()} - PLAIN - PLAIN_PHRASES
    assert sorted(word for word in headings if not find_term(word)) == []


def test_explains_plugins_and_reasons() -> None:
    words = [word for plugin in PLUGINS for word in (plugin.plugin, *plugin.codes)]
    assert [word for word in words if not find_plugins(word)] == []
