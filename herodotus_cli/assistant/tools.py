"""The tools for AI assistants: names, descriptions, arguments, and the command line that answers each.

Owns: this table. Does not own: running a command line, the protocol (`server`).

Every tool runs a command of the plugin that changes nothing in the cluster. No argument can become an option: names
follow `--`, and other values are joined to their option with `=`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_WORKLOAD: Final = r"^[a-z]{1,40}/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_SINCE: Final = r"^[0-9]{1,6}(s|m|h|d)$"
MAX_MANIFEST: Final = 256 * 1024  # characters
_MAX_DRAINED: Final = 50  # nodes


class Tool(NamedTuple):
    """One tool: `command` is the command of the plugin that answers it, and `words` makes the arguments after it.

    `action` is a word that the command needs right after its name, such as `drain`, or "".
    `properties` are the JSON Schemas of the tool's arguments, of which `required` must be given. An argument `manifest`
    is written to a file, and `words` gets the file's path in its place.
    """

    name: str
    title: str
    description: str
    command: str
    properties: Json
    required: tuple[str, ...]
    words: Callable[[Mapping[str, Any]], list[str]]
    action: str = ""

    def command_line(self, given: Mapping[str, Any], options: Sequence[str]) -> list[str]:
        """Return the command line that answers the tool for its arguments `given`, with further `options`."""
        return [self.command, *([self.action] if self.action else []), *options, *self.words(given)]

    @property
    def input_schema(self) -> Json:
        """The JSON Schema of the tool's arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


def _string(description: str, pattern: str = "") -> Json:
    return {"type": "string", "description": description} | ({"pattern": pattern} if pattern else {})


def _options(given: Mapping[str, Any], *names: str) -> list[str]:
    """Return an option NAME=VALUE for each of these names that has an argument which is not empty."""
    return [f"--{name.replace('_', '-')}={given[name]}" for name in names if given.get(name) not in (None, "")]


def _namespaces(given: Mapping[str, Any]) -> list[str]:
    """Return the option --namespace, or --all-namespaces if no namespace was given."""
    return _options(given, "namespace") or ["--all-namespaces"]


def _pod_or_workload(given: Mapping[str, Any]) -> list[str]:
    """Return the command-line arguments for a manifest, or for an object's kind and name.

    Raises ValueError unless exactly one of `manifest` and `object` was given.
    """
    if ("manifest" in given) == ("object" in given):
        raise ValueError("give either object or manifest")
    if "manifest" in given:
        return [*_options(given, "namespace"), f"--filename={given['manifest']}"]
    kind, _, name = given["object"].partition("/")
    words = ["pod", name] if kind == "pod" else [f"{kind}/{name}"]
    return [*_options(given, "namespace"), "--", *words]


_POD: Final = _string("Name of the pod.", _NAME)
_NAMESPACE: Final = _string("Namespace of the pod. Default: the namespace of the kubeconfig's context.", _NAME)
_EVERY_NAMESPACE: Final = _string("Only this namespace. Default: all namespaces.", _NAME)
_SELECTOR: Final = _string("Label selector, such as app=checkout.")
_NODE: Final = _string("Name of the node.", _NAME)
_ATTEMPT: Final[Json] = {"type": "integer", "minimum": 1, "description": "Number of the attempt. Default: the last."}
_PERIOD: Final = _string("How far back, such as 30m, 24h or 7d. Default: 24h.", _SINCE)
_OBJECT: Final = _string("KIND/NAME of an existing pod or workload, such as pod/web-0 or deployment/web.", _WORKLOAD)
_SCHEDULER: Final = _string("Decide as if the object named this scheduler.", _NAME)
_MANIFEST: Final[Json] = {
    "type": "string",
    "maxLength": MAX_MANIFEST,
    "description": "Instead of object: the manifest of a pod or workload, YAML or JSON. Nothing is created.",
}

_BRIEF: Final[Json] = {
    "type": "boolean",
    "description": "Only the headline, the cause as a code and the best fix, below 2 kB, which is the default."
    " false: the whole document.",
    "default": True,
}

TOOLS: Final = (
    Tool(
        "explain_pod",
        "Explain a pod",
        "Why a pod is on its node, or why it is Pending: the verdict of the filters, the scores that decided, and for a"
        " pending pod what would have to change. live.fate says whether the pod still exists.",
        "pod",
        {
            "brief": _BRIEF,
            "name": _POD,
            "namespace": _NAMESPACE,
            "attempt": _ATTEMPT,
            "every_node": {"type": "boolean", "description": "All nodes, with every filter and score. Large."},
        },
        ("name",),
        lambda a: [*_options(a, "namespace", "attempt"), *(["--all"] if a.get("every_node") else []), "--", a["name"]],
    ),
    Tool(
        "list_pod_attempts",
        "List a pod's attempts",
        "All scheduling attempts of a pod, and what changed between them.",
        "pod",
        {"brief": _BRIEF, "name": _POD, "namespace": _NAMESPACE},
        ("name",),
        lambda a: ["--attempts", *_options(a, "namespace"), "--", a["name"]],
    ),
    Tool(
        "why_not_node",
        "Why or why not a node",
        "Why a pod was or was not placed on one node, and what would have to change for it.",
        "pod",
        {"name": _POD, "namespace": _NAMESPACE, "node": _NODE, "attempt": _ATTEMPT},
        ("name", "node"),
        lambda a: [*_options(a, "namespace", "node", "attempt"), "--", a["name"]],
    ),
    Tool(
        "list_decisions",
        "List decisions",
        "The newest scheduling decision about each pod.",
        "pod",
        {"namespace": _EVERY_NAMESPACE, "selector": _SELECTOR},
        (),
        lambda a: [*_namespaces(a), *_options(a, "selector")],
    ),
    Tool(
        "list_pending_pods",
        "List pending pods",
        "The pending pods by reason, and when each is tried again. Those in live.gone are no longer pending.",
        "pending",
        {"brief": _BRIEF, "namespace": _EVERY_NAMESPACE, "selector": _SELECTOR},
        (),
        lambda a: [*_namespaces(a), *_options(a, "selector")],
    ),
    Tool(
        "explain_node",
        "Explain a node",
        "How often a node was considered, rejected and chosen, and why.",
        "node",
        {"brief": _BRIEF, "name": _NODE, "since": _PERIOD},
        ("name",),
        lambda a: [*_options(a, "since"), "--", a["name"]],
    ),
    Tool(
        "explain_workload",
        "Explain a workload's placement",
        "Where the pods of a workload were placed, and why.",
        "workload",
        {"brief": _BRIEF, "object": _OBJECT, "namespace": _NAMESPACE, "since": _PERIOD},
        ("object",),
        lambda a: [*_options(a, "namespace", "since"), "--", a["object"]],
    ),
    Tool(
        "compare_pods",
        "Compare two pods",
        "Where two pods went, what changed between their decisions, and the scores of the best nodes for both.",
        "compare",
        {
            "brief": _BRIEF,
            "name": _POD,
            "other": _string("Name of the other pod.", _NAME),
            "namespace": _NAMESPACE,
        },
        ("name", "other"),
        lambda a: [*_options(a, "namespace"), "--", "pod", a["name"], a["other"]],
    ),
    Tool(
        "compare_nodes",
        "Compare two nodes for a pod",
        "For one pod, the verdict of each filter and the points of each plugin on two nodes.",
        "compare",
        {
            "brief": _BRIEF,
            "name": _POD,
            "namespace": _NAMESPACE,
            "node": _NODE,
            "other": _string("The other node.", _NAME),
        },
        ("name", "node", "other"),
        lambda a: [*_options(a, "namespace"), "--nodes", a["node"], a["other"], "--", "pod", a["name"]],
    ),
    Tool(
        "what_if",
        "What if pods were created",
        "Where hypothetical pods would go, and what stops the next one. Nothing is created, evicted or recorded.",
        "whatif",
        {
            "brief": _BRIEF,
            "object": _OBJECT,
            "manifest": _MANIFEST,
            "namespace": _NAMESPACE,
            "scheduler": _SCHEDULER,
            "replicas": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Number of pods."},
            "node": _string("Why or why not this node, for the first pod.", _NAME),
        },
        (),
        lambda a: [*_options(a, "replicas", "node", "scheduler"), *_pod_or_workload(a)],
    ),
    Tool(
        "what_if_drained",
        "What if nodes were drained",
        "Where the pods of nodes would go if the nodes were drained, and which would block it. Nothing is evicted.",
        "whatif",
        {
            "brief": _BRIEF,
            "nodes": {
                "type": "array",
                "items": {"type": "string", "pattern": _NAME},
                "minItems": 1,
                "maxItems": _MAX_DRAINED,
                "description": "Names of the nodes.",
            },
        },
        ("nodes",),
        lambda a: ["--", *a["nodes"]],
        action="drain",
    ),
    Tool(
        "find_plan",
        "Find a plan after which pods fit",
        "The fewest moves, evictions, nodes or the lower request after which pending pods, or those of a manifest, fit."
        " Also for a running pod whose resize is deferred. Each plan was simulated; nothing is changed.",
        "plan",
        {
            "brief": _BRIEF,
            "object": _OBJECT,
            "manifest": _MANIFEST,
            "namespace": _NAMESPACE,
            "max_steps": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Changes. Default: 5."},
        },
        (),
        lambda a: [*_options(a, "max_steps"), *_pod_or_workload(a)],
    ),
    Tool(
        "capacity",
        "How many more pods fit",
        "How many more pods like this one fit, by node and zone, and what runs out first. Nothing is created.",
        "capacity",
        {
            "brief": _BRIEF,
            "object": _OBJECT,
            "manifest": _MANIFEST,
            "namespace": _NAMESPACE,
            "scheduler": _SCHEDULER,
            "limit": {"type": "integer", "minimum": 1, "maximum": 100_000, "description": "Stop after so many pods."},
        },
        (),
        lambda a: [*_options(a, "limit", "scheduler"), *_pod_or_workload(a)],
    ),
    Tool(
        "list_node_groups",
        "List node groups",
        "The node groups of the cluster with their sizes and limits. With a pod: which of them would take it, and why"
        " not. No verdict says that an autoscaler will add a node.",
        "nodegroups",
        {"brief": _BRIEF, "pod": _string("Name of a pod without a node.", _NAME), "namespace": _NAMESPACE},
        (),
        lambda a: [*_options(a, "namespace"), *(["--", "pod", a["pod"]] if a.get("pod") else [])],
    ),
    Tool(
        "explain_plugin",
        "Explain a plugin or a reason",
        "What a scheduler plugin checks, which fields it reads, and how to help a pod that it rejects.",
        "explain",
        {"words": _string("Name of a plugin, or a sentence such as 'Insufficient cpu'. Default: the list of plugins.")},
        (),
        lambda a: ["--", a["words"]] if a.get("words") else [],
    ),
)
BY_NAME: Final = {tool.name: tool for tool in TOOLS}
