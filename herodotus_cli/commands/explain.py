"""`kubectl herodotus explain PLUGIN`: what a plugin checks, which fields it reads, and how to help a rejected pod.

Owns: its options, and finding the plugin. Does not own: the texts (`herodotus_answers.plugin_reference`), the screen.
"""

from __future__ import annotations

import click

from herodotus_cli import option_values, options
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.option_values import OutputOptions

REASONS = "reasons"  # in place of a plugin


def _complete(_ctx: click.Context, _parameter: click.Parameter, word: str) -> list[str]:
    from herodotus_answers.plugin_reference import PLUGINS  # here and below, because help texts do not need it
    from herodotus_answers.terms import list_terms

    names = (*(plugin.plugin for plugin in PLUGINS), REASONS, *(term for term in list_terms() if " " not in term))
    return [name for name in names if name.lower().startswith(word.lower())]


@options.command(short_help="Explain a plugin, a filter or a reason: what it checks, and how to fix it.")
@click.argument("words", metavar="[PLUGIN | REASON | WORD]", nargs=-1, shell_complete=_complete)
@options.output_options
@click.pass_context
def explain(ctx: click.Context, /, words: tuple[str, ...], **_given: object) -> None:
    """Explain a plugin, a filter or a reason: what it checks, which fields it reads, how to fix it; or a screen's word.

    REASON is a sentence of kube-scheduler, as in a FailedScheduling event, or a reason's code. WORD is one that a
    screen prints: a heading, a state, a queue, or the event that requeued a pod. Without an argument, lists the
    plugins; with `reasons`, the codes of all reasons. Needs no service.

    \b
    kubectl herodotus explain TaintToleration
    kubectl herodotus explain "Insufficient cpu"
    kubectl herodotus explain AssignedPodDelete
    kubectl herodotus explain reasons -o json
    """
    run(" ".join(words), option_values.output_options(ctx), environment_of(ctx))


def run(words: str, output: OutputOptions, environment: Environment) -> None:
    """Print what the named plugin does, all reasons, or a list of all plugins if `words` is empty."""
    from herodotus_answers.plugin_reference import PLUGINS, build_plugin_explanation, build_plugin_list, find_plugins
    from herodotus_cli.render import lists

    if not words:
        document = build_plugin_list()
        environment.print_answer(document, output, lambda _: lists.build_plugins(document))
        return
    if words == REASONS:
        from herodotus_answers.reason_list import build_reason_list

        reason_list = build_reason_list()
        environment.print_answer({**reason_list}, output, lambda _: lists.build_reasons(reason_list))
        return
    from herodotus_answers.terms import find_term, list_terms
    from herodotus_cli.render.formatting import SHORT

    words = next((plugin for plugin, short in SHORT.items() if short == words), words)  # as columns of scores name them
    plugins, term = find_plugins(words), find_term(words)
    # kube-scheduler's sentences about preemption are reasons of a plugin that has many; their meaning says more
    if term is not None and (not plugins or term["of"] == "word"):
        environment.print_answer({**term}, output, lambda _: lists.build_term(term))
        return
    if not plugins:
        from difflib import get_close_matches

        known = [name for plugin in PLUGINS for name in (plugin.plugin, *plugin.codes)]
        names = {name.lower(): name for name in [*known, *list_terms()]}
        close = [names[match] for match in get_close_matches(words.lower(), names, n=2)]
        hint = f"did you mean {' or '.join(close)}?" if close else "all of them: kubectl herodotus explain"
        raise click.UsageError(
            f"{words[:60]!r} is neither a plugin of kube-scheduler, one of its reasons, nor a word of a screen; {hint}"
        )
    answer = build_plugin_explanation(plugins[0])
    environment.print_answer(answer, output, lambda _: lists.build_plugin(answer, term))
