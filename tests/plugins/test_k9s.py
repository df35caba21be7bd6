"""plugins/k9s/plugins.yaml: its form, and that each command line is one of the plugin's."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import click
import jsonschema_rs
import pytest
import yaml

from herodotus_cli import commands
from tests.processes import ROOT

FILE = ROOT / "plugins/k9s/plugins.yaml"
PLUGINS: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["plugins"]
SELECTED = {"NAME": "checkout-7d9f-x2k", "NAMESPACE": "shop", "CONTEXT": 'a "context" with $(spaces)'}
TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
SCHEMA = {  # the fields of k9s that this file uses
    "type": "object",
    "additionalProperties": False,
    "required": ["shortCut", "description", "scopes", "command", "background", "args"],
    "properties": {
        "shortCut": {"type": "string", "pattern": "^(Shift|Ctrl|Alt)-[A-Z]$"},
        "description": {"type": "string", "minLength": 1, "maxLength": 20},  # the menu cuts longer ones
        "scopes": TEXTS,
        "command": TEXT,
        "background": {"const": False},  # otherwise k9s shows no output
        "args": TEXTS,
    },
}
every_plugin = pytest.mark.parametrize("name", PLUGINS)


def substituted(name: str) -> list[str]:
    """Return the arguments as k9s passes them: it replaces each $WORD, and refuses one that it does not know."""
    return [re.sub(r"\$!?([\w|-]+)", lambda m: SELECTED[m[1]], argument) for argument in PLUGINS[name]["args"]]


@every_plugin
def test_a_plugin_has_the_fields_of_k9s(name: str) -> None:
    jsonschema_rs.validate(SCHEMA, PLUGINS[name])


def test_a_view_has_each_shortcut_once() -> None:
    keys = Counter((scope, plugin["shortCut"]) for plugin in PLUGINS.values() for scope in plugin["scopes"])
    assert set(keys.values()) == {1}
    assert {"pods", "nodes"} <= {scope for scope, _ in keys}


@every_plugin
def test_a_plugin_runs_a_valid_command(name: str, tmp_path: Path) -> None:
    """A kubectl that prints its arguments takes the place of the real one."""
    for program, text in {"kubectl": 'printf "%s\\n" "$@"', "less": "cat"}.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / program).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    run = subprocess.run(
        [PLUGINS[name]["command"], *substituted(name)], env=environment, capture_output=True, text=True, check=True
    )
    program, command, *words = run.stdout.splitlines()
    assert (program, run.stderr) == ("herodotus", "")
    context = parse(command, words)
    assert context.params["context"] == SELECTED["CONTEXT"]
    assert context.params["color"] == "always"
    if "$NAMESPACE" in PLUGINS[name]["args"]:
        assert context.params["namespace"] == "shop"


def parse(command: str, words: list[str]) -> click.Context:
    found = commands.load_command(command)
    context = found.make_context(command, list(words))
    if isinstance(found, click.Group) and context._protected_args:
        name, nested, rest = found.resolve_command(context, [*context._protected_args, *context.args])
        assert nested is not None
        return nested.make_context(name, rest, parent=context)
    return context


def test_an_unknown_option_is_found() -> None:
    with pytest.raises(click.NoSuchOption):
        parse("pod", ["x", "--no-such-option"])
