"""`kubectl herodotus report`: an answer as one file for a ticket, a chat or a postmortem.

Owns: which questions have reports, what a report says of its making. Does not own: the answers and their screens (the
other commands), the syntax of a file (`reports`).

A report asks with the reader's rights, so it discloses what the answer discloses.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from herodotus_cli import options
from herodotus_cli.commands import ALIASES, load_command
from herodotus_cli.environment import Environment, Json, Screen, build_blocks, environment_of
from herodotus_cli.errors import CliError, print_to_stderr
from herodotus_cli.render.reports import FORMATS, AnswerReport, Section, draw
from herodotus_record.version import __version__

if TYPE_CHECKING:
    from herodotus_cli.render.screen_elements import ViewOptions

# The questions that have reports, each with the command that answers it.
SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (name,) for name in ("pod", "node", "workload", "podgroup", "pending", "compare", "balance")},
    "drain": ("whatif", "drain"),
    **{name: (name,) for name in ("whatif", "capacity", "consolidate", "nodegroups", "preemptions")},
}
_WHOLE_POD: Final = ("--all", "--timeline")  # a row for each node, and what happened
_NARROWED: Final = ("--node", "--attempt", "--attempts", "--node-groups", *_WHOLE_POD)


@options.command(
    short_help="Write an answer as one HTML, Markdown or SVG file.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
@click.argument("subject", metavar=f"{{{'|'.join(SUBJECTS)}}}")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS AND OPTIONS]...")
@click.option("-o", "--output", "format_", type=click.Choice(list(FORMATS)), help="Format of the file [html].")
@click.option("--to", "file", metavar="FILE", type=click.Path(path_type=Path), help="File to write [standard output].")
@click.pass_context
def report(
    ctx: click.Context, /, subject: str, arguments: tuple[str, ...], format_: str | None, file: Path | None
) -> None:
    """Write the answer to a question as one file for a ticket, a chat or a postmortem.

    What follows SUBJECT are the arguments and options of the command that answers it; drain stands for whatif drain.
    The file has the headline, causes and fixes, for a pod also the timeline and every node with its filters and scores,
    and when, how and by which versions it was made. It needs no other file and no script. The end of FILE's name tells
    the format, too.

    \b
    kubectl herodotus report pod payments-0 -n shop --to payments-0.html
    kubectl herodotus report drain worker-3 -o md
    """
    subject = ALIASES.get(subject, subject)
    if subject not in SUBJECTS:
        raise click.UsageError(f"there is no report on {subject!r}: use one of {', '.join(SUBJECTS)}", ctx)
    text = draw(build_report(subject, arguments, environment_of(ctx)), format_ or _find_format(file))
    if file is None:
        environment_of(ctx).out.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as e:
        raise CliError(f"error: cannot write {file}: {e.strerror}") from None
    print_to_stderr(f"{file}: {len(text.encode()):,} bytes")


def build_report(subject: str, arguments: Sequence[str], environment: Environment) -> AnswerReport:
    """Ask the question and return the report on its answer. Raises CliError if it has none."""
    from herodotus_cli.render.screen_elements import SplitLine, TextLine, ViewOptions

    given = {argument.partition("=")[0] for argument in arguments}
    is_whole_pod = subject == "pod" and not given & set(_NARROWED)
    answers = _ask((*SUBJECTS[subject], *arguments, *(_WHOLE_POD if is_whole_pod else ())), environment)
    view = ViewOptions(environment.now(), wide=True, utc=True)
    sections = [Section("", build_blocks(screen, view)) for _, screen in answers]
    if not sections:
        raise CliError("error: the answer has no screen to report", ["ask without report to see it"])
    question = shlex.join(("kubectl", "herodotus", *SUBJECTS[subject], *arguments))
    facts = list(_list_facts(question, answers[0][0], view))
    first, *others = sections[0].blocks
    if isinstance(first, SplitLine):  # what the answer is about, which the title says
        sections[0] = Section("", [*([TextLine(first.right, "dim")] if first.right else []), *others])
    return AnswerReport(first.left if isinstance(first, SplitLine) else question, facts, sections)


def _ask(arguments: Sequence[str], environment: Environment) -> list[tuple[Json, Screen]]:
    """Run a command and return its answers, each with the function that builds its screen."""
    answers: list[tuple[Json, Screen]] = []
    asking = environment._replace(collect=lambda document, screen: answers.append((dict(document), screen)))
    name, *more = arguments
    with load_command(name).make_context(f"kubectl herodotus {name}", more, obj=asking) as ctx:
        ctx.command.invoke(ctx)
    return answers


def _list_facts(question: str, document: Mapping[str, Any], view: ViewOptions) -> Iterator[tuple[str, str]]:
    """Yield what the report says of its making: the question, the time, where the answer comes from, versions."""
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


def _find_format(file: Path | None) -> str:
    """Return the format of a file by the end of its name; HTML if that tells none."""
    return next((name for name, end in FORMATS.items() if file is not None and file.suffix == end), "html")
