"""Calls of an assistant to `kubectl herodotus mcp`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import anyio
import jsonschema_rs

from herodotus_cli.assistant.tools import TOOLS
from tests.processes import ROOT

Json = dict[str, Any]


class Call(NamedTuple):
    """A tool and its arguments."""

    tool: str
    arguments: Json


class Said(NamedTuple):
    """A tool's result: its text, its structured content, and whether it is an error."""

    text: str
    content: Json | None
    is_error: bool


async def _ask(options: Sequence[str], calls: Sequence[Call]) -> list[Said]:
    # every process of pytest imports this module, and these take a second and a half
    from mcp import StdioServerParameters
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    command = StdioServerParameters(command=sys.executable, args=[str(ROOT / "kubectl-herodotus"), "mcp", *options])
    async with Client(stdio_client(command)) as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(offered) == [tool.name for tool in TOOLS]
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in offered.values())
        found = []
        for call in calls:
            result = await client.call_tool(call.tool, call.arguments)
            if result.structured_content:
                jsonschema_rs.validate(offered[call.tool].output_schema or {}, result.structured_content)
            text = result.content[0]
            assert text.type == "text"
            found.append(Said(text.text, result.structured_content, bool(result.is_error)))
        return found


def ask(*calls: Call, options: Sequence[str] = ()) -> list[Said]:
    """Start the server with the options and return its result of each call."""
    return anyio.run(_ask, options, calls)
