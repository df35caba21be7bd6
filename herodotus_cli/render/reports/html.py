"""Draws a report as an HTML page that needs no other file and no script.

Owns: elements and their style. Does not own: what the report says.

Invariant: every text is escaped. Colour only repeats what a word or a sign says. Tables scroll by themselves where a
phone is too narrow, and are broken over pages in print.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as quote
from typing import Final

from herodotus_cli.render.reports import ABOUT, AnswerReport, Section
from herodotus_cli.render.screen_elements import (
    Blank,
    Block,
    Cell,
    Plot,
    SplitLine,
    Table,
    TextLine,
    escape_block,
    format_plotted,
)
from herodotus_record.escaping import escape

# The contrast of every colour with its background is at least 4.5 to 1 (WCAG 2.2, 1.4.3).
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --dim: #57606a; --line: #d0d7de; --code: #f3f5f7;
  --good: #116329; --bad: #a40e26; --blue: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --dim: #9aa4af; --line: #30363d;
  --code: #161b22; --good: #4ac26b; --bad: #ff8182; --blue: #79c0ff; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 80rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 4px; margin: .25rem 0;
  padding: .5rem .75rem; white-space: pre-wrap; overflow-wrap: anywhere; }
pre, td.number { font-family: ui-monospace, monospace; font-size: .9em; }
.scroll { overflow-x: auto; margin: .75rem 0; }
.scroll:focus-visible { outline: 2px solid var(--ink); }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .2rem 1.25rem .2rem 0; border-bottom: 1px solid var(--line); }
thead th { white-space: nowrap; color: var(--dim); font-size: .8em; }
tbody th { white-space: nowrap; font-size: .85em; }
td:first-child, .name { white-space: nowrap; }
tbody th + td { overflow-wrap: anywhere; }
p.good, p.bad { font-weight: 600; font-size: 1.1rem; }
.number { text-align: right; }
.strong { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); } .dim { color: var(--dim); }
figure { margin: 1.25rem 0; max-width: 50rem; break-inside: avoid; }
figcaption { font-weight: 600; font-size: .9em; }
.plot { display: grid; grid-template-columns: max-content 1fr; gap: .25rem .5rem; font-size: .85em; color: var(--dim); }
.plot svg { box-sizing: border-box; width: 100%; height: 8rem; border: solid var(--line); border-width: 0 0 1px 1px; }
.scale, .times { display: flex; justify-content: space-between; }
.scale { flex-direction: column; text-align: right; }
.times { grid-column: 2; }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.5rem; margin: .25rem 0 0; padding: 0; }
.key li { overflow-wrap: anywhere; }
.key svg { width: 30px; height: 4px; margin-right: .5rem; vertical-align: middle; }
.line { fill: none; stroke: var(--ink); stroke-width: 2; vector-effect: non-scaling-stroke; }
.l1 { stroke: var(--blue); stroke-dasharray: 8 4; } .l2 { stroke: var(--good); stroke-dasharray: 2 3; }
.l3 { stroke: var(--bad); stroke-dasharray: 10 3 2 3; }
@media screen and (max-width: 40rem) {
  .long tr { display: block; padding: .2rem 0; border-bottom: 1px solid var(--line); }
  .long th, .long td { display: inline-block; border: 0; padding: 0 .75rem 0 0; white-space: normal; }
  .long td:last-child { display: block; overflow-wrap: anywhere; } }
@page { margin: 1.5cm; }
@media print { body { font-size: 10pt; } main { padding: 0; max-width: none; } .scroll { overflow: visible; }
  td { overflow-wrap: break-word; } thead th, tbody th { white-space: normal; } th, td { padding-right: .75rem; }
  .wide th, .wide td { white-space: normal; overflow-wrap: anywhere; padding-right: .4rem; }
  thead { display: table-header-group; } tr, pre { break-inside: avoid; } }
"""


_PLOT_WIDTH: Final = 1000  # of the coordinates, which any width shows; strokes need some beside them
_PLOT_HEIGHT: Final = 100
_MAX_UNBROKEN: Final = 40  # characters of a name in a cell, with which most tables still fit on paper
_PHONE: Final = 45  # characters of a row that a phone shows
_MAX_PRINTED: Final = 7  # columns that fit on paper with unbroken names
_LOOKS: Final = 4  # of lines, by stroke and colour


def draw(report: AnswerReport) -> str:
    """Return the report as the text of an HTML file."""
    facts = "".join(f"<dt>{_text(label)}</dt><dd>{_text(text)}</dd>\n" for label, text in report.facts)
    body = "".join(_section(number, section) for number, section in enumerate(report.sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(report.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_text(report.title)}</h1>\n{body}<footer>\n<h2>{ABOUT}</h2>\n<dl>\n{facts}</dl>\n</footer>\n</main>\n"
        "</body>\n</html>\n"
    )


def _section(number: int, section: Section) -> str:
    heading = f"<h2>{_text(section.title)}</h2>\n" if section.title else ""
    blocks = "".join(_draw(escape_block(block), f"{number + 1}.{i + 1}") for i, block in enumerate(section.blocks))
    return f"<section>\n{heading}{blocks}</section>\n"


def _draw(block: Block, name: str) -> str:
    match block:
        case Blank():
            return ""
        case TextLine(command=True):
            return f"<pre><code>{quote(block.text.strip())}</code></pre>\n"
        case TextLine():
            return f"<p{_class(block.style)}>{quote(block.text)}</p>\n"
        case SplitLine():
            parts = " · ".join(quote(part) for part in (block.left, block.right) if part)
            return f"<p{_class(block.style)}>{parts}</p>\n"
        case Table():
            return _table(block, name)
        case Plot():
            return _plot(block)


def _table(block: Table, name: str) -> str:
    if not block.rows:
        return ""
    titles = "".join(f'<th scope="col"{_number(i, block)}>{quote(title)}</th>' for i, title in enumerate(block.header))
    head = f"<thead><tr>{titles}</tr></thead>\n" if block.header else ""
    rows = "".join(f"<tr>{''.join(_cells(row, block))}</tr>\n" for row in block.rows)
    region = f'<div class="scroll" role="region" tabindex="0" aria-label="Table {name}">'
    is_wide = len(block.header) > _MAX_PRINTED
    kind = _class("wide" * is_wide, "long" * (bool(block.header) and _ends_with_sentences(block)))
    return f"{region}\n<table{kind}>\n{head}<tbody>\n{rows}</tbody>\n</table>\n</div>\n"


def _ends_with_sentences(block: Table) -> bool:
    """Return whether a table that is too wide for a phone has texts in its last column, which would be out of sight."""
    texts = [row[-1].text for row in block.rows]
    long = sum(" " in text or len(text) > _MAX_UNBROKEN for text in texts)
    width = sum(max(len(row[i].text) for row in block.rows) for i in range(len(block.header)))
    return 2 * long > len(texts) and width > _PHONE


def _plot(block: Plot) -> str:
    """Return a plot as SVG without texts, which would shrink with it; they are around it."""
    top = format_plotted(block.highest)
    lines = "".join(
        f'<polyline class="line{_look(i)}" points="{_points(line.values, block.highest)}"/>'
        for i, line in enumerate(block.lines)
    )
    key = "".join(
        f'<li><svg viewBox="0 0 30 4" aria-hidden="true"><path class="line{_look(i)}" d="M0 2H30"/></svg>'
        f"{quote(line.name)}: {format_plotted(min(line.values))} to {format_plotted(max(line.values))}</li>"
        for i, line in enumerate(block.lines)
    )
    return (
        f"<figure>\n<figcaption>{quote(block.title)}</figcaption>\n"
        f'<div class="plot"><div class="scale"><span>{top}</span><span>0</span></div>'
        f'<svg viewBox="-5 -2 {_PLOT_WIDTH + 10} {_PLOT_HEIGHT + 4}" preserveAspectRatio="none" role="img"'
        f' aria-label="{quote(block.title)}">{lines}</svg>'
        f'<div class="times"><span>{quote(block.start)}</span><span>{quote(block.end)}</span></div></div>\n'
        f'<ul class="key">{key}</ul>\n</figure>\n'
    )


def _look(line: int) -> str:
    return f" l{line % _LOOKS}"


def _points(values: Sequence[float], highest: float) -> str:
    step = _PLOT_WIDTH / max(1, len(values) - 1)
    return " ".join(f"{i * step:.1f},{_PLOT_HEIGHT * (1 - value / highest):.1f}" for i, value in enumerate(values))


def _cells(row: Iterable[Cell], block: Table) -> Iterator[str]:
    for i, cell in enumerate(row):
        if not block.header and i == 0 and cell.text:  # the label of a row
            yield f'<th scope="row">{quote(cell.text)}</th>'
        elif i in block.right:
            yield f"<td{_number(i, block)}>{quote(cell.text)}</td>"
        else:
            is_name = len(cell.text) <= _MAX_UNBROKEN and " " not in cell.text  # a browser breaks it at its hyphens
            yield f"<td{_class(cell.style, 'name' * is_name)}>{quote(cell.text)}</td>"


def _number(column: int, block: Table) -> str:
    return ' class="number"' if column in block.right else ""


def _class(*names: str) -> str:
    """Return the attribute with those names of classes that are not empty."""
    named = " ".join(filter(None, names))
    return f' class="{named}"' if named else ""


def _text(text: str) -> str:
    return quote(escape(text))
