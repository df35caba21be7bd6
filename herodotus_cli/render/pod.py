"""The screen of `kubectl herodotus pod NAME`: PodExplanation or UndecidedPod -> blocks.

Owns: the content of the screen and its order: outcome, evidence, hints. Does not own: the tables
(`scores`, `rejections`), the screen about one node (`pod_on_node`), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herodotus_answers.live.objects import is_earlier_attempt
from herodotus_cli.render import formatting, inputs, rejections, scores, suggestions
from herodotus_cli.render import state as pod_state
from herodotus_cli.render.formatting import NOT_EVALUATED, NOT_KEPT, format_age, format_ago, format_time_until
from herodotus_cli.render.screen_elements import (
    Blank,
    Block,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    headline,
    is_labelled,
    join_sections,
    labelled_rows,
    merge_rows,
)
from herodotus_record.units import begin_sentence, join_limited, natural_sort_key, pluralize

Json = dict[str, Any]
_TIED_NAMED = 8
_MAX_PREFILTER_NODES = 8
_VICTIMS_NAMED = 4  # a line's worth
_DIFFERENCES_NAMED = 4
_DEVICES_NAMED = 8
_POD_GROUP = "PodGroup"  # phase that undoes a placement with the pod's group
_RUNNING = ("pod-running", "pod-resizing")  # states of pods whose place may be the question
_WITHOUT_NODE = ("pod-gated", "pod-not-tried", "pod-waits-for-node", "pod-waits-for-victims")
_BEYOND_CHANGES = ("pod-group-too-small", "pod-group-missing", "node-serverless")
_GONE = {"deleted": "deleted", "replaced": "replaced by another pod"}  # what became of the pod after the decision


def build_screen(
    answer: Json, view: ViewOptions, *, every_node: bool = False, live: Sequence[Sequence[Block]] = ()
) -> list[Block]:
    """Return the blocks of the screen that explains a pod's attempt. With `every_node`, each node has a row.

    `live` has the sections on what the API server says now. The state that the pod is really in comes first, if the
    answer has one; then nothing but the headline explains the place of a pod that does not run. The screen of a pod
    without a node has only as many rejected nodes, and groups of them, as fit the terminal; the largest group
    is always there, because it says why.
    """
    is_timeline = "timeline" in ((answer.get("live") or {}).get("state") or {})
    if is_timeline or not _is_short(answer, view, every_node=every_node):
        return join_sections(_build_sections(answer, view, live, every_node=every_node))
    from herodotus_cli.render.terminal import count_lines, fit_terminal  # here, because piped output needs no Rich

    blocks = _join_short(_build_sections(answer, view, live))
    groups = len(answer["rejections"])
    if not groups or count_lines(blocks, view) <= view.lines:
        return blocks
    return fit_terminal(lambda most: _join_short(_build_sections(answer, view, live, groups=most)), groups, 1, view)


def _join_short(sections: Sequence[Sequence[Block]]) -> list[Block]:
    """Return the blocks of all sections, with the labelled rows of all in one table, above the hint, which is last."""
    *sections, hint = (section for section in sections if section)
    rows = [block for section in sections for block in section if is_labelled(block, section)]
    others = [[block for block in section if not is_labelled(block, section)] for section in sections]
    return [*join_sections([*others, [merge_rows(rows)] if rows else []]), *hint]


def _build_sections(
    answer: Json,
    view: ViewOptions,
    live: Sequence[Sequence[Block]],
    *,
    every_node: bool = False,
    groups: int | None = None,
) -> list[Sequence[Block]]:
    """Return the sections of the screen, of which the last is the hint. `groups` limits those of rejected nodes."""
    now = (answer.get("live") or {}).get("state")
    evidence = build_evidence(answer, view, every_node=every_node, groups=groups)
    state, short = _state(answer, view), _state(answer, view, is_short=True)
    head: list[Block] = [SplitLine(describe_pod(answer), state, short=short)]
    head += [TextLine(f"{begin_sentence(sentence)}.") for sentence in (answer.get("live") or {}).get("end", ())]
    hints = _hints(answer, view, every_node=every_node)
    is_short = _is_short(answer, view, every_node=every_node)
    is_timeline = "timeline" in (now or {}) and not every_node
    if now is None or _is_explained_by_decision(now, answer, view):
        fixes = [] if is_timeline else suggestions.build_blocks(answer, view, is_short=is_short)
        timeline = pod_state.build_timeline(now, view) if now else []
        why: list[Sequence[Block]] = [[*head, *_headline(answer, view), *fixes], timeline]
        return why if is_timeline else [*why, *live, *evidence, hints]
    is_recorded = answer["attempt"]["source"] != "evaluated"
    is_explained = every_node or now["code"] in (*_WITHOUT_NODE, *_RUNNING)
    # an evaluation of now says nothing of a pod that has a node and does not run
    has_decision = not is_timeline and (is_explained or is_recorded)
    # a change for the scheduler's sake helps no pod that waits for something else
    is_advised = not is_timeline and now["code"] == "pod-waits-for-node" and not _is_beyond_changes(now)
    blocks = pod_state.build_blocks(
        now,
        view,
        decided=_decision_rows(answer, view) if has_decision else (),
        proposed=answer if is_advised else None,
        is_short=is_short,
    )
    first: list[Sequence[Block]] = [[*head, *blocks], pod_state.build_timeline(now, view)]
    return first if is_timeline else [*first, *live, *(evidence if is_explained else []), hints]


def _is_beyond_changes(state: Json) -> bool:
    """Return whether changes that let a pod pass the filters do not help it, or do harm.

    Its group lacks pods or does not exist, or its node only takes the pods for which a cloud made it.
    """
    return any(cause["code"] in _BEYOND_CHANGES for cause in state["causes"])


def _is_explained_by_decision(state: Json, answer: Json, view: ViewOptions) -> bool:
    """Return whether a pod without a node is only in the state that its last attempt explains."""
    from herodotus_answers.live.pods.pod_state import is_decision_enough  # here, because most answers have no state

    return answer["outcome"]["node"] is None and is_decision_enough(state, answer, view.now)  # type: ignore[arg-type]


def _decision_rows(answer: Json, view: ViewOptions) -> list[tuple[str, str]]:
    """Return the sentences on the decision as labelled rows below the headline of the pod's state."""
    label = "EVALUATED NOW" if answer["attempt"]["source"] == "evaluated" else "DECISION"
    texts = [block.text for block in _headline(answer, view, is_first=False) if isinstance(block, TextLine)]
    return [("" if number else label, text) for number, text in enumerate(texts)]


def build_evidence(
    answer: Json, view: ViewOptions, *, every_node: bool = False, groups: int | None = None
) -> list[list[Block]]:
    """Return the sections that explain the decision: scores, measurements, rejected nodes, and labelled notes.

    For a pod without a node, the message of the FailedScheduling event follows, unless the answer is for a terminal and
    short: it repeats in kube-scheduler's words what the screen says. `groups` limits the groups of rejected nodes, of
    which the first nodes are named then.
    """
    has_event = answer["outcome"]["node"] is None and not _is_short(answer, view, every_node=every_node)
    return [
        scores.build_blocks(answer, view, every_node=every_node),
        scores.build_reasons(answer, view),
        inputs.build_blocks(answer, _nodes_with_inputs(answer, view, every_node=every_node), view),
        _rejected(answer, view, every_node=every_node, groups=groups),
        rejections.build_verdict_matrix(answer, view) if every_node else [],
        [labelled_rows(notes)] if (notes := _notes(answer, view, every_node=every_node)) else [],
        _event(answer) if has_event else [],
    ]


def describe_pod(answer: Json) -> str:
    """Return a text with the name, namespace and owner of the pod that the answer document is about."""
    meta = answer["metadata"]
    group = answer["pod"].get("podGroup")
    parts = [
        f"{meta['name']} ({meta['namespace']})",
        answer["pod"]["owner"] or "",
        f"PodGroup/{group}" if group else "",
    ]
    return "  ".join(part for part in parts if part)


def _state(answer: Json, view: ViewOptions, *, is_short: bool = False) -> str:
    """Return a text on what became of the pod and when, such as `scheduled 5m ago, attempt 2`.

    If `is_short`, a pending pod's attempts and the age of the last one are in fewer words.
    """
    outcome, attempt = answer["outcome"], answer["attempt"]
    timestamp = outcome["phases"][-1]["at"] if outcome["phases"] else attempt["startedAt"]
    when = format_ago(timestamp, view)
    if attempt["source"] == "evaluated":
        pending = f"Pending {format_age(attempt.get('podCreatedAt'), view.now)}".rstrip()
        return f"{'on ' + outcome['node'] if outcome['state'] == 'Bound' else pending}, evaluated now"
    if outcome.get("lost"):
        state = f"decided {format_ago(attempt['startedAt'], view)}, result not recorded"
    else:
        state = {
            "Bound": f"scheduled {when}",
            "Binding": f"binding for {format_age(attempt['startedAt'], view.now)}",
            "DryRun": f"decided in a dry run {when}",
            "Failed": f"binding failed {when}",
            "Error": f"failed {when}",
        }.get(outcome["state"], "")
    gone = _GONE.get((answer.get("live") or {}).get("fate") or "", "")
    is_last = False
    if state:
        state += f", {gone} since" if gone else ""
    else:
        state = gone or f"Pending {format_age(attempt.get('podCreatedAt'), view.now)}".rstrip()
        is_last = is_short and not is_earlier_attempt(answer)
        state += "" if is_short else f", last tried {when}"
        if is_earlier_attempt(answer):
            state = f"found no node {when}"
    attempts = attempt.get("attempts") or 1
    if attempts > 1 and attempt.get("lastOrdinal") == attempts:
        return (
            f"{state}, last of {attempts} attempts {when}"
            if is_last and not gone
            else f"{state}, {attempts} attempts (--attempts)"
        )
    before = attempt.get("failedBefore") or 0
    failed = f" ({before} failed before: --attempts)" if before else ""
    return f"{state}, {formatting.attempt_label(attempt)}{failed}"


def _headline(answer: Json, view: ViewOptions, *, is_first: bool = True) -> list[Block]:
    """Return a line that sums up the decision, or two lines if what became of the pod differs from it.

    The line is not in colour unless it is the first of the screen, because the pod may be in another state.
    """
    outcome, text = answer["outcome"], answer["headline"]
    node = outcome["node"]
    first = ""
    if result := answer.get("groupHeadline"):
        first = f"Fits {node}, but waits for its pod group. {result}"
        return [headline(first, None), TextLine(text.replace(f"On {node}: ", f"Why {node}: ", 1))]
    if outcome.get("lost"):
        first = (
            f"Decided for {node}. Whether the pod was bound is not recorded, because the scheduler restarted."
            f" To see where it is: kubectl get pod {answer['metadata']['name']} -n {answer['metadata']['namespace']}"
        )
    elif outcome["state"] == "Binding" and answer["pod"].get("podGroup") and _is_waiting(outcome):
        first = f"Fits {node}, which is held for it: waits for its PodGroup {answer['pod']['podGroup']}"
        first += f" ({outcome['phases'][-1]['message']})" if outcome["phases"][-1]["message"] else ""
    elif outcome["state"] == "Binding":
        first = f"Decided for {node}, not bound yet: binding for {format_age(answer['attempt']['startedAt'], view.now)}"
        done = [phase["phase"] for phase in outcome["phases"] if phase["status"] == "Success"]
        first += f" ({', '.join(done)} done)" if done else ""
        last = outcome["phases"][-1:]
        first += f"; {last[0]['phase']}: {last[0]['message']}." if _is_waiting(outcome) else "."
    elif outcome["state"] == "DryRun":
        first = f"Decided for {node} in a dry run: not bound."
    elif outcome["state"] == "Failed":
        failed = next(p for p in reversed(outcome["phases"]) if p["status"] != "Success")
        if answer["attempt"]["source"] == "evaluated" and failed["phase"] != _POD_GROUP:
            return [headline(text, None) if is_first else TextLine(text)]
        first = f"Decided for {node}, but {failed['phase']} failed: {failed['message'] or failed['status']}"
    if not first:
        sign = "" if view.piped else "✓ " if node else "✗ "
        return [headline(sign + text, node) if is_first else TextLine(text)]
    if outcome["state"] == "Unschedulable" and node:
        undone = outcome["phases"][-1]["message"] if outcome["phases"] else ""
        first = f"Fits {node}, but its pod group was not placed: {undone}".removesuffix(": ")
    is_held = outcome["state"] == "Binding" and bool(answer["pod"].get("podGroup")) and _is_waiting(outcome)
    placed = node if outcome["state"] not in ("Failed", "Error", "Unschedulable") and not is_held else None
    return [headline(first, placed), TextLine(text.replace(f"On {node}: ", f"Why {node}: ", 1))]


def _is_waiting(outcome: Json) -> bool:
    """Return whether a Permit plugin asked to wait before the pod is bound."""
    return bool(outcome["phases"]) and outcome["phases"][-1]["status"] == "Wait"


def _nodes_with_inputs(answer: Json, view: ViewOptions, *, every_node: bool) -> Sequence[Json]:
    """Return the answer's entries of the nodes whose measurements are shown: the best, or all in a full view.

    Full views are `every_node` and -o wide.
    """
    if answer["ranking"]:
        return list(answer["ranking"] if every_node or view.wide else answer["ranking"][: inputs.NODES])
    return answer.get("perNode", []) if every_node or view.wide else []


def _rejected(answer: Json, view: ViewOptions, *, every_node: bool, groups: int | None) -> list[Block]:
    """Return a table of the rejected nodes grouped by reason and, with `every_node`, one with a row for each node.

    If no node was rejected, a line says so.
    """
    nodes = rejections.build_node_table(answer, view) if every_node else []
    if not answer["rejections"] and not every_node:
        return rejections.build_all_passed_line(answer)
    table = rejections.build_groups(answer, title="REJECTED", name_nodes=not nodes, most=groups)
    return [*table, *([Blank()] if table and nodes else []), *nodes]


def _notes(answer: Json, view: ViewOptions, *, every_node: bool) -> list[tuple[str, str]]:
    """Return (label, sentence) pairs on ties, PreFilter, preemption, requeueing, the next try and sources."""
    is_detailed = not _is_short(answer, view, every_node=every_node)
    place = (answer.get("live") or {}).get("place") or {}
    labelled = [
        ("TIE", _tie(answer, every_node=every_node)),
        *(("PREFILTER", f"{v['plugin']}: {', '.join(v['reasons']) or v['code']}") for v in answer["preFilters"]),
        ("PREFILTER", _prefilter_nodes(answer)),
        *(("SPREAD", each["text"]) for each in answer.get("spread") or ()),
        *(
            ("NOT EVALUATED", f"{pluralize(n, 'node')}: {NOT_EVALUATED.get(why, why)}")
            for why, n in answer["nodes"]["notEvaluated"].items()
        ),
        ("CONDITION", _condition(answer, view)),
        ("POD GROUP", _pod_group(answer)),
        *(("DEVICES", text) for text in _devices(answer)),
        *(("PREEMPTION", text) for text in _preemption(answer) if is_detailed or _has_victims(answer)),
        ("PREEMPTED", (answer.get("live") or {}).get("preempted", "")),
        ("EVICTED", _describe_room(answer, view)),
        ("REQUEUED BY", _requeued_by(answer["attempt"].get("requeuedBy")) if is_detailed else ""),
        ("NEXT TRY", _next_try(answer, view)),
        ("QUEUE", place.get("text", "") if is_detailed or place.get("neglected") else ""),
        *_origins(answer),
        ("ARCHIVE", f"decision of {answer['archive']['day']}" if "archive" in answer else ""),
        *(("NOTE", note) for note in (answer["notes"] if is_detailed else _omit_evaluated(answer["notes"]))),
    ]
    return [(label, text) for label, text in labelled if text]


def _omit_evaluated(notes: Sequence[str]) -> list[str]:
    """Return the notes without the one that the pod was evaluated, which the first line of the screen says."""
    if not notes:
        return []
    from herodotus_record.notes import CATALOGUE  # here, because most answers have no notes

    return [note for note in notes if note != CATALOGUE["evaluated"]]


def _is_short(answer: Json, view: ViewOptions, *, every_node: bool) -> bool:
    """Return whether to leave out what an operator seldom needs, so that a pod without a node fits one screen.

    Piped output, -o wide and --all have it.
    """
    return answer["outcome"]["node"] is None and not (view.piped or view.wide or every_node)


def _condition(answer: Json, view: ViewOptions) -> str:
    """Return what the pod's scheduler reported in the condition PodScheduled; "" if the screen says it elsewhere."""
    live = answer.get("live") or {}
    condition = live.get("condition")
    if not condition or "state" in live or condition["message"] in ("", answer["message"]):
        return ""
    when = f" {format_ago(condition['at'], view)}" if condition["at"] else ""  # of the status, not of the message
    return f"PodScheduled became {condition['status']}{when}, now {condition['reason']}: {condition['message']}"


def _pod_group(answer: Json) -> str:
    """Return a text on the pod's place in its group's cycle and how to see the group; "" if it belongs to none."""
    name, cycle = answer["pod"].get("podGroup"), answer["attempt"].get("podGroupCycle")
    if not name:
        return ""
    place = f"pod {cycle['position']} of {cycle['pods']} in the group's cycle: " if cycle else ""
    need = f"minCount {cycle['minCount']}; " if cycle and cycle["minCount"] else ""
    return f"{place}{need}kubectl herodotus podgroup {name} -n {answer['metadata']['namespace']}"


def _prefilter_nodes(answer: Json) -> str:
    """Return a text on which plugins limited the attempt to certain nodes, or "" if none did.

    The nodes are named if the answer has all of them, otherwise counted.
    """
    if not answer["restrictedBy"]:
        return ""
    rejected = [row["node"] for group in answer["rejections"] for row in group["nodes"]]
    nodes = sorted({*rejected, *(row["node"] for row in answer["ranking"])}, key=natural_sort_key)
    evaluated = answer["nodes"]["evaluated"]
    named = join_limited(nodes, _MAX_PREFILTER_NODES) if len(nodes) == evaluated else pluralize(evaluated or 0, "node")
    return f"{', '.join(answer['restrictedBy'])}: only {named}"


def _devices(answer: Json) -> list[str]:
    """Return a text on the devices of each claim, or one on where the devices are that a request could use."""
    shortage = answer.get("deviceShortage")
    if shortage:
        return [shortage["text"]]
    by_claim: dict[tuple[str, str, str], list[str]] = {}
    for each in answer.get("devices") or ():
        amounts = ", ".join(f"{amount} {name}" for name, amount in (each["consumedCapacity"] or {}).items())
        shown = f"{each['device']} ({amounts})" if amounts else each["device"]
        by_claim.setdefault((each["claim"], each["driver"], each["pool"]), []).append(shown)
    return [
        f"{claim}: {join_limited(devices, _DEVICES_NAMED)} of {driver}, pool {pool}"
        for (claim, driver, pool), devices in by_claim.items()
    ]


def _tie(answer: Json, *, every_node: bool) -> str:
    """Return a text on the equal nodes among which the chosen one was drawn at random, or "" if there was no tie."""
    tie = answer["tie"]
    if not tie:
        return ""
    nodes, unkept = tie["nodes"], tie.get("nodesOmitted", 0)
    named = ", ".join(nodes) if every_node else join_limited(nodes, _TIED_NAMED, "--all")
    if unkept:
        named = f"{named}, … {unkept} more: {NOT_KEPT}"
    return f"random choice among {pluralize(len(nodes) + unkept, 'equal node')} {_seed(tie)}: {named}"


def _seed(tie: Json) -> str:
    return "(the seed is not in the log)" if tie["seed"] is None else f"with seed {tie['seed']}"


def _has_victims(answer: Json) -> bool:
    """Return whether preemption evicts pods, or would."""
    return bool((answer.get("preemption") or {}).get("nominatedNode"))


def _preemption(answer: Json) -> list[str]:
    """Return sentences on which pods preemption evicts, or on why preemption does not help."""
    if _has_victims(answer):
        preemption = answer["preemption"]
        best = preemption["candidates"][0]
        victims = join_limited(best["victims"], _VICTIMS_NAMED, "-o json")
        refused = sum(bool(c.get("rejectedBy")) for c in preemption["candidates"])
        others = len(preemption["candidates"]) - refused + preemption["candidatesOmitted"] - 1
        verb = "evicted" if preemption["evicted"] else "dry run, nothing evicted; preemption would evict"
        if answer["attempt"]["source"] == "evaluated":  # nobody has acted on it
            verb = "the scheduler would evict"
        return [
            f"{verb} {victims} from {best['node']}"
            + (f", against {pluralize(best['pdbViolations'], 'disruption budget')}" if best["pdbViolations"] else "")
            + (f"; {pluralize(others, 'other node')} would work too" if others else "")
            + (f"; {pluralize(refused, 'node')} refused by an extender" if refused else ""),
            *(p["message"] for p in answer["outcome"]["phases"] if p["phase"] == "Evict" and p["status"] != "Success"),
        ]
    # DynamicResources' part of the message says nothing about pods without claims
    verdicts = [v for v in answer["postFilters"] if v["reasons"] != ["no new claims to deallocate"]]
    return [_explain_no_preemption(v, before_filters=bool(answer["preFilters"])) for v in verdicts]


def _describe_room(answer: Json, view: ViewOptions) -> str:
    """Return which pods an earlier attempt evicted to make room for the pod, and when; "" if none did."""
    entry = answer.get("madeRoom")
    if entry is None:
        return ""
    from herodotus_cli.render.preemptions import describe_victims  # here, because few pods preempt others

    return describe_victims(entry, view)


def _explain_no_preemption(verdict: Json, *, before_filters: bool) -> str:
    if before_filters and verdict["reasons"] == ["not found"]:  # kube-scheduler's words for a state that no node has
        return "not tried: the pod was rejected before any node was evaluated"
    return ", ".join(verdict["reasons"]).removeprefix("preemption: ") or str(verdict["code"])


def _requeued_by(event: Json | None) -> str:
    """Return the cluster event that requeued the pod, as `AssignedPodDelete (NodeResourcesFit)`; "" if unknown."""
    if not event:
        return ""
    return f"{event['event']} ({event['plugin']})" if event["plugin"] else str(event["event"])


def _next_try(answer: Json, view: ViewOptions) -> str:
    """Return when the scheduler tries the pod again, such as `in 8s`; "" if later attempts exist or it is unknown."""
    attempt = answer["attempt"]
    retry = attempt.get("retry")
    if not retry or is_earlier_attempt(answer):
        return ""
    earliest = format_time_until(retry["notBefore"], view.now)
    if retry["latest"] is None:
        return f"in {earliest}" if earliest else "as soon as the scheduler reaches it"
    latest = format_time_until(retry["latest"], view.now)
    if not latest:
        live = answer.get("live") or {}
        if (live.get("place") or {}).get("neglected"):
            return ""  # the line about the queue says it
        deleted = "" if live.get("fate") == "exists" else ", or the pod was deleted"
        return f"overdue: the scheduler does not run{deleted}"
    return f"on an event that may help{f', after {earliest}' if earliest else ''}, or in {latest}"


def _origins(answer: Json) -> list[tuple[str, str]]:
    """Return (label, sentence) pairs on a decision that an observer and a scheduler log recorded; [] for any other.

    The sentences say in what the two records differ.
    """
    origins = answer.get("origins")
    if not origins:
        return []
    differ = [f"{part['text']} ({part['overruled']})" for part in origins["parts"] if part["overruled"]]
    differences = f": it differs in {join_limited(differ, _DIFFERENCES_NAMED, '-o json')}" if differ else ""
    disagrees = answer["reconstruction"] and answer["reconstruction"]["agreement"] == "disagree"
    evaluated = (
        [("EVALUATED", origins["evaluation"])] if disagrees and origins["evaluation"] != answer["headline"] else []
    )
    return [("SOURCES", f"an observer and the scheduler's log, which takes precedence{differences}"), *evaluated]


def _event(answer: Json) -> list[Block]:
    """Return a line with the message of the FailedScheduling event, or [] if there is none."""
    return [TextLine(f"Event: {answer['summary']}")] if answer["summary"] else []


def _hints(answer: Json, view: ViewOptions, *, every_node: bool) -> list[Block]:
    """Return a line that names the options that show more; [] for piped output. What they show is left out first."""
    if view.piped:
        return []
    is_short = _is_short(answer, view, every_node=every_node)
    hints = {} if every_node else {"--all": "every node"}
    hints["--node NODE"] = "why or why not"
    if (answer["attempt"].get("attempts") or 1) > 1:
        hints["--attempts"] = "what changed"
    if "state" in (answer.get("live") or {}):
        hints["--timeline"] = "what happened"
    if not view.wide and (is_short or answer["scorePlugins"]):
        hints["-o wide"] = "all fixes with commands, holders, event" if is_short else "raw scores"
    if answer.get("suggestions") and answer["attempt"]["source"] != "evaluated":
        hints["plan pod"] = "fixes as of now"
    line = f"more: {', '.join(f'{option} ({what})' for option, what in hints.items())}"
    if view.width is not None and len(line) > view.width:
        line = f"more: {'  '.join(hints)}"
    return [TextLine(line, "dim")]


def build_undecided_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen of a pod without a decision, an UndecidedPod: its state, and what to do."""
    meta, live = answer["metadata"], answer.get("live") or {}
    name = "  ".join(part for part in (f"{meta['name']} ({meta['namespace']})", answer["owner"]) if part)
    created = f"created {format_ago(answer['createdAt'], view)}"
    created += ", never tried" if answer["schedulingGates"] else ""
    head: list[Block] = [SplitLine(name, created)]
    timeline: list[Block] = []
    if "state" in live:
        head += pod_state.build_blocks(live["state"], view)
        timeline = pod_state.build_timeline(live["state"], view)
    else:
        head.append(TextLine(answer["headline"], "strong"))
    changes = [("FIX" if i == 0 else "", change) for i, change in enumerate(answer["possibleChanges"])]
    head += [labelled_rows(changes)] if changes else []
    head += [labelled_rows([("PREEMPTED", live["preempted"])])] if live.get("preempted") else []
    notes: list[Block] = [TextLine(f"note: {note}", "dim") for note in answer["notes"]]
    return join_sections([head, timeline, build_queue(live["queue"]) if "queue" in live else [], notes])


def build_queue(queue: Json) -> list[Block]:
    """Return the section about the queue of Kueue or Volcano in which a pod waits, an answer of `batch_queues`.

    It has the object and its state, its place in the queue, the quota in use, and what is missing.
    """
    blocks: list[Block] = []
    if queue["state"]:
        needs = f", needs {queue['minMember']} pods" if queue.get("minMember") else ""
        state = f"{queue['by']} {queue['object']}: {queue['state']}{needs}"
        blocks.append(TextLine(state, "strong"))
    rows = [("QUEUE", _describe_queue(queue)), ("POSITION", _describe_position(queue)), ("MESSAGE", queue["message"])]
    if any(text for _, text in rows):
        blocks.append(labelled_rows([(label, text) for label, text in rows if text]))
    if queue["quota"]:
        cells = [
            (row["resource"], row["used"] or "–", row["limit"] or "–", row["flavor"] or "–") for row in queue["quota"]
        ]
        blocks.append(build_table(("QUOTA", "USED", "LIMIT", "FLAVOR"), cells, right=(1, 2)))
    return [*blocks, *(TextLine(f"note: {note}", "dim") for note in queue["notes"])]


def _describe_queue(queue: Json) -> str:
    names = {"LocalQueue": queue["localQueue"], "ClusterQueue" if queue["by"] == "Kueue" else "Queue": queue["queue"]}
    return ", ".join(f"{kind} {name}" for kind, name in names.items() if name)


def _describe_position(queue: Json) -> str:
    if queue["position"] is not None:
        return f"{queue['position']} of {queue['waiting']} that wait in the LocalQueue"
    return f"{queue['waiting']} groups wait in the queue" if queue["waiting"] is not None else ""
