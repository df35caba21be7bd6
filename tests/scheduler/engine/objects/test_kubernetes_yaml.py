"""YAML means what it means to kubectl and kube-scheduler, and no text takes the reader down."""

import math
from typing import Any

import pytest
import yaml

from scheduler.engine.objects.kubernetes_yaml import (
    MAX_ALIASED,
    YamlError,
    decode_text,
    load_documents,
    load_first_document,
)

SCALARS = {
    "a number with an exponent": ("1e1", 10),
    "a whole number written as a fraction": ("16.0", 16),
    "a fraction": ("-1.5", -1.5),
    "too large to be exact": ("1e30", 1e30),
    "octal, as YAML 1.1 has it": ("020", 16),
    "octal, as YAML 1.2 has it": ("0o17", 15),
    "no octal number": ("08", 8),
    "hexadecimal": ("-0x1F", -31),
    "binary": ("0b11", 3),
    "with underscores": ("1_000", 1000),
    "zero": ("0", 0),
    "infinite": ("-.inf", -math.inf),
    "a time of day": ("1:30", "1:30"),
    "a date": ("2026-01-01", "2026-01-01"),
    "what is no date": ("2026-13-45", "2026-13-45"),
    "a binary amount": ("1.5Gi", "1.5Gi"),
    "in quotes": ("'1e3'", "1e3"),
    "a word for true": ("yes", True),
    "a word for false": ("off", False),
    "a letter": ("y", "y"),
    "null": ("~", None),
}


@pytest.mark.parametrize(("written", "meant"), SCALARS.values(), ids=SCALARS)
def test_a_scalar_is_what_go_reads(written: str, meant: object) -> None:
    (found,) = load_documents(f"a: {written}")
    assert (found, type(found["a"])) == ({"a": meant}, type(meant))


def test_every_key_is_text() -> None:
    assert load_first_document("{7: a, true: b, 0.5: c, x: d}") == {"7": "a", "true": "b", "0.5": "c", "x": "d"}


def test_a_merge_gives_what_is_not_set() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}"
    assert load_first_document(text) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}


FIRST: dict[str, tuple[str, Any]] = {
    "none": ("", None),
    "a comment": ("# a", None),
    "one": ("---\na: 1\n...\n", {"a": 1}),
    "one, and a line after it": ("a: 1\n---\n", {"a": 1}),
    "two": ("a: 1\n---\nb: 2\n", {"a": 1}),
    "one, and what is no YAML": ("a: 1\n---\n\tb: [\n", {"a": 1}),
}


@pytest.mark.parametrize(("text", "document"), FIRST.values(), ids=FIRST)
def test_the_first_document_is_read_alone(text: str, document: object) -> None:
    assert load_first_document(text) == document


WRONG = {
    "a key twice": ("a: 1\nb: 2\na: 3", 'line 3: key "a" already set in map'),
    "a tab": ("a:\n\tb: 1", "line 2: found character that cannot start any token"),
    "not closed": ("a: [", "line 2: did not find expected node content"),
    "a tag of Python's": ("a: !!python/object:os.system {}", "line 1: could not determine a constructor for the tag"),
    "a control character": ("a: \0", "not YAML: unacceptable character #x0000"),
    "a key that is null": ("~: 1", "unsupported map key None"),
    "a key that is a list": ("? [a]\n: b", "not YAML: unhashable type: 'list'"),
    "deep": ("[" * 100_000, "nested deeper than 200 levels"),
    "of itself": ("a: &a\n  b: *a", "line 2: anchor 'a' value contains itself"),
    "an alias of nothing": ("a: *b", "line 1: found undefined alias"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_error_names_the_line(text: str, message: str) -> None:
    with pytest.raises(YamlError) as raised:
        load_documents(text)
    assert str(raised.value).startswith(message)


def test_aliases_may_repeat_but_not_multiply() -> None:
    repeated = yaml.safe_dump([["x"] * 100] * 100)
    assert load_documents(repeated) == [[["x"] * 100] * 100]
    levels = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 9))
    with pytest.raises(YamlError, match="line 6: document contains excessive aliasing"):
        load_documents(f"l0: &l0 [{', '.join('x' * 9)}]\n{levels}")
    assert MAX_ALIASED < 9**6


def test_text_is_utf_8_or_marked_as_utf_16() -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert decode_text("a: ä".encode(encoding)) == "a: ä", encoding
    with pytest.raises(YamlError, match=r"not UTF-8 text: .* can't decode byte 0xe4 in position 3"):
        decode_text("a: ä".encode("latin-1"))
