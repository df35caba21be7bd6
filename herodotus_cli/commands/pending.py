"""`kubectl herodotus pending`: the pending pods, grouped by dominant reason.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from herodotus_cli import option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment, Json, environment_of
from herodotus_cli.errors import CliError, print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import is_document, shows_whole_document
from herodotus_cli.sorting import SortKey, sort_option, sort_rows
from herodotus_cli.transport.api_server_queries import RefusedPodsQuery, UnassignedPodsQuery
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import LiveCause, LivePending, NoLongerPendingPod
    from herodotus_answers.pending import GroupFix, PendingPods

SORT_KEYS = {
    "name": SortKey(("pod",)),
    "namespace": SortKey(("namespace",)),
    "age": SortKey(("createdAt",)),
    "tried": SortKey(("startedAt",)),
    "attempt": SortKey(("attempt",)),
    "next-try": SortKey(("notBefore",)),
    "reason": SortKey(("reason",)),
    "owner": SortKey(("owner",)),
}
# Fields of a Pod, by which users of kubectl sort; the rows have others.
_FIELDS_OF_PODS = {
    ("metadata", "name"): SORT_KEYS["name"],
    ("metadata", "namespace"): SORT_KEYS["namespace"],
    ("metadata", "creationTimestamp"): SORT_KEYS["age"],
}
_MAX_FIXES = 8  # groups, with a request each
_MAX_EXPLAINED = 8  # pods whose objects are read, with their events
_MAX_LOOKED_UP = 5  # pods that are no longer pending, of which the API server is asked what became of them
_NO_RECORDS = (
    "This decisions service has no records of the cluster's schedulers yet, so it does not know which pods are"
    " pending.",
    "  after an installation, records take a minute or two; to see pending pods: kubectl get pods -A"
    " --field-selector status.phase=Pending",
)


class PendingArguments(NamedTuple):
    """The parsed arguments of `kubectl herodotus pending`.

    If `namespace` is empty, all namespaces count. `labels` is a label selector. Without `sort_key`, the oldest pod
    comes first.
    """

    namespace: str
    labels: str
    sort_key: SortKey | None


@options.command(short_help="List pods that wait, by reason, with a fix and the next try.")
@options.namespaces_options
@options.selector_option
@sort_option(SORT_KEYS, "the oldest first")
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def pending(ctx: click.Context, /, **_given: object) -> None:
    """List pending pods by reason, and when each is tried again.

    For each reason, shows the best fix for the first of its pods. The reason is that of most nodes in the pod's last
    attempt; nodes that its own selectors exclude count only if there are no others. Pods that were not tried again in
    time are marked as overdue: the scheduler is not running. The API server adds pods without a recorded attempt, such
    as those that wait for scheduling gates, and deleted pods are left out; -o json has both under `live`. With
    --endpoint or --cluster the API server is not contacted, so deleted pods are listed as overdue.

    \b
    kubectl herodotus pending -A
    kubectl herodotus pending -n shop -l app=checkout
    kubectl herodotus pending -n shop -o name
    """
    environment = environment_of(ctx)
    every, namespace = option_values.all_namespaces(ctx), option_values.namespace(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = "" if every else environment.resolve_namespace(namespace, connection)
    key = ctx.params["sort_key"]
    arguments = PendingArguments(namespace, ctx.params["selector"], key and _FIELDS_OF_PODS.get(key.path, key))
    run(arguments, connection, option_values.output_options(ctx), environment)


def run(
    arguments: PendingArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Fetch the pending pods and print them, or print a sentence on stderr if there are none.

    With --watch, repeat it when decisions change.
    """
    once = partial(_once, arguments, connection, output)
    selector = api_paths.DecisionSelector(labels=arguments.labels)
    environment.run_or_watch(once, connection, output, arguments.namespace, selector)


def _once(
    arguments: PendingArguments, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    namespace, labels, _ = arguments
    path = api_paths.pending_pods(namespace, labels=labels)
    with (
        _unassigned_pods(namespace, labels, connection, environment) as query,
        # which pods exist does not depend on labels, which may have changed since a decision
        _unassigned_pods(namespace, "", connection, environment) if labels else query as every,
        _refused_pods(namespace, labels, connection, environment) as refused,
    ):
        answer: PendingPods = environment.fetch(connection, path, output, "pending")
        if connection.reaches_cluster:
            live = _read_live(answer, query, every, connection, environment)
            if live is not None:
                may_lack_pods = refused.may_exist()
                answer["live"] = _add_uncreated(live, namespace, connection, environment) if may_lack_pods else live
    shown = answer
    if "live" in answer and not shows_whole_document(output.format):
        from herodotus_answers.pending import apply_live

        shown = apply_live(answer)
    if output.format in SCREEN_FORMATS:
        from herodotus_answers.pending import add_causes

        causes = _find_causes(shown, query.pods() or (), connection, environment)
        shown = add_causes(shown, causes)
        fixes = _find_fixes(shown, causes, connection, output, environment)
        shown = shown | {"groups": [{**group, "fix": fixes.get(i)} for i, group in enumerate(shown["groups"])]}
    shown = sort_rows(shown, "pods", arguments.sort_key)
    if shown.get("noRecords") and not shown.get("live") and not is_document(output.format):
        print_to_stderr(*_NO_RECORDS)
        return
    has_pods = bool(answer.get("pods") or shown.get("pods"))
    if not has_pods and "notCreated" not in (answer.get("live") or {}) and not is_document(output.format):
        scope = f" in {namespace} namespace; every namespace: -A" if namespace else ""
        print_to_stderr(f"No pending pods{scope}.")
        return
    from herodotus_cli.render import pending as pending_screen

    environment.print_answer(shown, output, lambda view: pending_screen.build_screen(shown, view))


def _find_causes(
    answer: PendingPods, waiting: Iterable[Json], connection: ConnectionSettings, environment: Environment
) -> dict[str, LiveCause]:
    """Return what `pod NAME` names first where that is no reason of a scheduler, such as a claim without a volume.

    The result is by the pods' UIDs. Only the first pods are looked at: those that stand for a reason, and then the
    oldest ones, at most _MAX_EXPLAINED. `waiting` are the Pod objects without a node.
    """
    by_name = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in waiting}
    names = [*(group["pods"][0] for group in answer["groups"] if group["pods"])]
    names += [f"{pod['namespace']}/{pod['pod']}" for pod in answer["pods"]]
    chosen = [by_name[name] for name in dict.fromkeys(names) if name in by_name][:_MAX_EXPLAINED]
    if not chosen:
        return {}
    from herodotus_answers.live.pods.pod_state import find_first_cause
    from herodotus_cli.transport import open_objects

    objects, now = open_objects(connection, environment.environ), environment.now()  # each object is read once
    found = {str(pod["metadata"]["uid"]): find_first_cause(pod, objects, now) for pod in chosen}
    return {uid: cause for uid, cause in found.items() if cause is not None}


def _find_fixes(
    answer: PendingPods,
    causes: Mapping[str, LiveCause],
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> dict[int, GroupFix]:
    """Return the best fix for the first pod of each group, by the position of the group, for at most _MAX_FIXES.

    It is that of the pod's cause in `causes`, by UID, or else the one that the explanation of its decision has. Without
    an evaluation there is no such explanation.
    """
    from herodotus_answers.brief import shorten

    fixes: dict[int, GroupFix] = {}
    uids = {f"{pod['namespace']}/{pod['pod']}": pod["uid"] for pod in answer["pods"]}
    for i, group in enumerate(answer["groups"][:_MAX_FIXES]):
        name = group["pods"][0] if group["pods"] else ""
        remedies = causes[uids[name]]["remedies"] if uids.get(name) in causes else []
        if remedies:
            best = remedies[0]
            fixes[i] = {"pod": name, "text": best["text"], "command": best["command"], "checked": False}
        if not name or remedies or group["overdue"] or answer.get("source") == "conditions":
            continue
        try:
            explanation = environment.fetch(connection, api_paths.pod_explanation(*name.split("/", 1)), output)
        except CliError:
            continue
        fix = shorten(explanation).get("fix") if explanation["kind"] == "PodExplanation" else None
        if fix is not None:
            fixes[i] = {"pod": name, **fix}
    return fixes


def _read_live(
    answer: PendingPods,
    query: UnassignedPodsQuery,
    every: UnassignedPodsQuery,
    connection: ConnectionSettings,
    environment: Environment,
) -> LivePending | None:
    """Return what the API server knows about the pods, or None if it did not answer.

    `query` is for the pods that the command selects, `every` for all of the namespace.
    """
    from herodotus_answers.live import objects as live_objects

    waiting, unassigned = query.pods(), every.uids()
    if waiting is None and unassigned is None:
        return None
    at = environment.now()
    gone = None if unassigned is None else live_objects.find_no_longer_pending(answer, unassigned)
    _look_up_fates(gone or [], connection, environment)
    untried = live_objects.find_untried(answer, waiting or ())
    return live_objects.build_live_pending(at, gone, untried, waiting or ())


def _look_up_fates(absent: list[NoLongerPendingPod], connection: ConnectionSettings, environment: Environment) -> None:
    """Set `fate`, what became of a pod that is no longer pending, for the first _MAX_LOOKED_UP pods.

    The requests to the API server run at the same time. A fate that cannot be found out is None.
    """
    from herodotus_answers.live.objects import find_fate
    from herodotus_cli.transport.kubectl import KubectlTransport

    transport = KubectlTransport(connection, environment.environ)
    with ExitStack() as stack:
        asked = [
            (pod, stack.enter_context(transport.live_pod(pod["namespace"], pod["pod"])))
            for pod in absent[:_MAX_LOOKED_UP]
        ]
        for pod, query in asked:
            lookup = query.lookup()
            fate = find_fate(pod["uid"], lookup.pod) if lookup.known else None
            pod["fate"] = "placed" if fate == "exists" else fate


def _add_uncreated(
    live: LivePending, namespace: str, connection: ConnectionSettings, environment: Environment
) -> LivePending:
    """Return `live` with the workloads whose pods were never created, as far as the user may read them and events."""
    from herodotus_answers.live.workloads.uncreated_pods import find_uncreated
    from herodotus_cli.transport import open_objects

    found = find_uncreated(open_objects(connection, environment.environ), namespace, environment.now())
    if found.workloads:
        live["notCreated"] = found.workloads
    if found.workloads and found.omitted:
        live["notCreatedOmitted"] = found.omitted
    return live


def _refused_pods(
    namespace: str, labels: str, connection: ConnectionSettings, environment: Environment
) -> RefusedPodsQuery:
    """Start a request to the API server for pods that could not be created; none for pods that `labels` select."""
    if labels or not connection.reaches_cluster:
        return RefusedPodsQuery()
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, environment.environ).refused_pods(namespace)


def _unassigned_pods(
    namespace: str, labels: str, connection: ConnectionSettings, environment: Environment
) -> UnassignedPodsQuery:
    """Start a request to the API server for the pods without a node.

    With --endpoint or --cluster the pods are not known; then return a query without a result.
    """
    if not connection.reaches_cluster:
        return UnassignedPodsQuery()
    from herodotus_cli.transport.kubectl import KubectlTransport

    return KubectlTransport(connection, environment.environ).unassigned_pods(namespace, labels)
