"""`python -m scheduler`: the commands.

Owns: the command line, exit codes (0 done or stopped, 1 cannot run or failed, 2 usage), one line for each error. Does
not own: what the commands do (`run`, `evaluate`, `recorder.shipper`).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import yaml

from scheduler import klog
from scheduler.config import ConfigError, Configuration, build_profile, load
from scheduler.config.convert import converted
from scheduler.config.defaulted import defaulted
from scheduler.config.types import DEFAULT_NAME, ProfileConfig
from scheduler.evaluate import ManifestError, NoCluster
from scheduler.evaluate.cases import CASE, FORMS, CaseError, answer, evaluate_lines
from scheduler.evaluate.files import evaluate_files
from scheduler.kube.credentials import CredentialsError
from scheduler.logged import command as read_log
from scheduler.observe import command as observe
from scheduler.observe.command import STOCK_NAME
from scheduler.observe.configuration import for_pods_of
from scheduler.plugins.registry import Named, PluginLoadError, Registry
from scheduler.process import RefusedError
from scheduler.recorder import endpoint, shipper
from scheduler.recorder.omitted import NOTHING_OMITTED, OmittedLabels, omitted_labels
from scheduler.recorder.spool import DEFAULT_LIMIT_BYTES
from scheduler.reviews.files import Asked, review_files
from scheduler.run import RunSettings, run
from scheduler.serving import options
from scheduler.snapshots import command as snapshots
from scheduler.version import __version__

REVIEW: Final = "review"
STOCK_LEASE: Final = ("kube-system", "kube-scheduler")
DEFAULT_SPOOL: Final = Path("/var/lib/herodotus/spool")
_SHIFTS: Final = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}


def main(argv: Sequence[str] | None = None, plugins: Iterable[Named] = ()) -> int:
    """Run a command; the exit code.

    `plugins`: out-of-tree plugins of a command of one's own: `main(plugins=[with_plugin("Name", Factory)])`.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is _evaluate and (arguments.cluster is None) != (arguments.pod is None):
        parser.error("evaluate: --cluster and --pod go together")
    if arguments.command is _evaluate and arguments.output == REVIEW and arguments.cluster is None:
        parser.error("evaluate: -o review goes with --cluster and --pod")
    klog.setup(arguments.v, format=arguments.logging_format)
    try:
        arguments.registry = Registry(plugins)
        code: int = arguments.command(arguments)
        sys.stdout.flush()
        return code
    except (
        ConfigError,
        CredentialsError,
        endpoint.EndpointError,
        ManifestError,
        PluginLoadError,
        read_log.ReadLogError,
        RefusedError,
    ) as e:
        _say("error", e)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more: end quietly
        return 1


def _run(arguments: argparse.Namespace) -> int:
    config = _configuration(arguments.config, arguments)
    if arguments.leader_elect is not None:
        election = msgspec.structs.replace(config.leader_election, leader_elect=arguments.leader_elect)
        config = msgspec.structs.replace(config, leader_election=election)
    if arguments.schedulers:
        if not arguments.dry_run_binding:
            raise RefusedError("--schedulers goes with --dry-run-binding: pods of others are looked at, never bound")
        config = for_pods_of(arguments.schedulers, config)
    if arguments.endpoint and not arguments.record:
        raise RefusedError("--no-record leaves nothing to deliver to --endpoint: give one of them")
    if not arguments.replace_default_scheduler:
        _refuse_to_replace(config, dry_run=arguments.dry_run_binding)
    return run(
        config,
        RunSettings(
            kubeconfig=arguments.kubeconfig,
            context=arguments.context,
            master=arguments.master,
            spool=arguments.spool,
            spool_limit_bytes=arguments.spool_limit,
            endpoint=endpoint.of(arguments),
            serving=options.serving(arguments),
            verbosity=arguments.v,
            logging_format=arguments.logging_format,
            adaptive_sampling=arguments.adaptive_sampling,
            registry=arguments.registry,
            preemption=not arguments.disable_preemption,
            dry_run_binding=arguments.dry_run_binding,
            record=arguments.record,
            omitted=arguments.omit_labels,
        ),
    )


def _refuse_to_replace(config: Configuration, *, dry_run: bool) -> None:
    """Guests are polite: nothing of the cluster's own scheduler is taken over by accident. A dry run takes nothing."""
    hint = "give --replace-default-scheduler once the cluster's own scheduler is stopped"
    if not dry_run and any(p.scheduler_name == STOCK_NAME for p in config.profiles):
        raise RefusedError(f'a profile is named "{STOCK_NAME}", which the cluster\'s own scheduler serves; {hint}')
    election = config.leader_election
    if election.leader_elect and (election.resource_namespace, election.resource_name) == STOCK_LEASE:
        raise RefusedError(f"the Lease {'/'.join(STOCK_LEASE)} is the cluster's own scheduler's; {hint}")


def _observe(arguments: argparse.Namespace) -> int:
    return observe.observe(arguments, _configuration(arguments.config, arguments, STOCK_NAME))


def _snapshot(arguments: argparse.Namespace) -> int:
    return snapshots.take(arguments, _configuration(arguments.config, arguments))


def _replay(arguments: argparse.Namespace) -> int:
    baseline = _configuration(arguments.baseline, arguments) if arguments.baseline else None
    return snapshots.run_replay(arguments, _configuration(arguments.config, arguments), baseline)


def _evaluate(arguments: argparse.Namespace) -> int:
    config = _configuration(arguments.config, arguments) if arguments.config else None
    if arguments.output == REVIEW:
        asked = Asked(arguments.namespace, arguments.scheduler, arguments.replicas, arguments.node, arguments.all_nodes)
        _print_json(review_files(arguments.cluster, arguments.pod, asked, config, _note, arguments.registry))
        return 0
    if arguments.cluster is not None:
        decided = evaluate_files(arguments.cluster, arguments.pod, config, _note, arguments.registry)
        _print_json(answer(decided.pod.full_name, decided, arguments.output))
        return 0
    code = 0
    lines = io.TextIOWrapper(sys.stdin.buffer, "utf-8", errors="replace")  # a line that is no text is that line's error
    for outcome in evaluate_lines(lines, config, arguments.output, arguments.registry):
        if isinstance(outcome, CaseError):
            _say("error", outcome)
            code = 1
        else:
            _print_json(outcome)
    return code


def _print_json(document: object) -> None:
    print(json.dumps(document, separators=(",", ":")))


def _note(text: str) -> None:
    _say("note", text)


def _say(what: str, message: object) -> None:
    """One line for people, whatever was in the input that it quotes."""
    print(f"{what}: {''.join(c if c.isprintable() else ' ' for c in str(message))}", file=sys.stderr)


def _validate(arguments: argparse.Namespace) -> int:
    config = _configuration(arguments.file, arguments)
    try:
        for i in range(len(config.profiles)):
            build_profile(config, i, arguments.registry, NoCluster())
    except ConfigError as e:
        raise ConfigError(f"{arguments.file}: {e}") from e
    print(yaml.safe_dump(defaulted(config, arguments.registry), sort_keys=True), end="")
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    text = converted(arguments.file, _warn_of(arguments.file))
    if arguments.output is None:
        print(text, end="")
        return 0
    try:
        arguments.output.write_text(text)
    except OSError as e:
        raise ConfigError(f"{arguments.output}: {e.strerror or e}") from e
    return 0


def _ship(arguments: argparse.Namespace) -> int:
    found = endpoint.of(arguments)
    assert found is not None  # the flag is required
    return shipper.main(arguments.spool, found)


def _configuration(path: Path | None, arguments: argparse.Namespace, default_name: str = DEFAULT_NAME) -> Configuration:
    """`default_name`: of a profile that names no scheduler, and of the only one where there is no file."""
    if path is None:
        return Configuration(profiles=(ProfileConfig(scheduler_name=default_name),))
    legacy = _warn_of(path) if arguments.accept_legacy_config else None
    return load(path, default_name=default_name, legacy=legacy, registry=arguments.registry)


def _warn_of(path: Path) -> Callable[[str], None]:
    return lambda note: klog.warning(note, file=str(path))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scheduler",
        description="A kube-scheduler compatible scheduler that records every decision.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _run_options(_command(commands, "run", _run, "schedule pods on a cluster"))
    observing = _command(commands, "observe", _observe, "reconstruct what another scheduler decides")
    observe.add_options(observing)
    _process_options(observing, STOCK_NAME)
    _evaluate_options(_command(commands, "evaluate", _evaluate, "decide a pod without binding it, or many cases"))
    validate = _command(commands, "validate", _validate, "check a KubeSchedulerConfiguration and print its defaults")
    validate.add_argument("file", type=Path, metavar="FILE", help="the configuration")
    _legacy_option(validate)
    convert = _command(commands, "convert-config", _convert, "write a KubeSchedulerConfiguration of any version as v1")
    convert.add_argument("file", type=Path, metavar="FILE", help="the configuration; v1 is written as it stands")
    convert.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write it (default: print it)")
    ship = _command(commands, "ship", _ship, "deliver a spool to the decisions service (run starts this itself)")
    _spool_option(ship)
    ship.add_argument("--endpoint", required=True, type=_url, metavar="URL", help="the decisions service")
    endpoint.add_options(ship)
    taken = _command(commands, "snapshot", _snapshot, "write what scheduling reads of a cluster to a file")
    snapshots.add_snapshot_options(taken)
    _config_option(taken, DEFAULT_NAME)
    _cluster_options(taken)
    again = _command(commands, "replay", _replay, "place the pods of a snapshot again with another configuration")
    snapshots.add_replay_options(again)
    _config_option(again, DEFAULT_NAME)
    log = _command(commands, "read-log", read_log.read_log, "tell the decisions in another scheduler's log")
    read_log.add_options(log, _url)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: object, help: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    command.set_defaults(command=run)
    options.add_logging(command)
    return command


def _evaluate_options(command: argparse.ArgumentParser) -> None:
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
        "--config", type=Path, metavar="FILE", help="KubeSchedulerConfiguration, for cases that bring none of their own"
    )
    _legacy_option(command)
    command.add_argument(
        "-o",
        "--output",
        choices=(*FORMS, REVIEW),
        default=CASE,
        help="as a case's outcome (default), as a record of an attempt, or as a review, also of a workload's pods",
    )
    review = command.add_argument_group("with -o review")
    review.add_argument("--replicas", type=int, metavar="N", help="so many pods (default: as many as the object says)")
    review.add_argument("--namespace", default="", metavar="NAME", help="where the object says none (default: default)")
    review.add_argument("--scheduler", default="", metavar="NAME", help="as if the object named this scheduler")
    review.add_argument("--node", default="", metavar="NODE", help="tell of this node alone")
    review.add_argument("--all-nodes", action="store_true", help="tell of every node")


def _process_options(command: argparse.ArgumentParser, default_name: str) -> None:
    """What every process that watches a cluster and records is told."""
    _config_option(command, default_name)
    _cluster_options(command)
    _record_options(command)


def _config_option(command: argparse.ArgumentParser, default_name: str) -> None:
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"KubeSchedulerConfiguration (v1); default: one profile, {default_name}",
    )
    _legacy_option(command)


def _cluster_options(command: argparse.ArgumentParser) -> None:
    cluster = command.add_argument_group(
        "cluster (default: KUBECONFIG, the cluster around this pod, or ~/.kube/config)"
    )
    cluster.add_argument("--kubeconfig", metavar="FILE", help="credentials")
    cluster.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    cluster.add_argument(
        "--master", metavar="URL", help="API server, for example kubectl proxy's http://127.0.0.1:8001"
    )


def _record_options(command: argparse.ArgumentParser) -> None:
    records = command.add_argument_group("records")
    records.add_argument(
        "--endpoint",
        type=_url,
        metavar="URL",
        help="decisions service to deliver to; without it records stay in the spool",
    )
    endpoint.add_options(records)
    _spool_option(records)
    records.add_argument(
        "--spool-limit",
        type=_size,
        default=DEFAULT_LIMIT_BYTES,
        metavar="SIZE",
        help="what the spool may hold while the service is away (default 1Gi); what does not fit becomes a gap record",
    )
    records.add_argument(
        "--omit-labels",
        type=_omitted,
        default=NOTHING_OMITTED,
        metavar="KEYS",
        help="labels of pods that are never recorded: keys or patterns with commas, for example example.com/*,person",
    )
    options.add_serving(command.add_argument_group("health, metrics and configuration"))


def _run_options(command: argparse.ArgumentParser) -> None:
    _process_options(command, DEFAULT_NAME)
    behaviour = command.add_argument_group("behaviour")
    behaviour.add_argument(
        "--leader-elect",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="wins over the configuration's leaderElection.leaderElect",
    )
    behaviour.add_argument(
        "--record",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="switched off, nothing is kept of any decision: only to see what recording costs",
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
        type=observe.names,
        default=(),
        metavar="NAMES",
        help=f"with --dry-run-binding: decide the pods of these schedulers, for example {STOCK_NAME}",
    )
    behaviour.add_argument(
        "--disable-preemption", action="store_true", help="evict no pods for others; messages and records say so"
    )
    behaviour.add_argument(
        "--adaptive-sampling",
        action="store_true",
        help="with percentageOfNodesToScore absent or 0: kube-scheduler's adaptive share instead of every node",
    )


def _legacy_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--accept-legacy-config",
        action="store_true",
        help="also read v1beta1, v1beta2 and v1beta3, each with its own default plugins",
    )


def _spool_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--spool",
        type=Path,
        default=DEFAULT_SPOOL,
        metavar="DIR",
        help=f"where records wait to be delivered (default {DEFAULT_SPOOL})",
    )


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^/?#\s]+/?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as http://127.0.0.1:8000")
    return text.rstrip("/")


def _omitted(text: str) -> OmittedLabels:
    try:
        return omitted_labels(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)(|Ki|Mi|Gi|Ti)", text)
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512Mi")
    return int(match[1]) << _SHIFTS[match[2]]
