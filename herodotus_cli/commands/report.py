"""`kubectl herodotus report`: an answer as one file for a ticket, a chat or a postmortem.

Owns: which questions have reports, what a report says of its making. Does not own: the answers and their screens (the
other commands), the syntax of a file (`reports`).

A report asks with the reader's rights, so it discloses what the answer discloses.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from herodotus_cli import option_values, options
from herodotus_cli.commands import ALIASES, load_command
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, Json, Screen, build_blocks, environment_of
from herodotus_cli.errors import CliError, print_to_stderr
from herodotus_cli.render.reports import FORMATS, AnswerReport, Section, draw
from herodotus_cli.render.screen_elements import Block, SplitLine, Table, TextLine, ViewOptions
from herodotus_record.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The questions that have reports, each with the command that answers it.
SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name,) for name in ("pod", "node", "workload", "podgroup", "pending", "compare", "balance")},
    "drain": ("whatif", "drain"),
    **{
        name: (name,) for name in ("whatif", "plan", "capacity", "consolidate", "nodegroups", "preemptions", "simulate")
    },
}
_WHOLE_POD: Final = ("--all", "--timeline")  # a row for each node, and what happened
_NOT_FOR_TERMINALS: Final = ("html", "svg")  # markup that nobody reads
_NARROWED: Final = ("--node", "--attempt", "--attempts", "--node-groups", *_WHOLE_POD)


def _complete_subject(_ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    return [subject for subject in SUBJECTS if subject.startswith(word)]


def _complete_argument(ctx: click.Context, _parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Return the completions that the subject's own command has for the word."""
    from click.shell_completion import ShellComplete  # here, because only completion needs it

    name, *more = SUBJECTS[ctx.params["subject"]]
    asked = ShellComplete(load_command(name), {"obj": environment_of(ctx)}, name, "")
    return asked.get_completions([*more, *(ctx.params.get("arguments") or ())], word)


@options.command(
    short_help="Write an answer as one HTML, Markdown or SVG file.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.argument("subject", metavar="SUBJECT", shell_complete=_complete_subject)
@click.argument(
    "arguments",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[ARGUMENTS AND OPTIONS]...",
    shell_complete=_complete_argument,
)
@click.option(
    "-o",
    "--output",
    "format_",
    metavar=f"[{'|'.join(FORMATS)}]",
    shell_complete=lambda _ctx, _parameter, word: [name for name in FORMATS if name.startswith(word)],
    help="Format of the file [html].",
)
@click.option(
    "--to",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File to write [standard output, unless that is a terminal].",
)
@click.pass_context
def report(
    ctx: click.Context, /, subject: str, arguments: tuple[str, ...], format_: str | None, file: Path | None
) -> None:
    """Write the answer to a question as one file for a ticket, a chat or a postmortem.

    SUBJECT is pod, node, workload, podgroup, pending, compare, balance, drain (whatif drain), whatif, plan, capacity,
    consolidate, nodegroups, preemptions or simulate. What follows are the arguments and options of the command that
    answers it. The file has the headline, causes and fixes, and when, how and by which versions the answer was made.
    For a pod it also has the timeline and every node with its filters and scores, for a simulation plots over time,
    and for an answer about the present cluster its nodes, requests and versions. It needs no other file and no script.
    The end of FILE's name tells the format, too.

    \b
    kubectl herodotus report pod payments-0 -n shop --to payments-0.html
    kubectl herodotus report drain worker-3 -o md
    """
    subject = ALIASES.get(subject, subject)
    if subject not in SUBJECTS:
        raise click.UsageError(f"there is no report on {subject!r}: use one of {', '.join(SUBJECTS)}", ctx)
    if format_ not in (None, *FORMATS):
        question = shlex.join(("kubectl", "herodotus", *SUBJECTS[subject], *arguments, "-o", str(format_)))
        raise click.UsageError(f"a report is {', '.join(FORMATS)}; for the document ask without report: {question}")
    written = format_ or _find_format(file)
    if written is None:
        question = shlex.join(("kubectl", "herodotus", *SUBJECTS[subject], *arguments, "-o", "json"))
        ends = ", ".join(FORMATS.values())
        raise click.UsageError(f"{file} has none of the endings {ends}: give -o; the document as JSON: {question}", ctx)
    if file is None and written in _NOT_FOR_TERMINALS and environment_of(ctx).out.isatty():
        name = "-".join((subject, *itertools.takewhile(lambda word: not word.startswith("-"), arguments)))
        hint = f"into a file: --to {shlex.quote(name.replace('/', '-'))}.{written}"
        raise CliError(f"error: {written} is not for a terminal", [hint, "readable here: -o md"])
    text = draw(build_report(subject, arguments, environment_of(ctx)), written)
    if file is None:
        environment_of(ctx).out.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as e:
        raise CliError(f"error: cannot write {file}: {e.strerror}") from None
    print_to_stderr(f"{file}: {len(text.encode()):,} bytes")


def build_report(subject: str, arguments: Sequence[str], environment: Environment) -> AnswerReport:
    """Run the command for a subject, and return the report on its answer. Raises CliError if it prints no screen."""
    given = {argument.partition("=")[0] for argument in arguments}
    is_whole_pod = subject == "pod" and not given & set(_NARROWED)
    asked = (*SUBJECTS[subject], *arguments, *(_WHOLE_POD if is_whole_pod else ()))
    answers, connection = _ask(asked, environment)
    view = ViewOptions(environment.now(), wide=True, utc=True, report=True)
    sections = [Section("", build_blocks(screen, view)) for _, screen in answers]
    if not sections:
        raise CliError("error: the answer has no screen to report", ["ask without report to see it"])
    if connection is not None:
        sections.append(_read_cluster(connection, view, sections, environment))
    question = shlex.join(("kubectl", "herodotus", *SUBJECTS[subject], *arguments))
    facts = list(_list_facts(question, answers[0][0], view))
    first = next((block for block in sections[0].blocks if isinstance(block, SplitLine)), None)
    if first is not None:  # what the answer is about, which the title says
        state = [TextLine(first.right, "dim")] if first.right else []
        blocks = (state if block is first else [block] for block in sections[0].blocks)
        sections[0] = Section("", [block for part in blocks for block in part])
    return AnswerReport(question if first is None else first.left, facts, sections)


def _read_cluster(
    connection: ConnectionSettings, view: ViewOptions, sections: Sequence[Section], environment: Environment
) -> Section:
    """Return the section on the cluster's present nodes, or one that says why they cannot be read.

    Nodes that `sections` name are listed first.
    """
    from herodotus_cli.commands import node
    from herodotus_cli.render.reports import cluster
    from herodotus_cli.transport.kubectl import KubectlTransport

    try:
        nodes = node.read_nodes(connection, environment)
    except CliError as e:
        return cluster.build_unread_section(e.message.removeprefix("error: "))
    try:
        server = KubectlTransport(connection, environment.environ).get_from_api_server("/version")
    except CliError:
        server = {}
    words = {word for section in sections for block in section.blocks for word in _list_words(block)}
    return cluster.build_section(nodes, str(server.get("gitVersion", "")), words, view)


def _list_words(block: Block) -> Iterator[str]:
    """Yield the words of a block, without punctuation around them."""
    match block:
        case Table():
            texts = [cell.text for row in block.rows for cell in row]
        case TextLine():
            texts = [block.text]
        case SplitLine():
            texts = [block.left, block.right]
        case _:
            texts = []
    yield from (word.strip("(),:;.") for text in texts for word in text.split())


def _ask(
    arguments: Sequence[str], environment: Environment
) -> tuple[list[tuple[Json, Screen]], ConnectionSettings | None]:
    """Run a command and return its answers, each with the function that builds its screen, and its connection.

    The connection is None if the answer is not about the cluster that the API server is of.
    """
    answers: list[tuple[Json, Screen]] = []
    asking = environment._replace(collect=lambda document, screen: answers.append((dict(document), screen)))
    name, *more = arguments
    outer = click.get_current_context(silent=True)
    parent = outer.parent if outer else None  # the options before the command's name
    with load_command(name).make_context(f"kubectl herodotus {name}", more, parent, obj=asking) as ctx:
        if ctx.params.get("watch"):
            raise click.UsageError("a report is about one moment: leave out -w")
        connection = option_values.connection_settings(ctx, environment.environ)
        ctx.command.invoke(ctx)
        has_cluster = any(isinstance(each, options.ConnectionOption) for each in ctx.command.params)
    is_there = has_cluster and connection.reaches_cluster and not ctx.params.get("cluster_files")
    return answers, connection if is_there else None


def _list_facts(question: str, document: Mapping[str, Any], view: ViewOptions) -> Iterator[tuple[str, str]]:
    """Yield (label, text) pairs on how the report was made: the question, time, answer's source and versions."""
    attempt = document.get("attempt") or {}
    yield "Question", question
    yield "Made", _format_time(view.now)
    source = attempt.get("source") or document.get("source") or ""
    started = attempt.get("startedAt")
    if source:
        when = f", {_format_time(datetime.fromisoformat(started))}" if started else ""
        yield "Answer", f"{_SOURCES.get(source, source)}{when}"
    if attempt.get("scheduler"):
        yield "Scheduler", f"{attempt['scheduler']}, version {attempt['version']}, profile {attempt['profile']}"
    if attempt.get("rules"):
        yield "Rules", str(attempt["rules"])
    yield "Plugin", f"kubectl herodotus {__version__}"


# By the source of an answer: what it was made from.
_SOURCES: Final = {
    "scheduler": "recorded by the scheduler that decided",
    "observer": "computed by an observer of the scheduler that decided",
    "evaluated": "evaluated on the cluster as it was when the report was made",
    "conditions": "from the pods' own conditions",
    "kube-apiserver": "from the objects as they were when the report was made",
}


def _format_time(time: datetime) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _find_format(file: Path | None) -> str | None:
    """Return the format for the ending of a file's name, `html` without an ending or file, None for another ending."""
    if file is None or not file.suffix:
        return "html"
    return next((name for name, end in FORMATS.items() if file.suffix == end), None)
