"""`kubectl herodotus pod [NAME]`: what happened to a pod, and why; without NAME the newest decision about each pod.

Owns: its options, its requests, also those to the API server for what no record holds, hints for a missing answer. Does
not own: the screens.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from herodotus_cli import (
    completion_values,
    node_groups,
    not_found,
    object_names,
    option_values,
    options,
    parameter_types,
)
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment, Json, environment_of
from herodotus_cli.errors import CliError, ServerError, print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import BRIEF, is_document
from herodotus_cli.sorting import SortKey, sort_option, sort_rows
from herodotus_cli.transport.api_server_queries import LivePodQuery, PodLookup
from herodotus_client import api_paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import BatchQueue, LivePod, LiveState, QueuePlace
    from herodotus_answers.live.pods.holders import HeldObject, Holders
    from herodotus_answers.node_groups import EventReport, PodNodeGroups
    from herodotus_cli.render.screen_elements import Block, ViewOptions
    from herodotus_cli.transport.api_server_queries import NodePodsQuery
    from herodotus_cli.transport.kubectl import KubectlTransport

_FATE_NOTES = {
    "deleted": "note: this pod no longer exists: it was deleted after this decision",
    "replaced": "note: this is an earlier pod of that name; the pod that exists now has no decision yet",
}
SORT_KEYS = {
    "name": SortKey(("spec", "pod", "name")),
    "namespace": SortKey(("spec", "pod", "namespace")),
    "tried": SortKey(("spec", "times", "startedAt")),
    "result": SortKey(("status", "state")),
    "node": SortKey(("status", "node")),
    "attempt": SortKey(("spec", "key", "attempt"), largest_first=True),
}
_LIST_LIMIT = 500  # the largest page that the service returns
_EARLIER_NOTE = "note: an earlier pod of that name was decided (--attempts)"
_NO_TIMELINE = "error: the timeline is read from the API server, where this pod does not exist or cannot be read"
_NOT_WAITING = "error: --node-groups is about a pod that waits for a node, and this one does not"
_OPTIONS_OF_ONE_POD = {
    "attempt": "--attempt",
    "history": "--attempts",
    "timeline": "--timeline",
    "every_node": "--all",
    "node": "--node",
    "node_groups": "--node-groups",
}


class PodArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus pod`.

    If `namespace` is empty, that of the kubeconfig's current context is used. `attempt` is None for the last attempt,
    `every_node` is --all, `history` is --attempts, and `timeline` is --timeline. `groups` is the question of
    --node-groups, or None.
    """

    name: str
    namespace: str
    attempt: int | None
    every_node: bool
    node: str
    full: bool
    history: bool
    groups: Json | None = None
    timeline: bool = False


@options.command(short_help="Explain why a pod is on its node, waits, or does not run.")
@click.argument("name", metavar="[POD]", required=False, shell_complete=completion_values.pods)
@options.namespaces_options
@options.selector_option
@sort_option(SORT_KEYS, "the newest first", "Without POD: ")
@click.option(
    "--attempt", type=parameter_types.WholeNumber(min=1), metavar="N", help="The pod's Nth attempt [the last one]."
)
@click.option("--attempts", "history", is_flag=True, help="All attempts, and what changed between them.")
@click.option("--timeline", is_flag=True, help="What happened to the pod, from its owner's creation to its end.")
@click.option("--all", "every_node", is_flag=True, help="All nodes with the verdict of every filter and every score.")
@click.option(
    "--node",
    "node",
    metavar="NODE",
    default="",
    shell_complete=completion_values.nodes,
    help="Why or why not this node, and what would have to change.",
)
@click.option("--node-groups", is_flag=True, help="For a pending pod: which node groups would take it, and why not.")
@node_groups.node_group_options
@options.watch_option
@options.output_options
@click.option(
    "--full",
    is_flag=True,
    help="With -o json or yaml: the full record; without POD, those of all listed decisions, one after the other.",
)
@options.connection_options
@click.pass_context
def pod(ctx: click.Context, /, name: str | None, full: bool, **_given: object) -> None:
    """Explain why a pod is on its node, why it is Pending, or why it does not run.

    POD is NAME, pod/NAME or NAMESPACE/NAME. Shows the state that the pod is in and who has to act, if it does not run
    well, then the last scheduling attempt: the node and what decided for it, the scores of the best nodes, and why the
    others were rejected. Without POD, lists the newest decision about each pod; with --full, exports the full records
    of the newest 500 decisions, oldest first, one line of JSON each, as far as you may read them.

    \b
    kubectl herodotus pod -n shop -l app=checkout
    kubectl herodotus pod checkout-7d9f-x2k -n shop
    kubectl herodotus pod payments-0 --node worker-3
    kubectl herodotus pod payments-0 --node-groups
    kubectl herodotus pod payments-0 --attempts
    kubectl herodotus pod payments-0 --timeline
    kubectl herodotus pod payments-0 --all -o json
    kubectl herodotus pod -n shop --full -o json > decisions.jsonl
    """
    output, environment = option_values.output_options(ctx), environment_of(ctx)
    if full and not is_document(output.format):
        raise click.UsageError("--full needs -o json, yaml or a template")
    if not name:
        _list(ctx, output, environment)
        return
    if ctx.params["all_namespaces"]:
        raise click.UsageError("a pod cannot be retrieved by name across all namespaces: leave out -A or POD")
    if ctx.params["selector"]:
        raise click.UsageError("name cannot be provided when a selector is specified: leave out -l or POD")
    if ctx.params["sort_key"]:
        raise click.UsageError("--sort-by is for the list of pods: leave out POD")
    if full and (ctx.params["every_node"] or ctx.params["node"]):
        raise click.UsageError("--full prints the full record: leave out --all and --node")
    if output.watch and ctx.params["attempt"]:
        raise click.UsageError("--watch follows new attempts: leave out --attempt")
    narrowed = [ctx.params[name] not in (None, False, "") for name in ("attempt", "every_node", "node")]
    if ctx.params["history"] and (full or any(narrowed)):
        raise click.UsageError("--attempts excludes other selections: leave out --attempt, --all, --node and --full")
    if ctx.params["timeline"] and (
        ctx.params["history"] or ctx.params["node_groups"] or full or ctx.params["attempt"] or ctx.params["node"]
    ):
        raise click.UsageError("--timeline excludes --attempt, --attempts, --node, --node-groups and --full")
    has_shapes = bool(ctx.params["shapes_file"] or ctx.params["label_keys"])
    if ctx.params["node_groups"] and (ctx.params["history"] or full or any(narrowed)):
        raise click.UsageError("--node-groups excludes --attempt, --attempts, --all, --node and --full")
    if has_shapes and not ctx.params["node_groups"]:
        raise click.UsageError("--node-groups-file and --label-key go with --node-groups")
    option = option_values.namespace(ctx)
    named = object_names.parse_pod(name, option)
    arguments = PodArguments(
        name=named.name,
        namespace=object_names.choose_namespace(option, named),
        attempt=ctx.params["attempt"],
        every_node=ctx.params["every_node"],
        node=object_names.parse_name("node", ctx.params["node"]) if ctx.params["node"] else "",
        full=full,
        history=ctx.params["history"],
        groups=node_groups.build_question(ctx.params) if ctx.params["node_groups"] else None,
        timeline=ctx.params["timeline"],
    )
    run(arguments, option_values.connection_settings(ctx, environment.environ), output, environment)


def _list(ctx: click.Context, output: OutputOptions, environment: Environment) -> None:
    """Print the newest decision about each pod. Raises UsageError for an option that needs a pod."""
    chosen = [name for name in _OPTIONS_OF_ONE_POD if ctx.params[name] not in (None, False, "")]
    if chosen:
        raise click.UsageError(f"{_OPTIONS_OF_ONE_POD[chosen[0]]} needs the name of a pod")
    namespace = "" if option_values.all_namespaces(ctx) else option_values.namespace(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    if not ctx.params["all_namespaces"]:
        namespace = environment.resolve_namespace(namespace, connection)
    selector = api_paths.DecisionSelector(labels=ctx.params["selector"])
    if ctx.params["full"]:
        _export(namespace, selector, connection, output, environment)
        return
    once = partial(_list_once, namespace, selector, ctx.params["sort_key"], connection, output)
    environment.run_or_watch(once, connection, output, namespace, selector)


def keep_newest_per_pod(decisions: Json) -> Json:
    """Return a DecisionList, which is sorted from new to old, with only the first decision about each pod."""
    newest: dict[str, Json] = {}
    for decision in decisions["items"]:
        newest.setdefault(str(decision["spec"]["pod"]["uid"]), decision)
    return decisions | {"items": list(newest.values())}


def _list_once(
    namespace: str,
    selector: api_paths.DecisionSelector,
    sort_key: SortKey | None,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    """Print the newest decision about each pod. If `namespace` is empty, all namespaces count."""
    path = api_paths.decisions(namespace, selector=selector, limit=_LIST_LIMIT)
    answer = keep_newest_per_pod(environment.fetch(connection, path, output, "lists"))
    if not answer["items"] and not is_document(output.format):
        print_to_stderr(f"No decisions found{f' in {namespace} namespace; every namespace: -A' if namespace else ''}.")
        return
    if sort_key:
        answer["items"] = sort_rows(answer["items"], sort_key)
    from herodotus_cli.render import lists

    environment.print_answer(answer, output, lambda view: lists.build_pods(answer, view, namespace))


def _export(
    namespace: str,
    selector: api_paths.DecisionSelector,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    """Print the full records of the newest decisions, oldest first. If `namespace` is empty, all namespaces count.

    Each record is requested alone, so what the reader may not see is masked, and none is kept in memory.
    """
    path = api_paths.decisions(namespace, selector=selector, limit=_LIST_LIMIT)
    listed = environment.fetch(connection, path, output)
    for decision in reversed(listed["items"]):
        of = decision["metadata"]
        record = environment.fetch(connection, api_paths.decision(of["namespace"], of["name"]), output)
        environment.out.write(environment.format_document(record, output, of_stream=True))
    if listed["metadata"].get("continue"):
        print_to_stderr(f"note: these are the newest {len(listed['items'])} decisions; choose others with -n or -l")


def run(
    arguments: PodArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch what happened to a pod and print it. With --watch, repeat it on every new decision about the pod."""
    namespace = environment.resolve_namespace(arguments.namespace, connection)
    selector = api_paths.DecisionSelector(f"spec.pod={arguments.name}")
    once = partial(_once, arguments, namespace, connection, output)
    environment.run_or_watch(once, connection, output, namespace, selector)


def _once(
    arguments: PodArguments,
    namespace: str,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    if arguments.history:
        path = api_paths.pod_history(namespace, arguments.name)
    elif arguments.full:
        path = api_paths.decision(namespace, arguments.name, attempt=arguments.attempt)
    else:
        path = api_paths.pod_explanation(
            namespace,
            arguments.name,
            attempt=arguments.attempt,
            every_node=arguments.every_node,
            node=arguments.node,
        )
    screen = "attempts" if arguments.history else "pod_on_node" if arguments.node else "pod"
    undecided = PodLookup()

    def answer_undecided(pod: Json, error: CliError) -> Json:
        nonlocal undecided
        if (arguments.history or arguments.attempt) and not isinstance(error, ServerError):
            raise error  # past attempts are asked for, which local mode has none of
        undecided = PodLookup(True, pod)
        return _answer_undecided(request, output, pod, error)

    request = not_found.PodRequest(arguments.name, namespace, connection, environment)
    with _live_pod(arguments, connection, output, environment, namespace) as query:
        ask = partial(environment.fetch, connection, path, output, screen)
        answer = not_found.fetch_pod_answer(ask, request, answer_undecided)
        lookup = undecided if undecided.pod else query.lookup()
    if not arguments.full:
        from herodotus_answers.live.objects import add_live

        if output.format == BRIEF or not is_document(output.format):  # any other document is that of the service
            answer = _add_group_result(answer, connection, environment)
            answer = _correct_suggestions(answer, lookup, arguments, connection, environment)
        answer = add_live(answer, _read_live(answer, lookup, arguments, connection, output, environment))
    _show(answer, arguments, connection, output, environment)


def _correct_suggestions(
    answer: Json, lookup: PodLookup, arguments: PodArguments, connection: ConnectionSettings, environment: Environment
) -> Json:
    """Return the explanation with suggestions that fit the template of the pod that it is about, if that one waits.

    To go back to the previous template is one of them where a rollout made the pod. An answer about one node has none.
    """
    pod = lookup.pod or {}
    is_waiting = pod.get("kind") == "Pod" and not pod["spec"].get("nodeName")
    if answer["kind"] != "PodExplanation" or answer["outcome"]["node"] is not None or arguments.node or not is_waiting:
        return answer
    if pod["metadata"].get("uid") != answer["metadata"].get("uid"):
        return answer
    from herodotus_answers.live.pods.template_overrides import correct_suggestions  # here, because most pods are placed
    from herodotus_answers.live.workloads.workload_pods import add_undo
    from herodotus_cli.transport import open_objects

    objects = open_objects(connection, environment.environ)
    return add_undo(correct_suggestions(answer, pod, objects), pod, objects, environment.now())


def _add_group_result(answer: Json, connection: ConnectionSettings, environment: Environment) -> Json:
    """Return the explanation, with the group's headline if the attempt found a node and the pod waits for its group."""
    group = (answer.get("pod") or {}).get("podGroup")  # an unknown document may lack it
    if answer["kind"] != "PodExplanation" or not group or answer["attempt"]["source"] == "evaluated":
        return answer
    outcome, meta = answer["outcome"], answer["metadata"]
    if outcome["node"] is None or outcome["state"] not in ("Unschedulable", "Binding"):
        return answer
    from herodotus_cli.transport import connect

    try:
        result = connect(connection, environment.environ).get(api_paths.pod_group_placement(meta["namespace"], group))
    except CliError:
        return answer
    return answer if result["state"] in ("Scheduled", "Fits") else answer | {"groupHeadline": result["headline"]}


def _read_live(
    answer: Json,
    lookup: PodLookup,
    arguments: PodArguments,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> LivePod | None:
    """Return what the API server and a running scheduler know now about the pod, or None if nothing.

    Raises CliError if --node-groups has no answer.
    """
    from herodotus_answers.live import objects as live_objects

    at = environment.now()
    fate = live_objects.find_fate(answer["metadata"].get("uid"), lookup.pod) if lookup.known else None
    is_explanation = answer["kind"] == "PodExplanation"
    replaced_by = queue = groups = None
    is_pod = lookup.pod is not None and lookup.pod.get("kind") == "Pod"
    if fate == "replaced" and lookup.pod and is_pod and is_explanation:
        from herodotus_answers import unrecorded  # here, because few pods are replaced

        replaced_by = unrecorded.build_undecided(lookup.pod)
    is_undecided = replaced_by is not None or answer["kind"] == "UndecidedPod"
    state, place, preempted, end = None, None, "", list[str]()
    reports: list[EventReport] = []
    if lookup.pod and (is_undecided or (is_explanation and fate not in live_objects.FATES_WITHOUT_POD)):
        queue = _read_queue(lookup.pod, connection, environment)
        is_recorded = is_explanation and answer["attempt"]["source"] != "evaluated"
        is_enough = is_recorded and not arguments.timeline and live_objects.is_running_well(lookup.pod)
        if is_pod and not is_enough and (is_undecided or not arguments.node):  # --node is about the decision
            from herodotus_answers.live.workloads.deletions import describe_preempted
            from herodotus_cli.transport import open_objects

            objects = open_objects(connection, environment.environ)  # each object is read once for the answer
            attempts = partial(_read_attempts, lookup.pod["metadata"], connection, environment)
            state = _read_state(
                lookup.pod, {} if is_undecided else answer, at, objects, attempts if arguments.timeline else None
            )
            reports = _read_reports(lookup.pod, objects)
            preempted = describe_preempted(lookup.pod, objects, at)
            place = None if is_undecided else _find_place(lookup.pod, answer, at, objects)
    if is_explanation and fate in live_objects.FATES_WITHOUT_POD and not arguments.node:
        from herodotus_answers.live.workloads.deletions import describe_end  # here, because few pods are gone
        from herodotus_cli.transport import open_objects

        objects = open_objects(connection, environment.environ)
        is_told = answer["outcome"]["node"] is None or answer.get("preemptedBy")
        end = [] if is_told else describe_end(answer, objects, at)
        if arguments.timeline:
            from herodotus_answers.live.pods.pod_timeline import build_timeline_of_gone

            state = build_timeline_of_gone(answer, objects, _read_attempts(answer["metadata"], connection, environment))
            replaced_by = None
    if arguments.timeline and not arguments.every_node and state is None:
        raise CliError(_NO_TIMELINE, ["the attempts that were recorded: --attempts"])
    if is_undecided or fate not in live_objects.FATES_WITHOUT_POD:
        groups = _ask_about_groups(answer, arguments, connection, output, environment, is_reported=bool(reports))
    elif arguments.groups is not None:
        raise CliError(_NOT_WAITING)
    return live_objects.build_live_pod(
        at,
        fate,
        was_read=lookup.known,
        pod=lookup.pod,
        state=state,
        replaced_by=replaced_by,
        place=place,
        queue=queue,
        node_groups=groups,
        reports=reports,
        preempted=preempted,
        end=end,
    )


def _read_state(
    pod: Json, answer: Json, now: datetime, objects: ClusterObjects, attempts: Callable[[], list[Json]] | None
) -> LiveState | None:
    """Return the pod's real state, or None if the explanation of its decision, `answer`, says the same.

    With `attempts`, which returns the recorded attempts, always return the state, with its timeline.
    """
    from herodotus_answers.live.pods.pod_state import (  # here: most pods run well
        add_resizes,
        find_state,
        is_decision_enough,
    )

    state = find_state(pod, objects, now)
    if answer:
        add_resizes(state, answer, objects, now)
    if attempts is not None:
        from herodotus_answers.live.pods.pod_timeline import build_timeline  # here, because few answers have a timeline

        state["timeline"], state["unread"] = build_timeline(pod, objects, attempts()), list(objects.unread)
        return state
    return None if answer and is_decision_enough(state, answer, now) else state


def _read_reports(pod: Json, objects: ClusterObjects) -> list[EventReport]:
    """Return the autoscalers' events about a pod without a node, and about the NodeClaims that these events name.

    The result is [] if the pod has a node, or if events cannot be read.
    """
    if pod["spec"].get("nodeName"):
        return []
    from herodotus_answers.live.cluster_objects import read_event_time  # here, because most pods have a node
    from herodotus_answers.node_groups import find_node_claims, list_autoscaler_reports

    events = objects.list_events({**pod, "kind": "Pod"})
    for name in find_node_claims(list_autoscaler_reports(events)):
        events += objects.list_events({"kind": "NodeClaim", "metadata": {"name": name}})
    return list_autoscaler_reports(sorted(events, key=read_event_time))


def _find_place(pod: Json, answer: Json, now: datetime, objects: ClusterObjects) -> QueuePlace | None:
    """Return the place of a pod that waits for a node in its scheduler's queue, or None if it does not wait there."""
    if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates") or answer["outcome"]["node"] is not None:
        return None
    from herodotus_answers.live.pods.queue_place import find_place  # here, because most pods have a node

    return find_place(pod, answer["attempt"], objects, now)


def _read_attempts(meta: Json, connection: ConnectionSettings, environment: Environment) -> list[Json]:
    """Return the recorded attempts at the pod with this metadata; [] if there are none, as always in local mode."""
    from herodotus_cli.transport import connect

    try:
        history = connect(connection, environment.environ).get(api_paths.pod_history(meta["namespace"], meta["name"]))
    except CliError:
        return []
    return list(history["attempts"]) if history["metadata"].get("uid") == meta["uid"] else []


def _read_queue(pod: Json, connection: ConnectionSettings, environment: Environment) -> BatchQueue | None:
    """Return the queue of a pod that waits for Kueue or Volcano, else None."""
    from herodotus_cli import batch_queues  # here, because most pods wait for neither
    from herodotus_cli.transport.kubectl import KubectlTransport

    if not connection.reaches_cluster or (pod.get("spec") or {}).get("nodeName"):
        return None
    return batch_queues.read_queue(pod, KubectlTransport(connection, environment.environ).get_from_api_server)


def _ask_about_groups(
    answer: Json,
    arguments: PodArguments,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
    *,
    is_reported: bool,
) -> PodNodeGroups | None:
    """Return the verdicts of the node groups on a pod without a node, or None if they are not asked for.

    They are asked for with --node-groups, by the screen of local mode, which has read the cluster already, and if an
    autoscaler reported about the pod (`is_reported`), because no record says what stops its groups. Otherwise the
    screen shows those that the record has. Raises CliError if --node-groups has no answer.
    """
    has_screen = output.format in SCREEN_FORMATS and not (arguments.attempt or arguments.node or arguments.history)
    if arguments.groups is None and (not has_screen or _needs_present_node(answer)):
        return None
    outcome, attempt = answer.get("outcome") or {}, answer.get("attempt") or {}  # an unknown document may lack them
    is_pending = answer["kind"] == "PodExplanation" and outcome.get("node", "") is None
    is_evaluated = attempt.get("source") == "evaluated"
    if arguments.groups is not None and not is_pending:
        raise CliError(_NOT_WAITING)
    is_useful = is_evaluated or (is_reported and not answer.get("nodeGroups"))
    if arguments.groups is None and not (is_pending and is_useful):
        return None
    meta = answer["metadata"]
    question = (arguments.groups or {}) | {"pods": [f"{meta['namespace']}/{meta['name']}"]}
    try:
        return node_groups.ask_about_pod(question, connection, environment, local=is_evaluated)
    except CliError:
        if arguments.groups is not None:
            raise
        return None


def _live_pod(
    arguments: PodArguments,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
    namespace: str,
) -> LivePodQuery:
    """Start a request to the API server for the Pod that has this name now, to see if it was deleted or replaced.

    It runs beside the request to the decisions service. Return a query without a result if kubectl is not used, if an
    attempt was named, or if the output is a name or the full record.
    """
    is_shown = output.format != "name" and not arguments.full
    if not connection.reaches_cluster or arguments.attempt is not None or not is_shown:
        return LivePodQuery()
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, environment.environ).live_pod(namespace, arguments.name)


def _read_live_facts(
    answer: Json,
    arguments: PodArguments,
    connection: ConnectionSettings,
    environment: Environment,
) -> LiveFacts | None:
    """Return what no record holds about a pending pod, or None.

    It is None for a pod with a node, if the cluster's API server is not reached, and if an attempt is named.
    """
    if not connection.reaches_cluster or arguments.attempt is not None:
        return None
    if answer["kind"] != "PodExplanation" or answer["outcome"]["node"] is not None:
        return None
    from herodotus_cli.transport.kubectl import KubectlTransport

    return read_live_facts(answer, KubectlTransport(connection, environment.environ))


class LiveFacts(NamedTuple):
    """What the API server says about a pending pod that no record holds.

    `missing` has the rights for suggestions that the user lacks, `holders` the pods that hold what the pod lacks, or
    the object whose holders may not be listed.
    """

    missing: list[Json]
    holders: Holders | HeldObject | None

    def build(self, *, is_short: bool = False) -> list[list[Block]]:
        """Return the sections of the screen."""
        from herodotus_answers.live.pods.holders import Holders
        from herodotus_cli.render import suggestions
        from herodotus_cli.render.screen_elements import TextLine

        held: list[Block] = []
        if isinstance(self.holders, Holders):
            held = suggestions.build_holders(self.holders, is_short=is_short)
        elif self.holders is not None:
            what, why = ", ".join(self.holders.names), "you may not list pods in all namespaces"
            held = [TextLine(f"Who holds {what} on {self.holders.node} is not shown: {why}.", "dim")]
        return [section for section in (suggestions.build_missing_rights(self.missing), held) if section]


def read_live_facts(answer: Json, transport: KubectlTransport) -> LiveFacts | None:
    """Return the answers of the API server about a pending pod to requests, all at once; None if there are none.

    Everything is read with the user's rights. A request that fails leaves its part out.
    """
    from contextlib import ExitStack  # here and below, because most pods are placed

    from herodotus_answers.live.pods.holders import find_held

    held = find_held(answer)
    needed = [right for suggestion in answer.get("suggestions") or () for right in suggestion["rights"]]
    if held is None and not needed:
        return None
    with ExitStack() as running:
        rights = running.enter_context(transport.rights(answer["metadata"]["namespace"])) if needed else None
        pods = running.enter_context(transport.pods_on_node(held.node)) if held else None
        missing = rights.find_missing(needed) if rights else []
        return LiveFacts(missing, _read_holders(held, pods) if held and pods else None)


def _read_holders(held: HeldObject, query: NodePodsQuery) -> Holders | HeldObject | None:
    """Return the holders, the object itself if the user may not list them, or None if the request failed."""
    from herodotus_answers.live.pods.holders import find_holders

    pods = query.pods()
    if pods is not None:
        return find_holders(held, pods)
    return held if query.is_forbidden else None


def _show(
    answer: Json,
    arguments: PodArguments,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    if output.format not in SCREEN_FORMATS:
        environment.print_answer(answer, output, lambda _view: [])
        return
    from herodotus_answers.live.objects import drop_advice, get_fate, withdraw_placement
    from herodotus_cli.render.screen_elements import TextLine

    fate = get_fate(answer)
    live = answer.get("live") or {}
    if "replacedBy" in live:
        print_to_stderr(_EARLIER_NOTE)
        answer, fate = live["replacedBy"] | {"live": live}, ""
    facts = None if fate else _read_live_facts(answer, arguments, connection, environment)

    def screen(view: ViewOptions) -> list[Block]:
        is_short = not (view.piped or view.wide or arguments.every_node or arguments.node)
        sections = facts.build(is_short=is_short) if facts else []
        note: list[Block] = [TextLine(_FATE_NOTES[fate])] if fate else []
        preemption = answer.get("preemptedBy")
        if preemption and (fate or preemption["evicted"]):  # the observer's evaluation alone may err
            from herodotus_cli.render.preemptions import describe_eviction  # here, because few pods are evicted

            note = [TextLine(describe_eviction(preemption, view), "strong")]
        return [*note, *_screen(withdraw_placement(drop_advice(answer)), arguments, view, sections)]

    environment.print_answer(answer, output, screen)


def _answer_undecided(request: not_found.PodRequest, output: OutputOptions, pod: Json, error: CliError) -> Json:
    """Return the document about a pod without a decision. `error` is the error of the request for its explanation."""
    from herodotus_answers.live.objects import read_scheduler
    from herodotus_answers.unrecorded import OBSERVE, build_undecided  # here, because few pods have no decision

    notes, changes = not_found.describe_missing_decision(error, pod, request), list[str]()
    if notes and isinstance(error, ServerError) and not_found.is_without_decision(error):
        scheduler = read_scheduler(pod)
        if not error.details.get("noRecords") and not _is_recorded(scheduler, request, output):
            notes = [f"the pod belongs to {scheduler}, whose decisions are not recorded"]
            changes.append(f"record its decisions from now on, with a read-only observer: {OBSERVE}")
        if not pod["spec"].get("nodeName"):
            changes.append("evaluate the pod now: the same command with --local")
    return dict(build_undecided(pod, notes, changes))


def _is_recorded(scheduler: str, request: not_found.PodRequest, output: OutputOptions) -> bool:
    """Return whether the decisions service has decisions of a scheduler; True if that cannot be found out."""
    from herodotus_record.model import API_GROUP

    selector = api_paths.DecisionSelector(labels=f"{API_GROUP}/profile={scheduler}")
    path = api_paths.decisions(request.namespace, selector=selector, limit=1)
    try:
        return bool(request.environment.fetch(request.connection, path, output)["items"])
    except CliError:
        return True


def _needs_present_node(answer: Json) -> bool:
    """Return whether the pod of an answer is of a DaemonSet, so that a new node gets another pod."""
    from herodotus_answers.live.objects import is_of_daemon_set  # here, because most pods are placed

    return is_of_daemon_set((answer.get("pod") or {}).get("owner"))


def _screen(answer: Json, arguments: PodArguments, view: ViewOptions, live: list[list[Block]]) -> list[Block]:
    """Return the blocks of the screen for the answer and the options. Only that screen's module is imported."""
    if answer["kind"] == "UndecidedPod":
        from herodotus_cli.render import pod as pod_screen

        return pod_screen.build_undecided_screen(answer, view)
    if arguments.history:
        from herodotus_cli.render import attempts

        return attempts.build_screen(answer, view)
    if arguments.node:
        from herodotus_cli.render import pod_on_node

        return pod_on_node.build_screen(answer, view, every_node=arguments.every_node, live=live)
    from herodotus_cli.render import pod as pod_screen

    now = answer.get("live") or {}
    if "queue" in now:
        live = [*live, pod_screen.build_queue(now["queue"])]
    groups, reports = now.get("nodeGroups") or answer.get("nodeGroups"), now.get("autoscalerReports") or []
    if arguments.groups is None and _needs_present_node(answer):
        groups = None
    if groups is not None or reports:
        from herodotus_cli.render import node_groups as group_screen  # here, because most pods are placed

        live = [*live, *group_screen.build_sections(groups, reports, view, whole=arguments.groups is not None)]
    return pod_screen.build_screen(answer, view, every_node=arguments.every_node, live=live)
