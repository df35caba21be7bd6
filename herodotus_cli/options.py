"""Decorators that add the options which several commands share.

Owns: names and help texts of these options. Does not own: parsing of values (`parameter_types`), reading them
(`option_values`), what a command does with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from herodotus_cli import completion_values
from herodotus_cli.errors import ServerError
from herodotus_cli.output_formats import OutputFormat
from herodotus_cli.parameter_types import Duration, Endpoint, PositiveDuration, ServiceName

Command = TypeVar("Command", bound=Callable[..., Any])
Goal = TypeVar("Goal", bound=click.Command)
_FIRST_WORD = "herodotus_cli.options.first_word"  # key of `Context.meta`


class SharedOption(click.Option):
    """An option of many commands, which `kubectl herodotus options` describes.

    The help of a command has it in the words of `brief`, or leaves it out if that is empty.
    """

    def __init__(self, *args: Any, brief: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.brief = brief


class ConnectionOption(SharedOption):
    """An option that says which cluster a command asks, and how."""


class PrintOption(SharedOption):
    """An option that says how an answer is printed."""


class PagedHelp(click.Command):
    """A command with `-h`, whose help is printed as answers are: on a terminal through the pager if it is long."""

    def get_help_option_names(self, _ctx: click.Context) -> list[str]:
        return ["-h", "--help"]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _print_help
        return option


def _print_help(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from herodotus_cli.environment import environment_of  # here, because the environment needs options

        environment_of(ctx).print_text(f"{ctx.get_help()}\n")
        ctx.exit()


class PluginCommand(PagedHelp):
    """A command whose help has its own options, and says where those are described that it shares with others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options to the formatter."""
        every = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        records = [(option, record) for option in every if (record := option.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(
                [
                    (names, option.brief if isinstance(option, SharedOption) else text)
                    for option, (names, text) in records
                    if not isinstance(option, SharedOption) or option.brief
                ]
            )
        kinds = {type(option) for option in every}
        shared = [words for kind, words in _DESCRIBED.items() if kind in kinds]
        if shared:
            formatter.write_paragraph()
            formatter.write_text(f"{' and '.join(shared).capitalize()}: kubectl herodotus options")


# By the class of shared options: what they are about, for the help of a command that has them.
_DESCRIBED: Final = {
    ConnectionOption: "cluster (--context, …)",
    PrintOption: "output (--color, …)",
}


class CommandWithGoals(PluginCommand):
    """A command whose place another one takes if its first word names that, such as `drain` in `plan drain`.

    `add_goal` declares such a command, and `load_goals` returns those of another module by their words. An error about
    a first word that is similar to one of them names it.
    """

    def __init__(
        self, *args: Any, load_goals: Callable[[], Mapping[str, click.Command]] | None = None, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self._goals: dict[str, click.Command] = {}
        self._load_goals = load_goals

    def add_goal(self, command: Goal) -> Goal:
        """Let the command take this one's place where the first word is its name. Return the command: a decorator."""
        self._goals[str(command.name)] = command
        return command

    def list_goals(self) -> Mapping[str, click.Command]:
        """Return the commands that take this one's place, by the first word."""
        return self._load_goals() if self._load_goals else self._goals

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the goal's command, or of this one."""
        word = args[0] if args else ""
        goal = self.list_goals().get(word) if word[:1].isalpha() else None
        if goal is not None:
            return goal.make_context(f"{info_name} {word}", args[1:], parent, **extra)
        try:
            ctx = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as e:
            raise self._add_hints(e, word) from None
        ctx.meta[_FIRST_WORD] = word
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error about an object that does not exist gets the hint, too."""
        try:
            return super().invoke(ctx)
        except click.UsageError as e:
            raise self._add_hints(e, ctx.meta[_FIRST_WORD]) from None
        except ServerError as e:
            is_missing = e.reason == "NotFound"
            raise (e.with_hints(self._list_hints(ctx.meta[_FIRST_WORD])) if is_missing else e) from e.__cause__

    def _add_hints(self, error: click.UsageError, word: str) -> click.UsageError:
        hints = self._list_hints(word)
        return click.UsageError("\n  ".join((error.format_message(), *hints)), error.ctx) if hints else error

    def _list_hints(self, word: str) -> list[str]:
        """Return a hint with the goals that the user may have meant by the first word, or []."""
        from difflib import get_close_matches  # here, because only failures need it

        meant = get_close_matches(word, self.list_goals(), n=2) if word else []
        return (
            [f"did you mean: {' or '.join(f'kubectl herodotus {self.name} {goal}' for goal in meant)}"] if meant else []
        )


def command(**attributes: Any) -> Callable[[Callable[..., Any]], PluginCommand]:
    """Return the decorator that makes a command of the plugin from a function. `attributes` are click's."""
    return click.command(cls=PluginCommand, **attributes)


def _connection_option(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    return click.option(*names, cls=ConnectionOption, **attributes)


def _print_option(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    return click.option(*names, cls=PrintOption, **attributes)


_CONNECTION = (
    _connection_option(
        "--context",
        metavar="NAME",
        shell_complete=completion_values.contexts,
        help="Context of the kubeconfig to use.",
    ),
    _connection_option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="Kubeconfig to use instead of $KUBECONFIG or ~/.kube/config.",
    ),
    _connection_option("--as", "as_user", metavar="USER", help="Impersonate this user, as kubectl does."),
    _connection_option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="With --as: and this group."),
    _connection_option(
        "--endpoint",
        type=Endpoint(),
        metavar="URL",
        help="URL of the decisions service, instead of the route through the API server [$HERODOTUS_ENDPOINT].",
    ),
    _connection_option(
        "--service",
        type=ServiceName(),
        metavar="NS/NAME:PORT",
        help="Service of the decisions service; NS/http:NAME:PORT without TLS"
        " [$HERODOTUS_SERVICE; herodotus/herodotus-endpoint:8000].",
    ),
    _connection_option(
        "--cluster",
        metavar="NAME",
        shell_complete=completion_values.clusters,
        help="Another cluster whose records the service has; `clusters` lists them [the service's own].",
    ),
    _connection_option(
        "--local",
        is_flag=True,
        help="Read the cluster and evaluate it here, as is done where there is no decisions service.",
    ),
    _connection_option(
        "--config",
        "scheduler_config",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="With --local: the KubeSchedulerConfiguration [the cluster's, where it can be read].",
    ),
    _connection_option(
        "--kubernetes-version",
        metavar="VERSION",
        shell_complete=completion_values.versions,
        help="With --local: evaluate by the rules of this kube-scheduler, such as v1.34.2 [the cluster's].",
    ),
    _connection_option(
        "--request-timeout", type=Duration(), metavar="DURATION", help="Time limit of a request; 0: none [30s]."
    ),
)
manifest_option = click.option(
    "-f",
    "--filename",
    "file",
    type=click.Path(),
    metavar="FILE",
    default="",
    help="A manifest, YAML or JSON; - is stdin.",
)
scheduler_option = click.option(
    "--scheduler",
    metavar="NAME",
    default="",
    shell_complete=completion_values.schedulers,
    help="Decide as if the object named this scheduler.",
)


def actions_option(name: str, help_text: str) -> Callable[[Command], Command]:
    """Return the decorator for an option that takes actions of `whatif`, such as 'cordon n2', and may be repeated."""
    return click.option(
        name, multiple=True, metavar="'ACTION …'", shell_complete=completion_values.actions, help=help_text
    )


cluster_files_option = click.option(
    "--cluster-file",
    "cluster_files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Without a cluster: its objects as kubectl get -o yaml printed them, repeatable.",
)
_NAMESPACE = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=completion_values.namespaces,
    help="Namespace of the pod [the context's].",
)
_IGNORED_NAMESPACE = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=completion_values.namespaces,
    help="Ignored: the answer is about the whole cluster.",
)
_ALL_NAMESPACES = click.option("-A", "--all-namespaces", is_flag=True, help="Every namespace.")
since_option = click.option(
    "--since", type=PositiveDuration(), default="24h", metavar="DURATION", help="How far back [24h]."
)
_SELECTOR = click.option(
    "-l",
    "--selector",
    default="",
    metavar="QUERY",
    help="Only pods with these labels: key=value, key!=value, key, !key, key in (a,b).",
)
_OUTPUT = (
    _print_option(
        "-o",
        "--output",
        "format_",
        type=OutputFormat(),
        metavar="FORMAT",
        brief="wide, json, yaml, brief, name, or a template.",
        help="wide: more columns; json, yaml: the document; brief: its headline, cause and best fix as a line of JSON;"
        " name: KIND/NAME; jsonpath=TEMPLATE, go-template=TEMPLATE or custom-columns=HEADER:PATH,…: parts of the"
        " document.",
    ),
    _print_option("--utc", is_flag=True, help="Times in UTC instead of ages."),
    _print_option("--no-headers", is_flag=True, help="Print only the rows of tables: no headers and no sentences."),
    _print_option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set [auto].",
    ),
)


def connection_options(command: Command) -> Command:
    """Add to a command the options that name the cluster or the decisions service, and the time limit."""
    return _add(command, _CONNECTION)


def namespace_option(command: Command) -> Command:
    """Add -n to a command that is about one namespaced object."""
    return _add(command, (_NAMESPACE,))


def namespaces_options(command: Command) -> Command:
    """Add -n and -A to a command that is about many namespaced objects."""
    return _add(command, (_NAMESPACE, _ALL_NAMESPACES))


def ignored_namespace_option(command: Command) -> Command:
    """Add an option -n without effect to a command that is about objects without a namespace."""
    return _add(command, (_IGNORED_NAMESPACE,))


def selector_option(command: Command) -> Command:
    """Add the option -l (label selector) to a command that is about many pods."""
    return _add(command, (_SELECTOR,))


def output_options(command: Command) -> Command:
    """Add to a command the options for the format of its output: -o, --utc, --no-headers, --color."""
    return _add(command, _OUTPUT)


def watch_option(command: Command) -> Command:
    """Add -w to a command that can print again after each new decision."""
    return _add(
        command,
        (
            click.option(
                "-w", "--watch", is_flag=True, help="Repeat the answer when it changes; a terminal marks what is new."
            ),
        ),
    )


def _add(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
