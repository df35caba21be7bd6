"""Builds the generated references: flags and environment, configuration, the record, reasons, metrics.

Owns: their form. Does not own: their content: the help of each flag, the type, default and docstring of each field, the
schemas of the API, and `meanings`.

Invariant: the text is the same with every version of Python; argparse's own help is not used.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec

from herodotus_agents import command_line as agents
from herodotus_agents import commands, settings
from herodotus_agents.agents import AGENTS
from herodotus_answers.plugin_reference import PLUGINS
from herodotus_answers.reason_list import (
    PublishedOutcome,
    PublishedParameter,
    PublishedReason,
    PublishedScoreReason,
    build_reason_list,
)
from herodotus_answers.schema import NAME
from herodotus_endpoint import certificate, maintenance, options
from herodotus_endpoint.openapi import build_component_schemas
from herodotus_record import codec
from herodotus_record.reasons import CATALOGUE, EARLIER
from herodotus_sim import __main__ as sim
from scheduler.commands import main as app
from scheduler.config.extenders import ExtenderConfig, ManagedResource, TlsConfig
from scheduler.config.types import (
    ClientConnection,
    Configuration,
    LeaderElectionConfiguration,
    PluginRef,
    ProfileConfig,
)
from scheduler.engine.framework.plugin import Args, NoArgs
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.rules.feature_gates import FEATURE_GATES, FeatureGate, GateState
from scheduler.engine.rules.upstream_changes import UPSTREAM_CHANGES
from scheduler.engine.rules.version_rules import VERSION_RULES
from tests.contract.meanings import MEANINGS, VARIABLES

FIELD: Final = ("field", "type", "meaning")
COMMON: Final = ("apiVersion", "kind", "metadata")
WORDS: Final = {"integer": "integer", "string": "text", "array": "list", "boolean": "true or false"}
AGAIN: Final = "This page is generated, and a test compares it with the code."
GO: Final = {"str": "text", "int": "number", "bool": "true or false", "float": "number"}

DEFAULT_IN_HELP: Final = ((" (default", ")"), ("(default", ")"), ("; default:", "\n"))  # how help texts state it
METRIC: Final = ("metric", "type", "labels", "meaning")
METRIC_TYPES: Final = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "_gauge": "gauge",
    "_known": "gauge",
    "Histogram": "histogram",
    # the service's, with arguments that they share
    "counter": "counter",
    "gauge": "gauge",
    "store_gauge": "gauge",
    "histogram": "histogram",
}
ROOT: Final = Path(__file__).parents[2]

PROCESSES: Final = {
    "scheduler": app._parser,
    "herodotus_endpoint": options.build_parser,
    "herodotus_endpoint COMMAND": maintenance._parser,
    f"herodotus_endpoint {certificate.COMMAND}": certificate.build_parser,
    "herodotus_agents": agents._parser,
    "herodotus_sim": sim._parser,
}


def parity() -> str:
    """Return docs/parity.md with the tables of version rules, messages and feature gates written anew."""
    page = (ROOT / "docs/parity.md").read_text()
    rules = [
        (" and ".join(map(str, sorted(rule.since))), rule.plugin, rule.effect, rule.source) for rule in VERSION_RULES
    ]
    page = _replace_table(page, "Rules by version", _table(("since", "plugin", "rule", "source"), rules))
    changes = [(c.subject, c.source, c.handling.value, c.detail) for c in UPSTREAM_CHANGES]
    header = ("change", "source", "here", "what that means")
    page = _replace_table(page, "Changes that are no rules", _table(header, changes))
    messages = [(str(since), f"`{CATALOGUE[code]}`", f"`{sentence}`") for code, since, sentence in EARLIER]
    page = _replace_table(page, "Messages by version", _table(("since", "message", "before"), messages))
    gates = [(f"`{g.name}`", _format_history(g), g.format_support(), g.effect) for g in FEATURE_GATES]
    return _replace_table(page, "Feature gates", _table(("gate", "history", "here", "what it switches"), gates))


def _format_history(gate: FeatureGate) -> str:
    """Return the states of a gate, such as `alpha v1.32, beta v1.33 on, GA v1.35 locked on`."""

    def describe(state: GateState) -> str:
        value = (" locked" if state.locked else "") + (" on" if state.default else "")
        return f"{state.stage.value} v1.{state.minor}{value}"

    return ", ".join(map(describe, gate.history))


def _replace_table(page: str, heading: str, table: str) -> str:
    """Return the page with `table` after the text of the section `heading`, instead of the table there."""
    before, mark, section = page.partition(f"\n## {heading}\n")
    text, following, after = section.partition("\n## ")
    introduction = text[: text.index("\n| ")] if "\n| " in text else text
    return f"{before}{mark}{introduction.rstrip()}\n\n{table}\n{following}{after}"


def _replace_from(page: str, heading: str, text: str) -> str:
    """Return the page with `text` instead of everything from the line `heading` to the end."""
    before, mark, _ = page.partition(f"\n{heading}\n")
    assert mark, heading
    return f"{before}\n{text}\n"


def flags() -> str:
    """Return docs/flags.md."""
    parts = [
        "# Flags and environment",
        "For operators who start or configure the servers: every flag of every program, and every environment"
        f" variable. The plugin's options are in [commands.md](commands.md). {AGAIN} `--help` and `--version`, which"
        " every program has, are left out.",
        *_processes(),
        "## Environment",
        "A flag takes precedence over the environment variable.",
        *(f"### {who}\n\n{_table(('variable', 'meaning'), _quoted(rows.items()))}" for who, rows in VARIABLES.items()),
        "### settings of the extender service and of each agent",
        "The environment takes precedence over the file (`serve --config FILE`, with a section for each agent under"
        " `settings`), and the file over the default.",
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
    default, meaning = _default_and_meaning(action)
    return ", ".join([*short, f"`{said}{many}`"]), default, meaning


def _dest(action: argparse.Action) -> str:
    return "" if isinstance(action, argparse.BooleanOptionalAction) else action.dest.upper()


def _default_and_meaning(action: argparse.Action) -> tuple[str, str]:
    """Return the columns default and meaning; a default that the help text states moves to its column."""
    meaning = (action.help or "") % {**vars(action), "prog": ""}
    stated, meaning = _stated_default(meaning)
    if action.required and action.nargs not in ("?", "*"):
        return "required", meaning
    return stated or _parsed_default(action.default), meaning


def _stated_default(meaning: str) -> tuple[str, str]:
    """Return the default that a help text states, and the rest of the text."""
    for start, end in DEFAULT_IN_HELP:
        before, found, after = meaning.partition(start)
        if found and before.count("(") == before.count(")"):
            stated, rest = _until(after, end)
            stated, comma, condition = stated.lstrip(": ").partition(", at ")
            rest = f" (at {condition}){rest}" if comma else rest
            plain = " " in stated and not stated.startswith(("(", "/"))
            return stated if plain else f"`{stated}`", before.rstrip() + rest
    return "", meaning


def _until(text: str, end: str) -> tuple[str, str]:
    """Split at the first `end` that closes no parenthesis opened within the text."""
    depth = 0
    for i, letter in enumerate(text):
        if letter == end and depth == 0:
            return text[:i], text[i + 1 :]
        depth += (letter == "(") - (letter == ")")
    return text, ""


def _parsed_default(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{value}`" if value != "" and isinstance(value, (int, float, str)) else "none"


def _settings() -> Iterator[str]:
    kinds = {name: _load(where).settings for name, where in AGENTS.items()}
    for name, kind in {
        "service": settings.ExtenderServiceSettings,
        **kinds,
        "annotators": commands.AnnotatorSettings,
    }.items():
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
    """Return docs/configuration-reference.md with the sections on fields written anew."""
    sections: dict[str, type[msgspec.Struct]] = {
        "The file": Configuration,
        "`leaderElection`": LeaderElectionConfiguration,
        "`clientConnection`": ClientConnection,
        "`profiles[]`": ProfileConfig,
        "`profiles[].plugins.POINT.enabled[]`, `disabled[]`": PluginRef,
        "`extenders[]`": ExtenderConfig,
        "`extenders[].tlsConfig`": TlsConfig,
        "`extenders[].managedResources[]`": ManagedResource,
    }
    parts = [
        *(f"## {title}\n\n{_doc(kind)}\n\n{_struct(kind)}" for title, kind in sections.items()),
        "`POINT` is preEnqueue, queueSort, preFilter, filter, postFilter, preScore, score, reserve, permit, preBind,"
        " bind, postBind or multiPoint.",
        "## Plugins' arguments",
        "Under `profiles[].pluginConfig[]`: `name`, and in `args` the fields below. Other plugins have no arguments.",
        *_arguments(),
    ]
    page = (ROOT / "docs/configuration-reference.md").read_text()
    return _replace_from(page, f"## {next(iter(sections))}", "\n\n".join(parts))


def _arguments() -> Iterator[str]:
    for name in sorted(IN_TREE):
        kind = IN_TREE[name].args_type
        if kind is not NoArgs:
            yield f"### {name}\n\n{_doc(kind)}\n\n{_struct(kind)}"
            yield from _below(kind)


def _below(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the structs that only this argument uses; Kubernetes' own types are in the API's reference."""
    for field in msgspec.structs.fields(kind):
        for part in _parts(field.type):
            if (
                isinstance(part, type)
                and issubclass(part, msgspec.Struct)
                and part.__module__.startswith("scheduler.engine.plugins")
            ):
                yield f"**`{field.encode_name}`**: {_doc(part)}\n\n{_struct(part)}"
                yield from _below(part)


def _struct(kind: type[msgspec.Struct]) -> str:
    meanings = MEANINGS.get(kind, {})
    rows = [(f"`{key}`", type_, default, meanings.get(key, "")) for _, key, type_, default in _fields(kind)]
    width = 4 if meanings else 3
    return _table(("field", "type", "default", "meaning")[:width], [row[:width] for row in rows])


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, key in a file, type and default of each field."""
    for field in msgspec.structs.fields(kind):
        if not (issubclass(kind, Args) and field.name in ("api_version", "kind")):
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            yield field.name, field.encode_name, _type(field.type), _value(default)


def _type(kind: Any) -> str:
    """Return a type in words for readers."""
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
    """Return the types that a type consists of."""
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
    """Return a default as a file would write it; of a struct only the fields with other values than theirs."""
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


def metrics() -> str:
    """Return docs/monitoring.md with the tables of the metrics that the modules of the programs declare."""
    modules = _metric_modules()
    tables = [f"### {title}\n\n{_table(METRIC, sorted(_declared(files)))}" for title, files in modules.items()]
    page = (ROOT / "docs/monitoring.md").read_text()
    return _replace_from(page, f"### {next(iter(modules))}", "\n\n".join(tables))


def _metric_modules() -> dict[str, list[Path]]:
    """Return the source files that may declare metrics, by program."""
    scheduler = [*sorted((ROOT / "scheduler").rglob("*.py")), ROOT / "herodotus_kube/request_metrics.py"]
    observer = [file for file in scheduler if file.parent.name == "observe"]
    return {
        "Scheduler": [file for file in scheduler if file not in observer],
        "Observer": observer,
        "Decisions service": sorted((ROOT / "herodotus_endpoint").rglob("*.py")),
    }


def _declared(files: Sequence[Path]) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, labels and help of each metric that one of the files declares."""
    prefixes = ("herodotus_", "scheduler_", "leader_", "rest_")
    for text in (file.read_text() for file in files):
        if not any(f'"{prefix}' in text for prefix in prefixes):
            continue  # parsing every file takes seconds
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and (kind := METRIC_TYPES.get(getattr(node.func, "id", ""))):
                texts = [str(arg.value) for arg in node.args[:2] if isinstance(arg, ast.Constant)]
                if len(texts) == 2 and texts[0].startswith(prefixes):
                    name = texts[0] + ("_total" if kind == "counter" and not texts[0].endswith("_total") else "")
                    yield f"`{name}`", kind, ", ".join(f"`{label}`" for label in _labels(node)), texts[1]


def _labels(call: ast.Call) -> list[str]:
    arguments = [*call.args[2:], *(keyword.value for keyword in call.keywords if keyword.arg == "labels")]
    found = [part for argument in arguments if isinstance(argument, (ast.List, ast.Tuple)) for part in argument.elts]
    if getattr(call.func, "id", "") == "_known":
        found += call.args[3:]
    return [str(part.value) for part in found if isinstance(part, ast.Constant)]


def record() -> str:
    """Return docs/record.md."""
    decision, incarnation = (
        build_component_schemas()[f"{NAME}.{kind}"]["properties"] for kind in ("Decision", "Incarnation")
    )
    parts = [
        "# The record",
        "For programs that read decisions: every field of the record of one attempt, as in `kubectl herodotus pod NAME"
        " -o json --full`, `kubectl get decisions -o json` and [exports](records.md#export). Lists omit the fields with"
        f" an entry per node. {AGAIN} With an APIService, `kubectl explain decisions` prints the same.",
        f"Documents have the version `herodotus.dev/v1alpha1`; frames on the wire and in the spool have version"
        f" {codec.VERSION}. What may change, and when:"
        " [upgrade.md](upgrade.md#what-a-version-promises). Readers ignore fields that they do not know.",
        "Times are UTC, RFC 3339 with microseconds (metadata: seconds). Durations are seconds of the monotonic clock."
        " Amounts are integers in base units: cpu in thousandths of a core, memory and storage in bytes, all else in"
        " pieces. Null means that there is no value, or that the record does not know it; `unknown` then names the"
        " field. `[]` stands for each entry, `{…}` for each key, usually a node's name.",
        *(_tree(top, decision[top]) for top in ("metadata", "spec", "status")),
        "## Incarnations",
        "One run of a scheduler process: `/apis/herodotus.dev/v1alpha1/incarnations`. `metadata` has its UUID and the"
        " time of its first record.",
        _table(FIELD, [r for n, below in incarnation.items() if n not in COMMON for r in _rows(n, below)]),
    ]
    return "\n\n".join(parts) + "\n"


def reasons() -> str:
    """Return docs/reasons.md with the tables of codes written anew."""
    document = build_reason_list()
    helps = {plugin.plugin: plugin.suggestions for plugin in PLUGINS}
    groups: dict[str, list[PublishedReason]] = {}
    for reason in document["items"]:
        groups.setdefault(reason["plugin"] or "Any plugin", []).append(reason)
    header = ("code", "stage", "message of kube-scheduler", "parameters", "what would change it")
    parts = ["## Codes of reasons", f"Version {document['version']} of the vocabulary."]
    for name, rows in groups.items():
        parts += [f"### {name}", _helps(helps.get(name, ())), _table(header, [*map(_reason, rows)])]
    parts += [
        "## Codes of outcomes",
        "What a short form has in place of a reason.",
        _codes(document["outcomes"]),
        "## Codes of states",
        "What state a pod or a workload is really in (`live.state.code`), which the plugin reads from the API server.",
        _codes(document["states"]),
        "## Codes of causes",
        "Why it is in that state (`live.state.causes[].code`).",
        _codes(document["causes"]),
        "## Codes of changes",
        "What suggestions change (`kind`).",
        _table(("code", "change"), [(f"`{c['code']}`", c["text"]) for c in document["changes"]]),
        "## Codes of scores",
        "What made up a score (`margin.reasons[]`).",
        _table(("code", "text", "parameters"), [_score_reason(score) for score in document["scores"]]),
    ]
    return _replace_from((ROOT / "docs/reasons.md").read_text(), parts[0], "\n\n".join(filter(None, parts)))


def _score_reason(score: PublishedScoreReason) -> tuple[str, str, str]:
    return f"`{score['code']}`", score["text"], _parameters(score["params"])


def _codes(codes: Sequence[PublishedOutcome]) -> str:
    rows = [(f"`{code['code']}`", f"`{code['conditionReason']}`", code["meaning"]) for code in codes]
    return _table(("code", "reason of a condition", "meaning"), rows)


def _helps(suggestions: Sequence[str]) -> str:
    return f"What helps: {'; '.join(suggestions)}." if suggestions else ""


def _reason(reason: PublishedReason) -> tuple[str, str, str, str, str]:
    earlier = [f"before {e['before']}: `{e['sentence']}`" for e in reason["earlierSentences"]]
    return (
        f"`{reason['code']}`",
        ", ".join(reason["stages"]) or "–",
        "<br>".join([f"`{reason['sentence']}`", *earlier]),
        _parameters(reason["params"]),
        "<br>".join(reason["possibleChanges"]) or "–",
    )


def _parameters(parameters: Sequence[PublishedParameter]) -> str:
    units = {p["name"]: f" Unit: {p['unit']}." if p["unit"] else "" for p in parameters}
    return "<br>".join(f"`{p['name']}`: {p['meaning']}{units[p['name']]}" for p in parameters) or "–"


def _tree(top: str, schema: Mapping[str, Any]) -> str:
    below = [row for name, field in schema["properties"].items() for row in _rows(name, field)]
    return f"## `{top}`\n\n{schema['description']}\n\n{_table(FIELD, below)}"


def _rows(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a field and of those below it."""
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
    """Return a docstring with the fields' names as files write them."""
    said = re.sub(r"\s+", " ", kind.__doc__ or "").strip()
    for field in msgspec.structs.fields(kind):
        said = said.replace(f"`{field.name}`", f"`{field.encode_name}`")
    return said


def _quoted(rows: Any) -> list[tuple[str, str]]:
    return [(f"`{name}`", meaning) for name, meaning in rows]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
