"""A long command is broken into lines from which a shell reads the same words."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_cli.render.screen_elements import display_width
from herodotus_cli.render.shell_lines import break_command

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-0123456789./", min_size=1, max_size=40)
VALUES = st.recursive(
    st.text(max_size=30) | st.integers() | st.booleans(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=20), parts, max_size=4),
    max_leaves=12,
)
JSON = VALUES.map(lambda value: json.dumps(value, separators=(",", ":")))
WORDS = st.one_of(
    NAMES,
    st.sampled_from(["&&", "|", ";", "-p", "--type=json"]),
    JSON.map(shlex.quote),  # as a suggestion's patch
    JSON.map(lambda text: f"-o={shlex.quote(text)}"),
    st.text("ab ,{'$\\\"", max_size=60).map(shlex.quote),
    st.text("ab ,{'", max_size=60).map(json.dumps).filter(lambda text: "\\" not in text),  # in double quotes
    st.text("ab ,{", max_size=60).map(lambda text: f"a{text}".replace(" ", "\\ ")),  # escaped blanks
)
COMMANDS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
PATCH = json.dumps(
    {"spec": {"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": 1}}}]}}}}
)


@given(COMMANDS, st.integers(0, 5), st.integers(20, 200))
def test_a_shell_reads_the_same_words_from_the_lines(command: str, indent: int, width: int) -> None:
    lines = break_command(" " * indent + command, width)
    assert all(line.endswith("\\") for line in lines[:-1])
    joined = "".join(line.removesuffix("\\") for line in lines[:-1]) + lines[-1]
    assert shlex.split(joined) == shlex.split(command)


@given(st.lists(WORDS.filter(lambda word: word not in "&&|;"), min_size=1, max_size=8), st.integers(20, 80))
def test_sh_itself_passes_the_same_arguments(words: list[str], width: int) -> None:
    """Not only shlex: a real shell, with the arguments of every word that is not an operator."""
    command = f"printf '%s\\0' {' '.join(words)}"
    lines = break_command(command, width)
    run = [
        subprocess.run(["sh", "-c", text], capture_output=True, check=True).stdout
        for text in (command, "\n".join(lines))
    ]
    assert run[0] == run[1]


@given(COMMANDS, st.integers(20, 200))
def test_a_line_is_too_wide_only_if_it_has_no_place_to_break(command: str, width: int) -> None:
    words = shlex.split(command)
    if max(map(display_width, words), default=0) < width - 12:
        parts = break_command(command, width)
        assert all(display_width(line) <= width for line in parts), parts


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_command_of_a_suggestion_is_not_broken_within_a_word(width: int) -> None:
    patch = shlex.quote(PATCH.replace(" ", ""))
    command = f"     kubectl -n shop patch statefulset payments -p {patch} && kubectl -n shop delete pod payments-0"
    lines = break_command(command, width)
    assert all(display_width(line) <= width for line in lines)
    names = ("kubectl", "statefulset", "payments", '"template"', '"containers"', '"resources"', "payments-0")
    assert all(any(name in line for line in lines) for name in names)


def test_a_command_that_fits_and_one_with_a_comment_stay_whole() -> None:
    assert break_command("     kubectl uncordon worker-1", 80) == ["     kubectl uncordon worker-1"]
    commented = "kubectl uncordon worker-1 # " + "x " * 50
    assert break_command(commented, 40) == [commented]
