"""The screens that are one list: of clusters, of the newest decision about each pod, of plugins, of reasons.

Owns: the content of these screens. Does not own: what is listed (the decisions service, `commands`), drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herodotus_cli.render.formatting import format_age_or_time, format_feasible, title_of_times
from herodotus_cli.render.screen_elements import (
    Block,
    Cell,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
    labelled_rows,
)

if TYPE_CHECKING:
    from herodotus_answers.node_list import NodeSummaryList
    from herodotus_answers.plugin_reference import PluginExplanation, PluginExplanationList
    from herodotus_answers.reason_list import ReasonList
    from herodotus_answers.terms import TermExplanation

Json = dict[str, Any]
_ROOMY = 100  # columns of a terminal that hold the attempt and the number of feasible nodes too


def build_clusters(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen of `clusters`: a row for each cluster.

    SCHEDULERS counts the cluster's schedulers; with -o wide it names them. AGE is that of the cluster's latest record.
    """
    header = (
        "ID",
        "NAME",
        title_of_times(view),
        "MISSING",
        "SCHEDULERS",
        *(("RUNS", "EXPLAINED") if view.wide else ()),
    )
    return [build_table(header, [_cluster_row(cluster, view) for cluster in answer["items"]])]


def _cluster_row(cluster: Json, view: ViewOptions) -> list[str]:
    names = cluster["schedulers"]
    row = [
        cluster["metadata"]["name"],
        cluster["displayName"] or ("(own)" if cluster["own"] else "–"),
        format_age_or_time(cluster["lastSeenAt"], view),
        str(cluster["missing"]),
        (", ".join(names) or "–") if view.wide else str(len(names)),
    ]
    return [*row, str(cluster["incarnations"]), str(cluster["explainedByGaps"])] if view.wide else row


def build_pods(answer: Json, view: ViewOptions, namespace: str) -> list[Block]:
    """Return the blocks of the screen of `pod` without a name: a row for each pod.

    If `namespace` is empty, each row has the pod's namespace.
    """
    from herodotus_answers.pending import find_dominant_reason  # here, because no other list needs it

    roomy = view.width is None or view.width >= _ROOMY
    rows = []
    for decision in answer["items"]:
        spec, status = decision["spec"], decision["status"]
        pod = spec["pod"]
        name = pod["name"] if namespace else f"{pod['namespace']}/{pod['name']}"
        row = [name, format_age_or_time(spec["times"]["startedAt"], view), status["state"], status["node"] or "–"]
        if roomy:
            row += [str(spec["key"]["attempt"]), format_feasible(spec["snapshot"], "nodes")]
        rows.append([*row, find_dominant_reason(status["message"]) if status["message"] else ""])
    header = ["POD", "TRIED", "RESULT", "NODE", *(["ATTEMPT", "FIT"] if roomy else []), "REASON"]
    more = "… older decisions are not listed" if (answer.get("metadata") or {}).get("continue") else ""
    hint = "more: kubectl herodotus pod NAME (why)"
    return join_sections(
        [
            [build_table(header, rows, right=(4, 5) if roomy else ())],
            [] if view.piped or not view.headers else [TextLine(text, "dim") for text in (more, hint) if text],
        ]
    )


def build_plugin(answer: PluginExplanation, term: TermExplanation | None = None) -> list[Block]:
    """Return the blocks of the screen of `explain` about one plugin.

    `term` comes first: what the word means on screens, such as `unschedulable`, a queue and the code of a reason.
    """
    groups = {
        "READS": answer["fields"],
        "REASON": [reason["message"] for reason in answer["reasons"]],
        "FIX": answer["possibleChanges"],
        "MORE": [answer["documentation"]],
    }
    rows = [(label if i == 0 else "", text) for label, texts in groups.items() for i, text in enumerate(texts)]
    return join_sections(
        [
            build_term(term) if term else [],
            [TextLine(answer["metadata"]["name"], "strong"), TextLine(answer["checks"])],
            [labelled_rows(rows)],
        ]
    )


def build_term(answer: TermExplanation) -> list[Block]:
    """Return the blocks of the screen of `explain` about a word of the screens."""
    return [TextLine(f"{answer['metadata']['name']} ({answer['of']})", "strong"), TextLine(answer["meaning"])]


def build_plugins(answer: PluginExplanationList) -> list[Block]:
    """Return the blocks of the screen of `explain` that lists all plugins."""
    rows = [(plugin["metadata"]["name"], plugin["checks"]) for plugin in answer["items"]]
    return [build_table(("PLUGIN", "WHAT IT DOES"), rows)]


def build_reasons(answer: ReasonList) -> list[Block]:
    """Return the blocks of the screen of `explain reasons`."""
    rows = [(reason["code"], reason["plugin"] or "–", reason["sentence"]) for reason in answer["items"]]
    return [build_table(("CODE", "PLUGIN", "MESSAGE"), rows)]


def build_nodes(answer: NodeSummaryList, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen of `node` that lists all nodes."""
    rows: list[list[Cell | str]] = []
    for node in answer["items"]:
        cpu, memory = (
            next((a["text"] for a in node["amounts"] if a["resource"] == name), "–") for name in ("cpu", "memory")
        )
        others = [f"{a['resource']} {a['text']}" for a in node["amounts"][2:]]
        faults = [each.partition(" (")[0] for each in node.get("faults") or ()]
        signs = ["not ready"] * (not node["ready"]) + faults + ["cordoned"] * node["cordoned"] + node["taints"] + others
        pods = "–" if node["pods"] is None else str(node["pods"])
        share = f"{node['share']:.0%}" if "share" in node else "–"
        name = Cell(node["metadata"]["name"], "bad" if not node["ready"] or faults or node["cordoned"] else "")
        rows.append([name, node["zone"] or "–", pods, cpu, memory, share, ", ".join(signs) or "–"])
    header = ("NODE", "ZONE", "PODS", "CPU", "MEMORY", "FULL", "STATE")
    hints: list[Block] = [TextLine("more: kubectl herodotus node NODE (why it gets pods, or none)", "dim")]
    return join_sections([[build_table(header, rows, right=(2, 5))], [] if view.piped else hints])
