"""`explain` knows the words that screens print. They are gathered where they are declared."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import herodotus_cli.render
from herodotus_answers.plugin_reference import PLUGINS, find_plugins
from herodotus_answers.reason_list import CAUSES, STATES
from herodotus_answers.terms import find_term
from herodotus_cli.render.formatting import NOT_EVALUATED, SHORT
from herodotus_record.model import Evaluation
from scheduler.backend.queue.queued_pod import PLACES
from scheduler.engine.framework.events import ClusterEvent
from tests.cli.service import command

GOLDEN = Path(__file__).parent / "golden"


def list_declared_headings() -> Iterator[str]:
    """Yield the texts in capitals of the modules that build screens, except those that something is searched in."""
    for file in Path(herodotus_cli.render.__file__).parent.glob("*.py"):
        tree = ast.parse(file.read_text())
        compared = {id(each) for node in ast.walk(tree) if isinstance(node, ast.Compare) for each in node.comparators}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in compared else None
            if isinstance(text, str) and re.fullmatch(r"[A-Z]{2}[A-Z ,']*", text):
                yield text.strip()


def list_printed_headings() -> Iterator[str]:
    """Yield the words in capitals with which cells of the recorded screens begin."""
    for file in GOLDEN.glob("*.txt"):
        if file.name.startswith("help"):
            continue
        for cell in re.split(r"\n|  +", file.read_text()):
            if match := re.match(r"[A-Z]{2,}(?:,? [A-Z]+)*(?![\w/.'-])", cell):
                yield match[0]


@pytest.mark.parametrize(
    ("word", "begin"), [("unschedulable", "unschedulable (queue)"), ("gated", "gated (queue)"), ("tie", "tie (word)")]
)
def test_word_that_is_also_a_code_of_a_plugin_is_explained_as_the_screen_means_it(word: str, begin: str) -> None:
    said = command("explain", word).out
    assert said.startswith(begin)
    assert ("READS" in said) == (word != "tie"), "the plugin follows"


@pytest.mark.parametrize("word", [*(event.label for event in ClusterEvent), *PLACES])
def test_explains_events_and_queues(word: str) -> None:
    assert find_term(word), word


@pytest.mark.parametrize("word", sorted({*NOT_EVALUATED, *(each.label for each in Evaluation)}))
def test_explains_evaluations(word: str) -> None:
    assert find_term(word), word


@pytest.mark.parametrize("headings", [list_declared_headings, list_printed_headings])
def test_explains_headings(headings: Callable[[], Iterator[str]]) -> None:
    found = set(headings())
    assert len(found) > 50
    assert sorted(word for word in found if not explains(word)) == []


def test_explains_headings_that_names_go_on() -> None:
    term = find_term("HOLDS CPU ON worker-9")
    assert term is not None
    assert term["metadata"]["name"] == "HOLDS"
    assert find_term("holds nothing") is None


@pytest.mark.parametrize("word", [*STATES, *CAUSES])
def test_explains_codes(word: str) -> None:
    assert explains(word)


@pytest.mark.parametrize("word", SHORT.values())
def test_explains_short_names_of_plugins(word: str) -> None:
    ran = command("explain", word)
    assert (ran.code, SHORT[ran.out.splitlines()[0]]) == (0, word)


def explains(word: str) -> bool:
    return command("explain", *word.split()).code == 0


def test_explains_plugins_and_reasons() -> None:
    words = [word for plugin in PLUGINS for word in (plugin.plugin, *plugin.codes)]
    assert [word for word in words if not find_plugins(word)] == []
