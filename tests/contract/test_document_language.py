"""The rules for the language of documents that a program can check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for folder in ("", "docs", "deploy", "packages", "tests")
    for path in ((ROOT / folder).rglob("*.md") if folder else ROOT.glob("*.md"))
)

# Lengths in words. Readers lose the subject of a sentence somewhere above 30 words; tables and lists count as well.
MAX_SENTENCE = 40
LONG_SENTENCE = 32
MAX_LONG_SENTENCES = 20  # in all documents together

# Phrases for which a plainer one exists.
PHRASES = re.compile(
    r"\b(?:(?:is|are|was|were|be|been) (?:told|said|asked|gone by)|whoever|whatever|comes? to|goes by|went by"
    r"|none of our|what (?:is|are) not|may leave|in herds?|stands? (?:in|at|there|twice|once)"
    r"|lies? (?:in|at|there|beside)|nobody|of ours|of one's own|tells? of)\b",
    re.IGNORECASE,
)


def prose(document: Path) -> str:
    return re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)


def sentences(text: str) -> Iterator[str]:
    """Yield sentences, cells of tables and headings."""
    yield from re.split(r"(?<=[.!?])\s+|\s\|\s|\n\n", text)


def longer_than(words: int) -> list[str]:
    found = [
        (len(sentence.split()), document.relative_to(ROOT), " ".join(sentence.split()[:10]))
        for document in DOCUMENTS
        for sentence in sentences(prose(document))
    ]
    return [f"{length} words, {path}: {start} …" for length, path, start in found if length > words]


def test_no_sentence_of_a_document_is_very_long() -> None:
    assert longer_than(MAX_SENTENCE) == []


def test_few_sentences_of_documents_are_long() -> None:
    long = longer_than(LONG_SENTENCE)
    assert len(long) <= MAX_LONG_SENTENCES, "\n".join(long)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_documents_use_plain_phrases(document: Path) -> None:
    assert [match[0] for match in PHRASES.finditer(prose(document))] == []


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_each_page_begins_with_its_audience(document: Path) -> None:
    """The first paragraph is a sentence, not a table, a command or a heading."""
    title, _, rest = document.read_text().partition("\n\n")
    assert title.startswith("# ")
    assert rest.startswith("For "), rest[:80]
