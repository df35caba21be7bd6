"""Each log entry is one line, even if it quotes line breaks and control characters."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_serving import logs

FORGED = "x\n2026-03-01 12:00:00,000 INFO root: forged\x1b[31m\u202e\u2028"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Return the output of a handler whose formatter is not the project's."""
    before, stream = logging.getLogRecordFactory(), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("tests.logs")
    logger.addHandler(handler)
    logging.setLogRecordFactory(logs.EscapedRecord)
    yield stream
    logging.setLogRecordFactory(before)
    logger.removeHandler(handler)


def test_message_is_one_line(log: io.StringIO) -> None:
    logging.getLogger("tests.logs").error("node %s: no series", FORGED)
    assert log.getvalue() == (
        "ERROR node x\\n2026-03-01 12:00:00,000 INFO root: forged\\u001b[31m\\u202e\\u2028: no series\n"
    )


def test_traceback_is_indented(log: io.StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("tests.logs").exception("failed")
    first, *rest = log.getvalue().splitlines()
    assert first == "ERROR failed"
    assert rest
    assert all(line.startswith("  ") for line in rest)
    assert not {"\x1b", "\u202e", "\u2028"} & set(log.getvalue())


@given(st.text())
def test_any_text_is_one_line(text: str) -> None:
    record = logs.EscapedRecord("name", logging.INFO, "path", 1, "%s", (text,), None)
    assert len(f"{record.getMessage()}.".splitlines()) == 1
