"""Log lines in klog's text format."""

import io
import re

import pytest

from scheduler import klog


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    klog.setup(3, stream)
    return stream


HEAD = re.compile(r"([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_klog\.py:\d+\] ")


def line(log: io.StringIO) -> tuple[str, str]:
    """(severity, what follows the head) of the one line."""
    match = HEAD.match(log.getvalue())
    assert match, log.getvalue()
    return match[1], log.getvalue()[match.end() :]


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ({}, ""),
        ({"pod": "ns/p", "score": 73}, ' pod="ns/p" score=73'),
        ({"ok": True, "share": 1.5, "none": None}, " ok=true share=1.5 none=null"),
        ({"list": ["a", "b"], "map": {"k": 1}}, ' list=["a","b"] map={"k":1}'),
        ({"quoted": 'say "ü"'}, ' quoted="say \\\\"ü\\\\""'.replace("\\\\", "\\")),
        ({"lines": "a\nb"}, " lines=<\n\ta\n\tb\n >"),
    ],
)
def test_an_info_line(log: io.StringIO, pairs: dict[str, object], text: str) -> None:
    klog.info(2, "Bound", **pairs)
    assert line(log) == ("I", f'"Bound"{text}\n')


def test_only_up_to_the_verbosity(log: io.StringIO) -> None:
    klog.info(4, "too much")
    assert log.getvalue() == ""
    assert [klog.enabled(v) for v in (0, 3, 4)] == [True, True, False]


def test_an_error_comes_first(log: io.StringIO) -> None:
    klog.error(ValueError("broken"), "Error scheduling pod", pod="p")
    assert line(log) == ("E", '"Error scheduling pod" err="broken" pod="p"\n')


def test_a_traceback_follows_where_somebody_wants_it() -> None:
    stream = io.StringIO()
    klog.setup(4, stream)
    try:
        raise ValueError("broken")
    except ValueError as e:
        klog.error(e, "Failed")
    assert "Traceback (most recent call last)" in stream.getvalue()


def test_a_warning(log: io.StringIO) -> None:
    klog.warning("Careful", api="x")
    assert line(log) == ("W", '"Careful" api="x"\n')
