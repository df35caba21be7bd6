"""The screen of `simulate`: Simulation -> blocks.

Owns: the figures of the variants side by side, each with its difference from the first, those over time, and the first
pods on other nodes. Does not own: the figures, the comparison of two decisions (`comparison`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from herodotus_cli.render import comparison
from herodotus_cli.render.formatting import format_duration
from herodotus_cli.render.screen_elements import (
    Block,
    Plot,
    PlotLine,
    SplitLine,
    TextLine,
    ViewOptions,
    build_table,
    join_sections,
)

Json = dict[str, Any]


class _Figure(NamedTuple):
    """A row of the table: its title, the value of a run, and the format of a number. `wide` is for -o wide alone."""

    title: str
    read: Callable[[Json], float]
    form: str
    wide: bool = False


NOTHING_CHANGED = "what-if: nothing is changed"
_MAX_DIFFERENCES = 5  # pods on other nodes, without -o wide
_FIGURES = (
    _Figure("pods arrived", lambda run: run["arrived"], ".0f"),
    _Figure("pods placed", lambda run: run["placed"], ".0f"),
    _Figure("pods never placed", lambda run: run["neverPlaced"], ".0f"),
    _Figure("pods preempted", lambda run: run["preempted"], ".0f"),
    _Figure("attempts", lambda run: run["attempts"], ".0f", wide=True),
    _Figure("seconds to place, p50", lambda run: run["waitedP50S"], ".1f"),
    _Figure("seconds to place, p99", lambda run: run["waitedP99S"], ".1f"),
    _Figure("most pods waiting at once", lambda run: run["mostWaiting"], ".0f", wide=True),
    _Figure("nodes with pods, mean", lambda run: run["nodesInUse"], ".1f"),
    _Figure("nodes with pods, most", lambda run: run["mostNodesInUse"], ".0f", wide=True),
    _Figure("removable nodes, mean", lambda run: run["removableNodes"], ".1f"),
)
_COSTS = (  # with prices
    _Figure("cost", lambda run: run["cost"], ".2f"),
    _Figure("cost of nodes with pods", lambda run: run["costInUse"], ".2f"),
)
_SHARES = (
    ("requested, mean", "mean", False),
    ("requested, most", "peak", True),
    ("largest free", "largestFree", False),
    ("fragmentation", "fragmentation", False),
)


def build_screen(answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen: the headline, the table, and what the trace does not know."""
    first, *others = answer["variants"]
    header = ["FIGURE", first["name"]]
    for variant in others:
        header += [variant["name"], "DIFFERENCE"]
    rows = []
    for figure in _list_figures(first["runs"][0]):
        if figure.wide and not view.wide:
            continue
        before = [figure.read(run) for run in first["runs"]]
        row = [figure.title, _summarize(before, figure.form, spread=view.wide)]
        for variant in others:
            values = [figure.read(run) for run in variant["runs"]]
            differences = [value - old for value, old in zip(values, before, strict=True)]
            row += [
                _summarize(values, figure.form, spread=view.wide),
                _summarize(differences, f"+{figure.form}"),
            ]
        rows.append(row)
    if others:
        row = ["pods on another node", "–"]
        for variant in others:
            row += ["–", _summarize([run["otherNode"] for run in variant["runs"]], ".0f")]
        rows.append(row)
    title = f"simulate {answer['trace']}" + (f" without {answer['removedNodes']}" if answer["removedNodes"] else "")
    return join_sections(
        [
            [SplitLine(title, NOTHING_CHANGED)],
            [TextLine(answer["headline"])],
            [build_table(header, rows, right=range(1, len(header)))],
            *([plot] for plot in (_list_plots(answer["variants"]) if view.wide else ())),
            _list_differences(answer, view),
            [TextLine(f"note: {each}", "dim") for each in answer["missing"]],
        ]
    )


def build_pod_screen(title: str, answer: Json, view: ViewOptions) -> list[Block]:
    """Return the blocks of the screen that compares the decisions of two variants about one pod."""
    lead = SplitLine(f"{title}  {answer['metadata']['namespace']}/{answer['metadata']['name']}", NOTHING_CHANGED)
    return join_sections([[lead], comparison.build_pods_screen(answer, view)])


def _list_plots(variants: Sequence[Json]) -> Iterator[Plot]:
    """Yield the plots over time: shares and fragmentation of each resource, and waiting pods; means over the seeds.

    Yields none if there are fewer than two moments.
    """
    times = [moment["atS"] for moment in variants[0]["runs"][0]["moments"]]
    if len(times) < 2:
        return

    def plot(title: str, read: Callable[[Json], float]) -> Plot:
        lines = [PlotLine(each["name"], _compute_means(each["runs"], read)) for each in variants]
        return Plot(title, format_duration(times[0]), format_duration(times[-1]), tuple(lines))

    for resource in variants[0]["runs"][0]["resources"]:
        yield plot(f"{resource} requested, %", _read_requested(resource))
        yield plot(f"{resource} fragmentation, %", _read_fragmentation(resource))
    yield plot("pods waiting", lambda moment: moment["waiting"])


def _compute_means(runs: Sequence[Json], read: Callable[[Json], float]) -> tuple[float, ...]:
    """Return the means over runs of a figure at each moment; runs of one trace have the same moments."""
    return tuple(sum(map(read, moments)) / len(runs) for moments in zip(*(run["moments"] for run in runs), strict=True))


def _read_requested(resource: str) -> Callable[[Json], float]:
    return lambda moment: 100.0 * moment["requested"][resource] / (moment["allocatable"][resource] or 1)


def _read_fragmentation(resource: str) -> Callable[[Json], float]:
    return lambda moment: 100.0 * float(moment["fragmentation"][resource])


def _list_differences(answer: Json, view: ViewOptions) -> list[Block]:
    """Return a table of the first pods on other nodes; with -o wide, of all that the document names."""
    differences = answer["differences"] if view.wide else answer["differences"][:_MAX_DIFFERENCES]
    if not differences:
        return []
    header = ("POD ON ANOTHER NODE", "AT", *(variant["name"] for variant in answer["variants"]))
    rows = [
        (each["pod"], f"{each['atS']:.1f}s", *("–" if node is None else node for node in each["nodes"]))
        for each in differences
    ]
    return [build_table(header, rows, right=(1,)), TextLine("why: the same command with --pod NAMESPACE/NAME", "dim")]


def _list_figures(run: Json) -> Iterator[_Figure]:
    """Yield the rows of the table that have a value for each variant."""
    yield from _FIGURES
    if run["cost"] is not None:
        yield from _COSTS
    for label in run["skew"]:
        yield _Figure(f"skew over {label}", _read_skew(label), ".2f", wide=True)
    for resource in run["resources"]:
        for title, key, wide in _SHARES:
            yield _Figure(f"{resource} {title}, %", _read_share(resource, key), ".2f", wide)


def _read_share(resource: str, key: str) -> Callable[[Json], float]:
    return lambda run: 100.0 * float(run["resources"][resource][key])


def _read_skew(label: str) -> Callable[[Json], float]:
    return lambda run: float(run["skew"].get(label, 0.0))


def _summarize(values: Sequence[float], form: str, *, spread: bool = True) -> str:
    """Return the mean of the values, and with `spread` the lowest and the highest if they differ.

    The mean of several whole numbers has a digit behind the point.
    """
    mean = _format(sum(values) / len(values), form if len(values) == 1 else form.replace(".0f", ".1f"))
    lowest, highest = _format(min(values), form), _format(max(values), form)
    return f"{mean} ({lowest} to {highest})" if spread and lowest != highest else mean


def _format(value: float, form: str) -> str:
    """Return a number; one with a sign that rounds to 0 has none."""
    text = format(value, form)
    return text.lstrip("+-") if not float(text) else text
