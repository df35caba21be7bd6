"""The command line of `python -m scheduler`.

Owns: the commands, exit codes (0 done or stopped, 1 failed, 2 usage), one line for each error. Does not own: the
options (`flags`), the commands themselves (`run`, `observe`, `ship`, `snapshot`, `import_trace`, `read_log`,
`scheduler.offline`).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import yaml

from herodotus_kube.credentials import KubeconfigError
from herodotus_record import klog
from herodotus_record.escaping import escape
from herodotus_record.version import __version__
from scheduler.commands import flags, process
from scheduler.commands import ship as shipping
from scheduler.commands.flags import STOCK_NAME
from scheduler.commands.process import StartupError
from scheduler.commands.run import run
from scheduler.config import ConfigError, Configuration, build_profile, load
from scheduler.config.cluster_version import FoundVersion, VersionSource
from scheduler.config.defaulted import fill_defaults
from scheduler.config.load import convert_file
from scheduler.config.rules import override_rules
from scheduler.config.types import DEFAULT_NAME, ProfileConfig
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.engine.plugins.registry import NamedPlugin, PluginLoadError, Registry
from scheduler.engine.rules.feature_gates import FeatureGateError
from scheduler.offline.traces import TraceError
from scheduler.recorder import endpoint

STOCK_LEASE: Final = ("kube-system", "kube-scheduler")


def main(argv: Sequence[str] | None = None, plugins: Iterable[NamedPlugin] = ()) -> int:
    """Run the command in `argv` (default: the process' arguments) and return its exit code.

    `plugins` are out-of-tree plugins, for programs that wrap this one: `main(plugins=[with_plugin("Name", Factory)])`.
    """
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(next((word for word in argv if not word.startswith("-")), ""))
    arguments = parser.parse_args(argv)
    if arguments.command is _evaluate and (arguments.cluster is None) != (arguments.pod is None):
        parser.error("evaluate: --cluster and --pod go together")
    if arguments.command is _evaluate and arguments.output == flags.REVIEW and arguments.cluster is None:
        parser.error("evaluate: -o review goes with --cluster and --pod")
    klog.setup(arguments.v, format=arguments.logging_format)
    try:
        arguments.registry = Registry(plugins)
        code: int = arguments.command(arguments)
        sys.stdout.flush()
        return code
    except (
        ConfigError,
        KubeconfigError,
        endpoint.EndpointError,
        FeatureGateError,
        ManifestError,
        PluginLoadError,
        StartupError,
        TraceError,
    ) as e:
        _say("error", e)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader has closed the pipe: end without an error
        return 1


def _run(arguments: argparse.Namespace) -> int:
    config = _configuration(arguments.config, arguments)
    if arguments.leader_elect is not None:
        election = msgspec.structs.replace(config.leader_election, leader_elect=arguments.leader_elect)
        config = msgspec.structs.replace(config, leader_election=election)
    if arguments.schedulers:
        if not arguments.dry_run_binding:
            raise StartupError("--schedulers goes with --dry-run-binding: pods of others are looked at, never bound")
        from scheduler.offline.observe.configuration import for_pods_of

        config = for_pods_of(arguments.schedulers, config)
    if arguments.endpoint and not arguments.record:
        raise StartupError("--no-record leaves nothing to deliver to --endpoint: give one of them")
    if arguments.explain_events is not None and not arguments.record:
        raise StartupError("--no-record leaves no decision that --explain-events could name: give one of them")
    if arguments.log_trace_ids:
        klog.log_trace_ids()
    if not arguments.replace_default_scheduler:
        _refuse_to_replace(config, dry_run=arguments.dry_run_binding)
    return run(config, arguments)


def _refuse_to_replace(config: Configuration, *, dry_run: bool) -> None:
    """Raise StartupError if the configuration uses the scheduler name or the Lease of the cluster's own scheduler.

    In a dry run the scheduler name is allowed.
    """
    hint = "give --replace-default-scheduler once the cluster's own scheduler is stopped"
    if not dry_run and any(p.scheduler_name == STOCK_NAME for p in config.profiles):
        raise StartupError(f'a profile is named "{STOCK_NAME}", which the cluster\'s own scheduler serves; {hint}')
    election = config.leader_election
    if election.leader_elect and (election.resource_namespace, election.resource_name) == STOCK_LEASE:
        raise StartupError(f"the Lease {'/'.join(STOCK_LEASE)} is the cluster's own scheduler's; {hint}")


def _observe(arguments: argparse.Namespace) -> int:
    from scheduler.commands import observe

    return observe.observe(arguments, _configuration(arguments.config, arguments, STOCK_NAME))


def _snapshot(arguments: argparse.Namespace) -> int:
    from scheduler.commands import snapshot as snapshots

    return snapshots.run_snapshot(arguments, _configuration(arguments.config, arguments))


def _replay(arguments: argparse.Namespace) -> int:
    from scheduler.commands import snapshot as snapshots

    baseline = _configuration(arguments.baseline, arguments) if arguments.baseline else None
    return snapshots.run_replay(arguments, _configuration(arguments.config, arguments), baseline)


def _evaluate(arguments: argparse.Namespace) -> int:
    from scheduler.offline.evaluate.cases import CaseError, answer, evaluate_lines
    from scheduler.offline.evaluate.files import evaluate_files

    stated = arguments.config or arguments.feature_gates or arguments.kubernetes_version
    config = _configuration(arguments.config, arguments) if stated else None
    if arguments.output == flags.REVIEW:
        from scheduler.offline.whatif import review_files

        review = review_files(
            arguments.cluster,
            arguments.pod,
            _note,
            arguments.registry,
            namespace=arguments.namespace,
            scheduler=arguments.scheduler,
            replicas=arguments.replicas,
            node=arguments.node,
            every_node=arguments.all_nodes,
            config=config,
        )
        _print_json(review)
        return 0
    if arguments.cluster is not None:
        evaluated = evaluate_files(arguments.cluster, arguments.pod, config, _note, arguments.registry)
        _print_json(answer(evaluated.pod.full_name, evaluated, arguments.output))
        return 0
    code = 0
    lines = io.TextIOWrapper(
        sys.stdin.buffer, "utf-8", errors="replace"
    )  # a line of invalid UTF-8 is an error of that line only
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
    """Print "WHAT: MESSAGE" to standard error as one line, with control characters escaped."""
    print(f"{what}: {escape(str(message))}", file=sys.stderr)


def _validate(arguments: argparse.Namespace) -> int:
    from scheduler.offline.evaluate import NoCluster

    config = _configuration(arguments.file, arguments)
    try:
        for i in range(len(config.profiles)):
            build_profile(config, i, arguments.registry, NoCluster())
    except ConfigError as e:
        raise ConfigError(f"{arguments.file}: {e}") from e
    print(yaml.safe_dump(fill_defaults(config, arguments.registry), sort_keys=True), end="")
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    text = convert_file(arguments.file, _warn_of(arguments.file))
    if arguments.output is None:
        print(text, end="")
        return 0
    try:
        arguments.output.write_text(text)
    except OSError as e:
        raise ConfigError(f"{arguments.output}: {e.strerror or e}") from e
    return 0


def _configuration(path: Path | None, arguments: argparse.Namespace, default_name: str = DEFAULT_NAME) -> Configuration:
    """Return the configuration in the file `path`, or the default configuration if `path` is None.

    `default_name` is the scheduler name of a profile without one, and of the only profile if there is no file.
    """
    if path is None:
        config = Configuration(profiles=(ProfileConfig(scheduler_name=default_name),))
    else:
        legacy = _warn_of(path) if arguments.accept_legacy_config else None
        config = load(path, default_name=default_name, legacy=legacy, registry=arguments.registry)
    settings = {name: value for gates in arguments.feature_gates for name, value in gates.items()}
    version = arguments.kubernetes_version
    return override_rules(config, settings, FoundVersion(version, VersionSource.FLAG) if version else None)


def _warn_of(path: Path) -> Callable[[str], None]:
    return lambda note: klog.warning(note, file=str(path))


def _import_trace(arguments: argparse.Namespace) -> int:
    from scheduler.commands import import_trace

    return import_trace.run_import(arguments)


def _read_log(arguments: argparse.Namespace) -> int:
    from scheduler.commands import read_log

    return read_log.read_log(arguments, process.stop_on_signals)


def _parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line. If `only` names a command, the other ones get no options.

    So their modules need not be imported.
    """
    parser = argparse.ArgumentParser(
        prog="python -m scheduler",
        description="A kube-scheduler compatible scheduler that records every decision.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (run_command, add_options, help_text) in _COMMANDS.items():
        description = help_text[0].upper() + help_text[1:] + "."
        command = commands.add_parser(name, help=help_text, description=description)
        command.set_defaults(command=run_command)
        klog.add_options(command)
        if only in (None, name):
            add_options(command)
    return parser


def _add_observe(command: argparse.ArgumentParser) -> None:
    from scheduler.commands import observe

    observe.add_options(command)
    flags.add_process(command, STOCK_NAME)


def _add_validate(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="the configuration")
    flags.add_legacy(command)
    flags.add_rules(command)


def _add_convert(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="the configuration; v1 is written as it stands")
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write it (default: print it)")


def _add_snapshot(command: argparse.ArgumentParser) -> None:
    from scheduler.commands import snapshot as snapshots

    snapshots.add_snapshot_options(command)
    flags.add_config(command, DEFAULT_NAME)
    flags.add_cluster(command)


def _add_replay(command: argparse.ArgumentParser) -> None:
    from scheduler.commands import snapshot as snapshots

    snapshots.add_replay_options(command)
    flags.add_config(command, DEFAULT_NAME)


def _add_import_trace(command: argparse.ArgumentParser) -> None:
    from scheduler.commands import import_trace

    import_trace.add_options(command)


def _add_read_log(command: argparse.ArgumentParser) -> None:
    from scheduler.commands import read_log

    read_log.add_options(command, shipping.parse_url)


class _Command(NamedTuple):
    """A command: the function that runs it and returns its exit code, the one that adds its options, and its help."""

    run: Callable[[argparse.Namespace], int]
    add_options: Callable[[argparse.ArgumentParser], None]
    help: str


_COMMANDS: Final = {
    "run": _Command(_run, flags.add_run, "schedule pods on a cluster"),
    "observe": _Command(_observe, _add_observe, "reconstruct what another scheduler decides"),
    "evaluate": _Command(_evaluate, flags.add_evaluate, "decide a pod without binding it, or many cases"),
    "validate": _Command(_validate, _add_validate, "check a KubeSchedulerConfiguration and print its defaults"),
    "convert-config": _Command(_convert, _add_convert, "write a KubeSchedulerConfiguration of any version as v1"),
    "ship": _Command(
        shipping.ship, shipping.add_options, "deliver a spool to the decisions service (run starts this itself)"
    ),
    "snapshot": _Command(_snapshot, _add_snapshot, "write what scheduling reads of a cluster to a file"),
    "replay": _Command(_replay, _add_replay, "place the pods of a snapshot again with another configuration"),
    "import-trace": _Command(_import_trace, _add_import_trace, "write a trace from files of another format"),
    "read-log": _Command(_read_log, _add_read_log, "tell the decisions in another scheduler's log"),
}
