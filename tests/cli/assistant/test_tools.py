"""Each tool makes a valid command line, and no argument becomes an option."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from herodotus_cli.assistant.bounds import MAX_TEXT, shorten
from herodotus_cli.assistant.tools import BY_NAME, TOOLS, Tool
from herodotus_cli.commands import load_command, schema
from herodotus_cli.connection import ConnectionSettings, ServiceAddress
from herodotus_cli.option_values import connection_settings, connection_words

EXAMPLES: dict[str, Any] = {
    "name": "web-0",
    "other": "web-1",
    "namespace": "shop",
    "node": "worker-3",
    "nodes": ["worker-1", "worker-2"],
    "attempt": 2,
    "every_node": True,
    "selector": "app in (a,b)",
    "since": "30m",
    "object": "deployment/web",
    "scheduler": "batch",
    "replicas": 3,
    "limit": 50,
    "max_steps": 3,
    "pod": "web-0",
    "words": "Insufficient cpu",
}
TOOL = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def parse(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that the tool's command parses from the command line, without those left out."""
    name, *words = tool.command_line(given, [])
    with load_command(name).make_context(name, words) as ctx:
        return {name: value for name, value in ctx.params.items() if value not in (None, "", (), False)}


@TOOL
def test_a_tool_with_every_argument_makes_a_command_line_with_all_their_values(tool: Tool) -> None:
    given = {name: EXAMPLES[name] for name in tool.properties if name in EXAMPLES}
    jsonschema_rs.validate(tool.input_schema, given)
    parsed = str(list(parse(tool, given).values()))
    for value in given.values():
        for part in value if isinstance(value, list) else [value]:
            assert str(1800 if part == "30m" else part) in parsed


@TOOL
def test_a_tool_accepts_its_required_arguments_alone(tool: Tool) -> None:
    given = {name: EXAMPLES[name] for name in tool.required} or {"object": "pod/web-0"}
    parse(tool, given)


@TOOL
def test_a_tool_has_a_command_whose_answers_have_a_schema(tool: Tool) -> None:
    assert set(schema.KINDS[tool.command]) <= schema.load_schemas()["$defs"].keys()


@TOOL
@pytest.mark.parametrize("value", ["--kubeconfig=/etc/passwd", "-A", "../x", "a b", "", "x" * 400, "web-0\n-A", "Web"])
def test_a_name_that_is_none_is_rejected(tool: Tool, value: str) -> None:
    for argument in tool.properties.keys() & {"name", "other", "namespace", "node", "pod", "object"}:
        given = {name: EXAMPLES[name] for name in tool.required} | {argument: value}
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(tool.input_schema, given)


@pytest.mark.parametrize("value", ["--all", "x --all", "-A", "a=b,--all"])
def test_free_text_stays_the_value_of_its_option(value: str) -> None:
    assert parse(BY_NAME["list_pending_pods"], {"selector": value})["selector"] == value
    assert parse(BY_NAME["explain_plugin"], {"words": value})["words"] == (value,)


@pytest.mark.parametrize("given", [{}, {"object": "pod/a", "manifest": "/tmp/x.yaml"}])
def test_a_hypothetical_pod_needs_an_object_or_a_manifest(given: dict[str, Any]) -> None:
    for name in ("what_if", "capacity"):
        with pytest.raises(ValueError, match="either object or manifest"):
            BY_NAME[name].words(given)


@pytest.mark.parametrize(
    "settings",
    [
        ConnectionSettings(),
        ConnectionSettings(context="staging", kubeconfig="/k", as_user="jo", as_groups=("a", "b"), request_timeout_s=0),
        ConnectionSettings(endpoint="http://127.0.0.1:8000", service=ServiceAddress("n", "http", "s", "plain-http")),
        ConnectionSettings(local=True, scheduler_config=__file__, request_timeout_s=2.5),
    ],
)
def test_commands_get_the_connection_of_the_server(settings: ConnectionSettings) -> None:
    words = [*connection_words(settings), "--", "web-0"]
    with load_command("pod").make_context("pod", words) as ctx:
        again = connection_settings(ctx, {})
    assert again == settings


def test_a_small_answer_is_left_alone() -> None:
    answer = {"nodes": list(range(10)), "text": "short"}
    assert shorten(answer, 1000) == []
    assert answer == {"nodes": list(range(10)), "text": "short"}


def test_the_largest_list_is_shortened_first_and_named() -> None:
    answer: dict[str, Any] = {"nodes": [{"name": f"worker-{i}"} for i in range(5000)], "pods": ["a", "b", "c", "d"]}
    notes = shorten(answer, 2000)
    kept = len(answer["nodes"])
    assert 3 < kept < 120
    assert answer["nodes"][kept - 1] == {"name": f"worker-{kept - 1}"}
    assert answer["pods"] == ["a", "b", "c", "d"]
    assert notes == [f"answer.nodes: the first {kept} of 5000 items"]


def test_a_list_inside_a_list_is_shortened() -> None:
    answer = {"groups": [{"nodes": [f"worker-{i}" for i in range(2000)]}, {"nodes": ["a"]}]}
    notes = shorten(answer, 1000)
    assert len(answer["groups"]) == 2
    assert len(notes) == 1
    assert notes[0].startswith("answer.groups[0].nodes: the first ")


def test_a_long_text_is_cut_and_named() -> None:
    answer = {"message": "x" * 10_000}
    assert shorten(answer, 100_000) == [f"answer.message: the first {MAX_TEXT} of 10000 characters"]
    assert len(answer["message"]) == MAX_TEXT
