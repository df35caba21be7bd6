"""The references among the documents, as the code says them: flags and environment, configuration, the record.

Owns: their form. Does not own: what they say: that is the help of each flag, the type, default and docstring of each
field, the schemas of the API, and what nothing in the code describes (`meanings`).

Invariant: the same text with every version of Python: argparse's own help is not used.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from herodotus_agents import __main__ as agents
from herodotus_agents import commands, settings
from herodotus_agents.agents import AGENTS
from herodotus_endpoint import certificate, maintenance, options
from herodotus_endpoint.schemas import NAME, SCHEMAS
from herodotus_record import codec
from herodotus_sim import __main__ as sim
from scheduler import app
from scheduler.config.extenders import Extender, ManagedResource, TlsConfig
from scheduler.config.types import ClientConnection, Configuration, LeaderElection, PluginRef, ProfileConfig
from scheduler.framework.plugin import Args, NoArgs
from scheduler.plugins import IN_TREE
from tests.contract.meanings import MEANINGS, VARIABLES

FIELD: Final = ("field", "type", "meaning")
COMMON: Final = ("apiVersion", "kind", "metadata")
WORDS: Final = {"integer": "whole number", "string": "text", "array": "list", "boolean": "true or false"}
AGAIN: Final = "Generated, and tested to be true."
GO: Final = {"str": "text", "int": "number", "bool": "true or false", "float": "number"}

PROCESSES: Final = {
    "scheduler": app._parser,
    "herodotus_endpoint": options.parser,
    "herodotus_endpoint COMMAND": maintenance._parser,
    f"herodotus_endpoint {certificate.COMMAND}": certificate.parser,
    "herodotus_agents": agents._parser,
    "herodotus_sim": sim._parser,
}


def flags() -> str:
    """docs/flags.md."""
    parts = [
        "# Flags and environment",
        f"Of every process but the plugin, whose commands are in [commands.md](commands.md). {AGAIN} `--help` and"
        " `--version` are left out: everything has them.",
        *_processes(),
        "## Environment",
        "A flag comes first where there is one.",
        *(f"### {who}\n\n{_table(('variable', 'meaning'), _quoted(rows.items()))}" for who, rows in VARIABLES.items()),
        "### settings of the extender service and of each agent",
        "Environment before file (`serve --config FILE`, a section an agent under `settings`) before default.",
        *_settings(),
    ]
    return "\n\n".join(parts) + "\n"


def _processes() -> Iterator[str]:
    for name, parser in PROCESSES.items():
        program = name.removesuffix(" COMMAND")
        for command, found in _commands(f"python -m {program}", parser()):
            rows = [_flag(action) for action in found._actions if not _everywhere(action)]
            if rows:
                yield f"## `{command}`"
                if found.description:
                    yield found.description
                yield _table(("flag", "default", "meaning"), rows)


def _commands(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, below in action.choices.items():
                yield from _commands(f"{name} {command}", below)


def _everywhere(action: argparse.Action) -> bool:
    nothing = (argparse._HelpAction, argparse._VersionAction, argparse._SubParsersAction)
    return isinstance(action, nothing) or action.help == argparse.SUPPRESS


def _flag(action: argparse.Action) -> tuple[str, str, str]:
    value = action.metavar or ("" if action.nargs == 0 else "|".join(map(str, action.choices or ())) or _dest(action))
    value = value if isinstance(value, str) else " ".join(value)
    many = " …" if action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction) else ""
    said = ", ".join(f"{o} {value}".strip() for o in action.option_strings[-1:]) or value
    short = [f"`{o}`" for o in action.option_strings[:-1]]
    meaning = (action.help or "") % {**vars(action), "prog": ""}
    return ", ".join([*short, f"`{said}{many}`"]), _default(action, meaning), meaning + _required(action)


def _dest(action: argparse.Action) -> str:
    return "" if isinstance(action, argparse.BooleanOptionalAction) else action.dest.upper()


def _required(action: argparse.Action) -> str:
    return " (required)" if action.required and action.option_strings else ""


def _default(action: argparse.Action, meaning: str) -> str:
    """Where the help says it, once is enough."""
    if "default" in meaning or action.default is False or not isinstance(action.default, (int, float, str)):
        return ""
    return f"`{action.default}`" if action.default != "" and action.default is not True else ""


def _settings() -> Iterator[str]:
    kinds = {name: _load(where).settings for name, where in AGENTS.items()}
    for name, kind in {"service": settings.Service, **kinds, "annotators": commands.Annotating}.items():
        variables = {field: variable for variable, field in kind.variables.items()}
        rows = [(f"`{key}`", _variable(variables.get(f)), kind_, default) for f, key, kind_, default in _fields(kind)]
        if rows:
            yield f"**{name}**: {_doc(kind)}\n\n{_table(('field', 'variable', 'type', 'default'), rows)}"


def _variable(name: str | None) -> str:
    return f"`{name}`" if name else ""


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


def configuration() -> str:
    """docs/configuration-reference.md."""
    sections: dict[str, type[msgspec.Struct]] = {
        "The file": Configuration,
        "`leaderElection`": LeaderElection,
        "`clientConnection`": ClientConnection,
        "`profiles[]`": ProfileConfig,
        "`profiles[].plugins.POINT.enabled[]`, `disabled[]`": PluginRef,
        "`extenders[]`": Extender,
        "`extenders[].tlsConfig`": TlsConfig,
        "`extenders[].managedResources[]`": ManagedResource,
    }
    parts = [
        "# Configuration reference",
        "Every field of a `KubeSchedulerConfiguration` that `python -m scheduler` reads, with its default, and every"
        f" plugin's arguments. {AGAIN} How files are read, and those of older versions:"
        " [configuration.md](configuration.md); what each plugin does: [parity.md](parity.md). `python -m scheduler"
        " validate FILE` prints a file with every default filled in.",
        *(f"## {title}\n\n{_doc(kind)}\n\n{_struct(kind)}" for title, kind in sections.items()),
        "`POINT` is preEnqueue, queueSort, preFilter, filter, postFilter, preScore, score, reserve, permit, preBind,"
        " bind, postBind or multiPoint.",
        "## Plugins' arguments",
        "Under `profiles[].pluginConfig[]`: `name`, and in `args` what follows. Plugins that are not here take none.",
        *_arguments(),
    ]
    return "\n\n".join(parts) + "\n"


def _arguments() -> Iterator[str]:
    for name in sorted(IN_TREE):
        kind = IN_TREE[name].args_type
        if kind is not NoArgs:
            yield f"### {name}\n\n{_doc(kind)}\n\n{_struct(kind)}"
            yield from _below(kind)


def _below(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Structs that are an argument's own: of those that name Kubernetes' types the API's reference tells."""
    for field in msgspec.structs.fields(kind):
        for part in _parts(field.type):
            if (
                isinstance(part, type)
                and issubclass(part, msgspec.Struct)
                and part.__module__.startswith("scheduler.p")
            ):
                yield f"**`{field.encode_name}`**: {_doc(part)}\n\n{_struct(part)}"
                yield from _below(part)


def _struct(kind: type[msgspec.Struct]) -> str:
    meanings = MEANINGS.get(kind, {})
    rows = [(f"`{key}`", type_, default, meanings.get(key, "")) for _, key, type_, default in _fields(kind)]
    width = 4 if meanings else 3
    return _table(("field", "type", "default", "meaning")[:width], [row[:width] for row in rows])


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[str, str, str, str]]:
    """Name, key in a file, type and default of each field."""
    for field in msgspec.structs.fields(kind):
        if not (issubclass(kind, Args) and field.name in ("api_version", "kind")):
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            yield field.name, field.encode_name, _type(field.type), _value(default)


def _type(kind: Any) -> str:
    """In a reader's words."""
    parts = list(_parts(kind))
    if isinstance(parts[0], type) and issubclass(parts[0], Enum):
        return " or ".join(str(member.value) for member in parts[0])
    one = " or ".join(dict.fromkeys(GO.get(getattr(p, "__name__", ""), "object") for p in parts))
    if getattr(kind, "__origin__", None) is dict:
        return "object"
    if any(getattr(k, "__origin__", None) in (tuple, list) for k in (kind, *getattr(kind, "__args__", ()))):
        return f"list of {one}s"
    return one


def _parts(kind: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    below = getattr(kind, "__args__", ())
    if not below:
        yield kind
    for part in below:
        if part not in (type(None), Ellipsis) and not isinstance(part, msgspec.Meta):
            yield from _parts(part)


def _value(default: Any) -> str:
    if default is msgspec.NODEFAULT:
        return "required"
    plain = _said(default)
    if plain in (None, "", [], {}):
        return ""
    return f"`{plain if isinstance(plain, str) else json.dumps(plain)}`"


def _said(value: Any) -> Any:
    """As a file would say it: of a struct the fields that are not as they are anyway."""
    if isinstance(value, tuple):
        return [_said(entry) for entry in value]
    if isinstance(value, Enum):
        return value.value
    if not isinstance(value, msgspec.Struct):
        return value
    return {
        field.encode_name: _said(getattr(value, field.name))
        for field in msgspec.structs.fields(value)
        if getattr(value, field.name) != field.default
    }


def record() -> str:
    """docs/record.md."""
    decision, incarnation = (SCHEMAS[f"{NAME}.{kind}"]["properties"] for kind in ("Decision", "Incarnation"))
    parts = [
        "# The record",
        "What is kept of one attempt to place one pod: what `kubectl herodotus pod NAME -o json --full`, `kubectl get"
        " decisions -o json` and [exports](export.md) hold. A list leaves out what is told node by node."
        f" {AGAIN} `kubectl explain decisions` prints the same, where the service is an APIService.",
        f"Version: documents are `herodotus.dev/v1alpha1`, frames on the wire and in the spool are of version"
        f" {codec.VERSION}; every field is of the first version. What may change, and when:"
        " [CHANGELOG.md](../CHANGELOG.md#what-a-version-promises). Readers pass over fields that they do not know.",
        "Times are UTC, RFC 3339 with microseconds (metadata: seconds). Durations are seconds of the monotonic clock."
        " Amounts are whole numbers in base units: cpu in thousandths of a core, memory and storage in bytes, all else"
        " in pieces. Null: the record does not know it (`unknown` says so), or there is none. `[]`: each entry;"
        " `{…}`: each key, a node's name mostly.",
        *(_tree(top, decision[top]) for top in ("metadata", "spec", "status")),
        "## Incarnations",
        "One life of a scheduler process: `/apis/herodotus.dev/v1alpha1/incarnations`. In `metadata`: its UUID, and"
        " when its first record came.",
        _table(FIELD, [r for n, below in incarnation.items() if n not in COMMON for r in _rows(n, below)]),
    ]
    return "\n\n".join(parts) + "\n"


def _tree(top: str, schema: Mapping[str, Any]) -> str:
    below = [row for name, field in schema["properties"].items() for row in _rows(name, field)]
    return f"## `{top}`\n\n{schema['description']}\n\n{_table(FIELD, below)}"


def _rows(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """A field and those below it."""
    null = " or null" if schema.get("nullable") else ""
    yield f"`{path}`", f"{WORDS.get(schema['type'], schema['type'])}{null}", schema["description"]
    yield from _below_of(path, schema)


def _below_of(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, below in schema.get("properties", {}).items():
        yield from _rows(f"{path}.{name}", below)
    for holder, suffix in (("items", "[]"), ("additionalProperties", ".{…}")):
        if schema.get(holder):
            yield from _below_of(f"{path}{suffix}", schema[holder])


def _doc(kind: type[msgspec.Struct]) -> str:
    """The docstring, with fields as files call them."""
    said = re.sub(r"\s+", " ", kind.__doc__ or "").strip()
    for field in msgspec.structs.fields(kind):
        said = said.replace(f"`{field.name}`", f"`{field.encode_name}`")
    return said


def _quoted(rows: Any) -> list[tuple[str, str]]:
    return [(f"`{name}`", meaning) for name, meaning in rows]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
