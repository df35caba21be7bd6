"""`kubectl herodotus pod [NAME]`: what happened to a pod, and why; without NAME the newest decision about each pod.

Owns: its options, its requests to the decisions service, hints for a missing answer. Does not own: what is read from
the API server for what no record holds (`live_pods`), the screens.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

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
from herodotus_cli.errors import CliError, NoHistoryError, ServerError, print_to_stderr
from herodotus_cli.live_pods import LivePodReader, PodArguments, needs_present_node
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import is_document
from herodotus_cli.sorting import SortKey, sort_option, sort_rows
from herodotus_cli.transport.api_server_queries import PodLookup
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_cli.render.screen_elements import Block, ViewOptions

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
_OPTIONS_OF_ONE_POD = {
    "attempt": "--attempt",
    "history": "--attempts",
    "timeline": "--timeline",
    "every_node": "--all",
    "node": "--node",
    "node_groups": "--node-groups",
}


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
    labels = selector.query["labelSelector"] or ""
    find_selected = partial(not_found.list_selected_hints, labels, namespace, connection, environment)
    try:
        answer = keep_newest_per_pod(environment.fetch(connection, path, output, "lists"))
    except NoHistoryError as e:
        hints = [*(find_selected() if labels else ()), *e.hints]
        raise NoHistoryError(e.message, hints) from None
    if not answer["items"] and not is_document(output.format):
        print_to_stderr(f"No decisions found{f' in {namespace} namespace; every namespace: -A' if namespace else ''}.")
        for hint in find_selected() if labels else ():
            print_to_stderr(f"  {hint}")
        return
    answer = sort_rows(answer, "items", sort_key)
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
            raise error  # the question is about past attempts, and local mode has none
        undecided = PodLookup(True, pod)
        return _answer_undecided(request, output, pod, error)

    request = not_found.PodRequest(arguments.name, namespace, connection, environment)
    reader = LivePodReader(arguments, connection, output, environment)
    with reader.start_lookup(namespace) as query:
        ask = partial(environment.fetch, connection, path, output, screen)
        answer = not_found.fetch_pod_answer(ask, request, answer_undecided)
        lookup = undecided if undecided.pod else query.lookup()
    if not arguments.full:
        answer = reader.complete(answer, lookup)
    _show(answer, arguments, reader, output, environment)


def _show(
    answer: Json,
    arguments: PodArguments,
    reader: LivePodReader,
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
    facts = None if fate else reader.read_facts(answer)

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
    if arguments.groups is None and needs_present_node(answer):
        groups = None
    if groups is not None or reports:
        from herodotus_cli.render import node_groups as group_screen  # here, because most pods are placed

        live = [*live, *group_screen.build_sections(groups, reports, view, whole=arguments.groups is not None)]
    return pod_screen.build_screen(answer, view, every_node=arguments.every_node, live=live)
