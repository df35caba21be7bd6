"""The list of `kubectl herodotus pod` without a name: the newest decision about each pod.

Owns: its request, and which of a pod's decisions is the newest. Does not own: options (`commands.pod`), the screen.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment
from herodotus_cli.errors import print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.output_formats import is_document
from herodotus_client import api_paths

Json = dict[str, Any]
DECISION_LIMIT = 500  # the largest page that the service returns


def run(
    namespace: str, labels: str, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    """Print the newest decision about each pod; with --watch, repeat it when decisions change.

    If `namespace` is empty, all namespaces count. `labels` is a label selector.
    """
    once = partial(_once, namespace, labels, connection, output, environment)
    environment.run_or_watch(once, connection, output, namespace, api_paths.DecisionSelector(labels=labels))


def keep_newest_per_pod(decisions: Json) -> Json:
    """Return a DecisionList, which is sorted from new to old, with only the first decision about each pod."""
    newest: dict[str, Json] = {}
    for decision in decisions["items"]:
        newest.setdefault(str(decision["spec"]["pod"]["uid"]), decision)
    return decisions | {"items": list(newest.values())}


def _once(
    namespace: str, labels: str, connection: ConnectionSettings, output: OutputOptions, environment: Environment
) -> None:
    selector = api_paths.DecisionSelector(labels=labels)
    path = api_paths.decisions(namespace, selector=selector, limit=DECISION_LIMIT)
    answer = keep_newest_per_pod(environment.fetch(connection, path, output, "pod_list"))
    if not answer["items"] and not is_document(output.format):
        print_to_stderr(f"No decisions found{f' in {namespace} namespace; every namespace: -A' if namespace else ''}.")
        return
    from herodotus_cli.render import pod_list as pod_list_screen

    environment.print_answer(answer, output, lambda view: pod_list_screen.build_screen(answer, view, namespace))
