"""`kubectl herodotus schema [COMMAND | KIND]`: the JSON Schema of answers in -o json and -o yaml.

Owns: which kinds of documents a command prints. Does not own: the schemas (`herodotus_answers.schema`).
"""

from __future__ import annotations

import json
from typing import Any

import click

from herodotus_cli import options
from herodotus_cli.environment import environment_of

Json = dict[str, Any]
KINDS = {
    "pod": ("PodExplanation", "PodHistory", "Decision", "DecisionList", "UndecidedPod"),
    "pending": ("PendingPods",),
    "compare": ("PodComparison", "NodeComparison"),
    "workload": ("WorkloadPlacement",),
    "podgroup": ("PodGroupPlacement", "UndecidedPodGroup"),
    "node": ("NodeHistory", "NodeSummaryList"),
    "balance": ("Balance",),
    "whatif": ("PlacementReview", "ClusterReview"),
    "plan": ("ClusterReview",),
    "capacity": ("ClusterReview",),
    "consolidate": ("ClusterReview",),
    "nodegroups": ("ClusterReview",),
    "simulate": ("Simulation", "PodComparison", "SimulationTuning"),
    "preemptions": ("Preemptions",),
    "disagreements": ("Agreements",),
    "watch": ("Decision",),
    "clusters": ("ClusterList",),
    "explain": ("PluginExplanation", "PluginExplanationList", "ReasonList", "TermExplanation"),
}


def _complete(_ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    return [name for name in (*KINDS, *load_schemas()["$defs"]) if name.startswith(word)]


@options.command(short_help="Print the JSON Schema of the answers of a command.")
@click.argument("name", metavar="[COMMAND | KIND]", default="", shell_complete=_complete)
@click.pass_context
def schema(ctx: click.Context, /, name: str) -> None:
    """Print the JSON Schema (2020-12) of what a command prints with -o json or -o yaml.

    The schema's $id holds the version of the API. Within a version, fields are added and never removed, so a reader
    must accept unknown fields. Without an argument, prints the schemas of all kinds of answers.

    \b
    kubectl herodotus schema pod
    kubectl herodotus schema PendingPods
    """
    every = load_schemas()
    kinds = KINDS.get(name) or ((name,) if name in every["$defs"] else ())
    if name and not kinds:
        raise click.UsageError(f"{name[:60]!r} is neither a command nor a kind: use one of {', '.join(KINDS)}")
    document = select_schema(every, name, kinds) if name else every
    environment_of(ctx).out.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def load_schemas() -> Json:
    """Return the JSON Schema document of all answers."""
    from herodotus_answers.schema import build_json_schema  # here, because only this command needs it

    return build_json_schema()


def select_schema(every: Json, name: str, kinds: tuple[str, ...]) -> Json:
    """Return a schema that accepts documents of the given kinds, with the definitions that it refers to."""
    needed, found = list(kinds), {}
    while needed:
        kind = needed.pop()
        if kind not in found:
            found[kind] = every["$defs"][kind]
            needed += _referred_kinds(found[kind])
    return {
        "$schema": every["$schema"],
        "$id": f"{every['$id']}/{name}",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds],
        "$defs": dict(sorted(found.items())),
    }


def _referred_kinds(value: Any) -> list[str]:
    if isinstance(value, list):
        return [kind for item in value for kind in _referred_kinds(item)]
    if not isinstance(value, dict):
        return []
    if "$ref" in value:
        return [str(value["$ref"]).rpartition("/")[2]]
    return [kind for item in value.values() for kind in _referred_kinds(item)]
