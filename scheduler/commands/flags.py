"""Command-line options that several commands share, or that one command has many of.

Owns: names, defaults, validation. Does not own: the commands (`main`), and options that a part defines itself
(`serving.port`, `recorder.endpoint`, `ship`, `observe`, `snapshot`, `trace`).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion
from herodotus_serving.flag_types import ByteSize, parse_object_name
from scheduler.commands import trace
from scheduler.commands.ship import add_spool, parse_url
from scheduler.config.types import DEFAULT_NAME
from scheduler.engine.records.omitted_labels import NOTHING_OMITTED, omitted_labels
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import parse_feature_gates
from scheduler.recorder import endpoint
from scheduler.recorder.spool import DEFAULT_LIMIT_BYTES, MIN_LIMIT_BYTES
from scheduler.serving import port

REVIEW: Final = "review"
STOCK_NAME: Final = "default-scheduler"  # the name of kube-scheduler's profile

T = TypeVar("T")


def add_evaluate(command: argparse.ArgumentParser) -> None:
    """Add the options of the command `evaluate` to its parser."""
    from scheduler.offline.evaluate.cases import CASE, FORMS

    command.description = (
        "Decide where a pod would go; nothing is bound. With --cluster and --pod: that pod on that cluster. Without:"
        " cases from standard input, one JSON object a line (tests/golden/README.md)."
    )
    command.add_argument(
        "--cluster",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="what `kubectl get nodes,pods,... -A -o yaml` printed; YAML or JSON, directories, - for standard input",
    )
    command.add_argument("--pod", metavar="FILE", help="the Pod to decide, as written or as kubectl prints it")
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration, for cases without one"
    )
    add_legacy(command)
    add_rules(command)
    command.add_argument(
        "-o",
        "--output",
        choices=(*FORMS, REVIEW),
        default=CASE,
        help="as a case's outcome (default), as a record of an attempt, or as a review, also of a workload's pods",
    )
    review = command.add_argument_group("with -o review")
    review.add_argument(
        "--replicas", type=int, metavar="N", help="number of pods (default: as many as the object says)"
    )
    review.add_argument(
        "--namespace", default="", metavar="NAME", help="namespace of an object without one (default: default)"
    )
    review.add_argument(
        "--scheduler", default="", metavar="NAME", help="treat the object as if it named this scheduler"
    )
    review.add_argument("--node", default="", metavar="NODE", help="show only this node")
    review.add_argument("--all-nodes", action="store_true", help="show every node")


def add_process(command: argparse.ArgumentParser, default_name: str) -> None:
    """Add the options of commands that watch a cluster and record decisions (`run`, `observe`).

    `default_name` is the scheduler name of the only profile if there is no configuration file.
    """
    add_config(command, default_name, "that of the cluster's kube-scheduler, or else of its API server")
    add_cluster(command)
    _add_records(command)
    trace.add_options(command)


def add_config(
    command: argparse.ArgumentParser, default_name: str, default_version: str = str(DEFAULT_VERSION)
) -> None:
    """Add `--config`, `--accept-legacy-config`, `--feature-gates` and `--kubernetes-version`.

    `default_name` is the scheduler name of the only profile if there is no configuration file, and `default_version`
    says which version's rules apply without the flag.
    """
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"KubeSchedulerConfiguration (v1); default: one profile, {default_name}",
    )
    add_legacy(command)
    add_rules(command, default_version)


def add_cluster(command: argparse.ArgumentParser) -> None:
    """Add the options that select the cluster and the credentials (`--kubeconfig`, `--context`, `--master`)."""
    cluster = command.add_argument_group(
        "cluster (default: KUBECONFIG, the cluster around this pod, or ~/.kube/config)"
    )
    cluster.add_argument("--kubeconfig", metavar="FILE", help="credentials")
    cluster.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    cluster.add_argument(
        "--master", metavar="URL", help="API server, for example kubectl proxy's http://127.0.0.1:8001"
    )


def _add_records(command: argparse.ArgumentParser) -> None:
    records = command.add_argument_group("records")
    records.add_argument(
        "--endpoint",
        type=parse_url,
        metavar="URL",
        help="decisions service to deliver to; without it records stay in the spool",
    )
    endpoint.add_options(records)
    records.add_argument(
        "--endpoint-ca-configmap",
        type=parse_object_name,
        metavar="NAMESPACE/NAME",
        help="the authority, from ca.crt of this ConfigMap, where the service publishes it; read again while running",
    )
    add_spool(records)
    records.add_argument(
        "--spool-limit",
        type=ByteSize(MIN_LIMIT_BYTES, "512Mi"),
        default=DEFAULT_LIMIT_BYTES,
        metavar="SIZE",
        help="size of the spool while the service is unavailable (default 1Gi, at least"
        f" {MIN_LIMIT_BYTES >> 10}Ki); what does not fit becomes a gap record",
    )
    records.add_argument(
        "--omit-labels",
        type=_stating_errors(omitted_labels),
        default=NOTHING_OMITTED,
        metavar="KEYS",
        help="pod labels that are never recorded: comma-separated keys or patterns, such as example.com/*,person",
    )
    records.add_argument(
        "--record-node-groups",
        action="store_true",
        help="with --endpoint: record which node groups would take a pod that no node takes (docs/planning.md)",
    )
    port.add_serving_options(command.add_argument_group("health, metrics and configuration"))


def add_run(command: argparse.ArgumentParser) -> None:
    """Add the options of the command `run` to its parser."""
    add_process(command, DEFAULT_NAME)
    behaviour = command.add_argument_group("behaviour")
    behaviour.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="overrides the configuration's leaderElection.leaderElect",
    )
    behaviour.add_argument(
        "--record",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="with --no-record no decision is recorded: only to measure the cost of recording",
    )
    behaviour.add_argument(
        "--replace-default-scheduler",
        action="store_true",
        help=f"allow a profile named {STOCK_NAME} and the Lease kube-scheduler",
    )
    behaviour.add_argument(
        "--dry-run-binding",
        action="store_true",
        help="decide and record; bind nothing, evict nothing, write nothing to the cluster but our own Lease",
    )
    behaviour.add_argument(
        "--schedulers",
        type=parse_names,
        default=(),
        metavar="NAMES",
        help=f"with --dry-run-binding: decide the pods of these schedulers, for example {STOCK_NAME}",
    )
    behaviour.add_argument(
        "--disable-preemption", action="store_true", help="evict no pods for others; messages and records say so"
    )
    behaviour.add_argument(
        "--explain-events",
        nargs="?",
        const="",
        metavar="URL",
        help="FailedScheduling events of recorded decisions end with a suggestion and the command that shows the"
        " decision, or with URL, where the web pages are, a link to it",
    )
    behaviour.add_argument(
        "--log-trace-ids",
        action="store_true",
        help="log lines about an attempt have trace_id, the ID of the pod's trace (docs/monitoring.md)",
    )
    behaviour.add_argument(
        "--node-series",
        type=_positive,
        metavar="N",
        help="metrics of rejections and scores for each of N nodes at most, some 25 series each",
    )
    behaviour.add_argument(
        "--verify-cache",
        type=_positive,
        metavar="N",
        help="compute every Nth decision again without cached results; a difference is logged, counted and corrected",
    )
    behaviour.add_argument(
        "--adaptive-sampling",
        action="store_true",
        help="with percentageOfNodesToScore absent or 0: kube-scheduler's adaptive share instead of every node",
    )


def add_legacy(command: argparse.ArgumentParser) -> None:
    """Add `--accept-legacy-config`, which accepts beta versions of the configuration."""
    command.add_argument(
        "--accept-legacy-config",
        action="store_true",
        help="also read v1beta1, v1beta2 and v1beta3, each with its own default plugins",
    )


def add_rules(command: argparse.ArgumentParser, default_version: str = str(DEFAULT_VERSION)) -> None:
    """Add `--feature-gates` and `--kubernetes-version`, which override the configuration's fields.

    The values of `--feature-gates` accumulate. `default_version` says which version applies without the flag.
    """
    command.add_argument(
        "--feature-gates",
        type=_stating_errors(parse_feature_gates),
        action="append",
        default=[],
        metavar="GATES",
        help="kube-scheduler's feature gates, such as SchedulerAsyncPreemption=false; docs/parity.md lists them",
    )
    command.add_argument(
        "--kubernetes-version",
        type=_stating_errors(_parse_known_version),
        metavar="VERSION",
        help="decide by the rules of this version of kube-scheduler, such as v1.34 or v1.34.2; overrides the"
        f" configuration's kubernetesVersion (default: {default_version})",
    )


def _stating_errors(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function for argparse's `type` that calls `parse` and keeps the message of its ValueError.

    argparse shows the message of an ArgumentTypeError, but replaces that of a ValueError.
    """

    def parse_flag(text: str) -> T:
        try:
            return parse(text)
        except ValueError as e:
            raise argparse.ArgumentTypeError(str(e)) from e

    return parse_flag


def _parse_known_version(text: str) -> KubernetesVersion:
    version = KubernetesVersion.parse(text)
    Rules.from_settings({}, version)  # raises UnknownKubernetesVersionError
    return version


def _positive(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", text) is None or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 999999999")
    return int(text)


def parse_names(text: str) -> tuple[str, ...]:
    """Return the scheduler names in a comma-separated argument, without duplicates.

    Raise ArgumentTypeError if there is none.
    """
    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    if not names:
        raise argparse.ArgumentTypeError("no scheduler is named")
    return names
