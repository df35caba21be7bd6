"""The values of `-o`: which formats exist, and the usage error for an unknown one.

Owns: these names, and reading a template file. Does not own: printing a document (`render.documents`, `templates`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

DOCUMENTS: Final = ("json", "yaml")
BRIEF: Final = "brief"  # one line of JSON
PLAIN: Final = ("wide", *DOCUMENTS, "name", BRIEF)
TEMPLATES: Final = ("jsonpath", "jsonpath-as-json", "go-template")  # kubectl evaluates these
COLUMNS: Final = "custom-columns"
_FILES: Final = {f"{name}-file": name for name in ("jsonpath", "go-template", COLUMNS)}


class OutputFormat(click.ParamType[str]):
    """The type of `-o`: one of `names`, or with `templates` also NAME=TEMPLATE with a template of kubectl.

    A value such as `jsonpath-file=PATH` is converted to `jsonpath=` with the content of the file.
    """

    name = "format"

    def __init__(self, names: tuple[str, ...] = PLAIN, *, templates: bool = True) -> None:
        self._names, self._templates = names, (*TEMPLATES, COLUMNS) if templates else ()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the format, or fail with a usage error that lists the formats."""
        name, equals, template = str(value).partition("=")
        if name in self._names and not equals:
            return name
        if name in _FILES and self._templates:
            try:
                with open(template, encoding="utf-8") as file:
                    name, template = _FILES[name], file.read().strip()
            except (OSError, UnicodeDecodeError) as e:
                self.fail(f"{template}: {getattr(e, 'strerror', None) or 'not a text file'}", param, ctx)
        if name not in self._templates:
            allowed = ", ".join((*self._names, *(self._templates and (*self._templates, *_FILES))))
            self.fail(f"{value!r} is not an output format: use one of {allowed}", param, ctx)
        if not template:
            self.fail(f"{name} needs a template: write {name}=TEMPLATE", param, ctx)
        return f"{name}={template}"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the formats that start with the word."""
        from click.shell_completion import CompletionItem  # here, because only completion needs it

        names = (*self._names, *(f"{name}=" for name in self._templates))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def is_document(format_: str) -> bool:
    """Return whether a format prints the document, its short form, or parts of it that a template selects.

    Such a format also prints a list without items, where screens print a sentence.
    """
    return format_ in (*DOCUMENTS, BRIEF) or is_template(format_)


def shows_whole_document(format_: str) -> bool:
    """Return whether a format prints the answer itself, or what a template of kubectl selects from it."""
    return format_ in DOCUMENTS or format_.partition("=")[0] in TEMPLATES


def is_template(format_: str) -> bool:
    """Return whether a format has a template or a list of columns."""
    return "=" in format_
