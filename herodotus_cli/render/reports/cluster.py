"""The section of a report on the cluster when the report was made: sums, versions, and a row for each node.

Owns: the content of the section. Does not own: reading the nodes (`commands.node`), the syntax of a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from herodotus_cli.render import lists
from herodotus_cli.render.reports import Section
from herodotus_cli.render.screen_elements import Block, TextLine, ViewOptions, labelled_rows
from herodotus_record.units import format_available, format_percent, format_requested, natural_sort_key, pluralize

if TYPE_CHECKING:
    from herodotus_answers.node_list import NodeSummary, NodeSummaryList

TITLE: Final = "The cluster when this report was made"
_NODES: Final = 50  # rows; the nodes that the report names come first, then the fullest
_ALWAYS: Final = ("cpu", "memory")


def build_section(nodes: NodeSummaryList, server: str, named: Collection[str], view: ViewOptions) -> Section:
    """Return the section about all nodes. `server` is the API server's version, "" if that is not known.

    At most _NODES nodes have a row: first those in `named`, the words of the report, then those with the largest share
    of requests.
    """
    every = nodes["items"]
    shown = sorted(every, key=lambda node: (node["metadata"]["name"] not in named, -node.get("share", 0)))[:_NODES]
    shown.sort(key=lambda node: natural_sort_key(node["metadata"]["name"]))
    table = [block for block in lists.build_nodes({**nodes, "items": shown}, view._replace(width=None)) if block]
    left = len(every) - len(shown)
    more: list[Block] = [TextLine(f"… {pluralize(left, 'other node')}", "dim")] if left else []
    rows = [("NODES", _count_nodes(every)), ("PODS", _count_pods(every))]
    rows += [("REQUESTS", text) for text in [_sum_requests(every)] if text]
    rows.append(("VERSIONS", _list_versions(every, server)))
    return Section(TITLE, [labelled_rows(rows), *table, *more])


def build_unread_section(why: str) -> Section:
    """Return the section where the nodes could not be read."""
    return Section(TITLE, [TextLine(f"The nodes are not shown: {why}", "dim")])


def _count_nodes(nodes: Sequence[NodeSummary]) -> str:
    states = {
        "cordoned": sum(node["cordoned"] for node in nodes),
        "not ready": sum(not node["ready"] for node in nodes),
        "tainted": sum(bool(node["taints"]) for node in nodes),
    }
    return ", ".join([str(len(nodes)), *(f"{count} {state}" for state, count in states.items() if count)])


def _count_pods(nodes: Sequence[NodeSummary]) -> str:
    counts = [node["pods"] for node in nodes]
    known = [count for count in counts if count is not None]
    return f"{sum(known)} on nodes" if len(known) == len(counts) else "not known: pods cannot be read"


def _sum_requests(nodes: Sequence[NodeSummary]) -> str:
    """Return what pods request of each resource and what the nodes have; "" if requests are not known."""
    has, requested = Counter[str](), Counter[str]()
    for node in nodes:
        for amount in node["amounts"]:
            if amount["requested"] is None:
                return ""
            has[amount["resource"]] += amount["allocatable"]
            requested[amount["resource"]] += amount["requested"]
    resources = sorted(has, key=lambda name: (name not in _ALWAYS, name))
    return "; ".join(
        f"{name} {format_requested(name, requested[name])} of {format_available(name, has[name])}"
        f" ({format_percent(requested[name] / has[name])})"
        for name in resources
        if has[name]
    )


def _list_versions(nodes: Sequence[NodeSummary], server: str) -> str:
    kubelets = Counter(node["version"] for node in nodes if node["version"])
    texts = [f"kube-apiserver {server}"] * bool(server)
    texts += [f"kubelet {version} on {pluralize(count, 'node')}" for version, count in sorted(kubelets.items())]
    return ", ".join(texts)
