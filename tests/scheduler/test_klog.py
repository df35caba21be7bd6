"""Log lines in klog's text format."""

import io
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from herodotus_record import klog


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


def test_a_message_keeps_letters_that_are_not_ascii(log: io.StringIO) -> None:
    klog.info(2, "Größe")
    assert line(log) == ("I", '"Größe"\n')


@pytest.mark.parametrize("format", klog.FORMATS)
def test_a_value_that_json_cannot_say_is_written_as_python_does(format: str) -> None:
    stream = io.StringIO()
    klog.setup(0, stream, format)
    klog.info(0, "Asked", by={("a", 1): 2}, pod="p")
    assert "{('a', 1): 2}" in stream.getvalue()


def test_only_up_to_the_verbosity(log: io.StringIO) -> None:
    klog.info(4, "too much")
    assert log.getvalue() == ""
    assert [klog.enabled(v) for v in (0, 3, 4)] == [True, True, False]


def test_an_error_comes_first(log: io.StringIO) -> None:
    klog.error(ValueError("broken"), "Error scheduling pod", pod="p")
    assert line(log) == ("E", '"Error scheduling pod" err="broken" pod="p"\n')


def test_a_traceback_follows_if_requested() -> None:
    stream = io.StringIO()
    klog.setup(4, stream)
    try:
        raise ValueError("broken")
    except ValueError as e:
        klog.error(e, "Failed")
    assert "Traceback (most recent call last)" in stream.getvalue()


@pytest.mark.parametrize("format", klog.FORMATS)
def test_no_value_moves_the_cursor_or_forges_an_entry(format: str) -> None:
    stream = io.StringIO()
    klog.setup(4, stream, format)
    hostile = "x\nE0101 00:00:00.000000       1 forged.py:1] forged\r\x1b[2J\x9b\u202e\u2028\u2029\ufeff"
    klog.info(0, "Asked", pod=hostile, more={"a": hostile})
    try:
        raise ValueError(hostile)
    except ValueError as e:
        klog.error(e, "Failed")
    assert not set("\r\x1b\x9b\u202e\u2028\u2029\ufeff") & set(stream.getvalue())
    entries = [line for line in stream.getvalue().split("\n") if line and not line.startswith(("\t", " >"))]
    assert len(entries) == 2
    if format == "json":
        assert json.loads(entries[0])["pod"] == hostile


def test_a_warning(log: io.StringIO) -> None:
    klog.warning("Careful", api="x")
    assert line(log) == ("W", '"Careful" api="x"\n')


class TestJson:
    @pytest.fixture
    def log(self) -> io.StringIO:
        stream = io.StringIO()
        klog.setup(3, stream, "json")
        return stream

    def line(self, log: io.StringIO) -> dict[str, object]:
        """Return the logged object without the fields that differ each time."""
        made = json.loads(log.getvalue())
        assert log.getvalue().count("\n") == 1
        assert abs(made.pop("ts") / 1000 - time.time()) < 60
        assert re.fullmatch(r"scheduler/test_klog\.py:\d+", made.pop("caller"))
        return dict(made)

    def test_an_info_line_has_its_verbosity_and_its_pairs(self, log: io.StringIO) -> None:
        klog.info(2, "Bound", pod="ns/p", score=73, ok=True, many=["a", "b"], lines="a\nb")
        pairs = {"pod": "ns/p", "score": 73, "ok": True, "many": ["a", "b"], "lines": "a\nb"}
        assert self.line(log) == {"msg": "Bound", "v": 2, **pairs}

    def test_an_error_has_its_error_and_no_verbosity(self, log: io.StringIO) -> None:
        klog.error(ValueError("bad"), "Failed", pod="ns/p")
        assert self.line(log) == {"msg": "Failed", "err": "bad", "pod": "ns/p"}

    def test_the_traceback_is_part_of_the_object(self, log: io.StringIO) -> None:
        klog.set_verbosity(4)
        try:
            raise ValueError("bad")
        except ValueError as e:
            klog.error(e, "Failed")
        assert str(self.line(log)["stacktrace"]).endswith("ValueError: bad")

    def test_values_without_a_json_form_are_strings(self, log: io.StringIO) -> None:
        klog.warning("Odd", path=Path("/x"))
        assert self.line(log) == {"msg": "Odd", "v": 0, "path": "/x"}


def test_verbosity_changes_while_running(log: io.StringIO) -> None:
    klog.info(5, "unheard")
    klog.set_verbosity(5)
    klog.info(5, "heard")
    assert klog.enabled(5)
    assert line(log)[1] == '"heard"\n'


def test_lines_about_an_attempt_have_the_trace_s_id_if_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ID is that of the exported spans, which follows from the pod's UID."""
    uid = "0a1b2c3d-0000-4000-8000-000000000001"
    monkeypatch.setattr(klog, "_trace_ids", False)
    assert klog.pod_fields("shop/web", uid) == {"pod": "shop/web"}
    klog.log_trace_ids()
    assert klog.pod_fields("shop/web", uid) == {"pod": "shop/web", "trace_id": "0a1b2c3d000040008000000000000001"}


@pytest.mark.parametrize(
    ("write", "at_most"),
    [
        pytest.param(lambda i: klog.error("refused", "Binding failed", pod=f"ns/p{i}"), 10, id="error"),
        pytest.param(lambda i: klog.warning("Refused", pod=f"ns/p{i}"), 10, id="warning"),
        pytest.param(lambda i: klog.repeated_error("full", "Cannot record", sequence=i), 1, id="repeated"),
    ],
)
def test_a_failure_that_repeats_is_counted_instead_of_logged(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch, write: Callable[[int], None], at_most: int
) -> None:
    now = 5000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for i in range(1000):
        write(i)
    assert len(log.getvalue().splitlines()) == at_most
    now += 1.0
    write(1000)
    assert log.getvalue().splitlines()[-1].endswith(f" suppressed={1000 - at_most}")
    write(1001)
    now += 1.0
    write(1002)
    assert "suppressed" not in log.getvalue().splitlines()[-1] or at_most == 1


def test_what_was_left_out_is_said_after_the_failure_stops(log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next warning or error of any place, or when the process ends."""
    now = 9000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(5):
        klog.repeated_error("full", "Cannot record")
    now += 1.0
    klog.warning("Another failure")
    assert [text.split("] ")[1] for text in log.getvalue().splitlines()[1:]] == [
        '"Left out further lines like this one" suppressed=4',
        '"Another failure"',
    ]
    for _ in range(3):
        klog.repeated_error("full", "Cannot record")
    klog.write_left_out()
    klog.write_left_out()
    assert log.getvalue().splitlines()[-1].endswith('"Left out further lines like this one" suppressed=2')
    assert log.getvalue().count("Left out") == 2
