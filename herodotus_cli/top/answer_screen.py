"""The screens of `top` over the main one: an answer, the pods of a node, a question to the user, the keys.

Owns: these screens. Does not own: answers, which commands print (`command_runner`).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from herodotus_cli.render.screen_elements import display_width
from herodotus_cli.top.row_list import AnswerText, KeysLine, RowList
from herodotus_cli.top.rows import RowWriter
from herodotus_record.escaping import escape

if TYPE_CHECKING:
    from herodotus_cli.top.app import TopApp
    from herodotus_cli.top.command_runner import CommandResult

_KEY_COLUMNS = 20  # of KEYS: what a key does begins there
KEYS = """\
KEYS
  up, down, page up, page down, home, end   move
  Tab, shift-Tab    next list: nodes, waiting pods, placements
  Enter             node: its pods; pod: its decision on every node
  Esc               back; on the first screen: clear the search
  Tab in a question take the next of the words above the input; Enter takes the only one that matches
  /                 search in names, zones, groups, taints, owners and reasons
  n                 only one namespace; empty: all
  s, S              sort nodes by name, cpu, memory, pods; turn the order around
  g                 group nodes by zone, node group or any label
  w                 why not here: on a node asks for the pod, on a pod for the node
  p                 waiting pod: the fewest changes after which it fits, with their commands
  i                 node: its past decisions (needs records)
  r                 update now
  y                 copy the pod's best fix (OSC 52, if the terminal allows it)
  q, Ctrl-C         end

SIMULATE, nothing is changed; one action after the other
  d                 drain the node
  c                 cordon the node; uncordon, if it is cordoned
  +                 one pod more of the workload of the pod
  a                 the whole answer
  Esc               undo the last action; then the cluster as it is

SIGNS
  +++ --- in a bar  what the simulation adds, and takes away
  CPU, MEMORY       requests of the pods on the node, of what is allocatable
  ?                 not known: pods are being read, or not of every namespace
  STATE             cordoned, NotReady, taints; on wide terminals zone and group
"""


class PodName(NamedTuple):
    """The name of a pod, with its namespace."""

    namespace: str
    name: str


class _Layer(Screen[None]):
    """A screen over the main one, which Esc leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,left,backspace", "app.pop_screen", show=False)]

    @property
    def top(self) -> TopApp:
        """The program that shows this screen."""
        from herodotus_cli.top.app import TopApp

        assert isinstance(self.app, TopApp)
        return self.app


class AnswerScreen(_Layer):
    """What a command prints, run when the screen opens and again when its width changes.

    `pod` is the pod that the answer is about, whose fix `y` copies.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "read", show=False),
        Binding("y", "copy", show=False),
        Binding("w", "why_not", show=False),
        Binding("p", "plan", show=False),
    ]

    def __init__(self, words: Sequence[str], pod: PodName | None = None) -> None:
        super().__init__()
        self.words, self.pod = tuple(words), pod
        self._width = 0

    def compose(self) -> ComposeResult:
        yield Static(f" kubectl herodotus {escape(' '.join(self.words))}", classes="title", markup=False)
        yield AnswerText()
        yield KeysLine("Esc back", "r again", *(("y copy fix", "w why not here", "p plan") if self.pod else ()))

    def on_resize(self, event: events.Resize) -> None:
        if event.size.width != self._width:
            self._width = event.size.width
            self.action_read()

    def action_read(self) -> None:
        """Run the command and show what it prints."""
        text = self.query_one(AnswerText)
        text.show_text("reading …")
        text.focus()
        self.top.run_command([*self.words, "--color=always"], self._show, width=max(40, self._width - 1))

    def _show(self, result: CommandResult) -> None:
        if self.is_attached:
            messages = "\n".join(map(escape, result.messages.strip().splitlines()))
            self.query_one(AnswerText).show_text(
                "\n".join(filter(None, [result.out.rstrip(), messages])) or "no answer"
            )

    def action_copy(self) -> None:
        """Copy the best fix of the pod to the clipboard."""
        self.top.copy_fix(self.pod)

    def action_why_not(self) -> None:
        """Ask for a node, and show why the pod is or is not on it."""
        self.top.ask_why_not(self.pod)

    def action_plan(self) -> None:
        """Show the fewest changes after which the pod fits."""
        self.top.show_plan(self.pod)


class NodeScreen(_Layer):
    """The pods of a node."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "app.simulate('drain')", show=False),
        Binding("c", "app.simulate('cordon')", show=False),
        Binding("plus", "app.simulate('replica')", show=False),
        Binding("w", "app.why_not", show=False),
        Binding("i", "app.node_history", show=False),
        Binding("y", "app.copy", show=False),
        Binding("n", "app.ask_namespace", show=False),
        Binding("slash", "app.ask_search", show=False),
    ]

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node

    def compose(self) -> ComposeResult:
        yield Static("", id="node-title", classes="title", markup=False)
        yield Static("", id="pod-header", classes="header", markup=False)
        yield RowList(lambda pod: (pod.namespace, pod.name), id="pods")
        yield KeysLine(
            *("Esc back", "Enter decision", "d drain", "c cordon", "w why not", "+ one more"),
            *("i history", "y copy fix", "n namespace", "/ search"),
        )

    def on_mount(self) -> None:
        self.query_one(RowList).focus()
        self.show_state()

    def on_resize(self) -> None:
        self.show_state()

    def show_state(self) -> None:
        """Draw the pods of the node that were read last, or as the simulation leaves them."""
        pods = self.top.pods_on(self.node)
        writer = self.top.writer()
        self.query_one("#node-title", Static).update(escape(f" {self.node}: {len(pods)} pods{self.top.filters()}"))
        self.query_one("#pod-header", Static).update(writer.pod_header())
        self.query_one(RowList).show_rows(pods, writer.pod)


class QuestionScreen(ModalScreen[str | None]):
    """A line of input at the bottom, below what completes it. Its result is the text, or None after Esc.

    Keys that come before the line has the focus, as when text is pasted, are typed into it too.
    """

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", show=False),
        Binding("tab", "complete", show=False, priority=True),
    ]

    def __init__(self, label: str, value: str, words: Sequence[str], *, is_choice: bool = False) -> None:
        """Create a question with the title `label` and the proposed text `value`.

        Tab or the right arrow completes the typed text to one of `words`. With `is_choice` the result is one of them or
        "": Enter takes the only one that matches, and otherwise says how many do.
        """
        super().__init__()
        self._label, self._value, self._words, self._is_choice = label, value, words, is_choice
        self._typed = ""
        self._completed: str | None = value  # what the line has that was not typed
        self._fitting: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static(f" {self._label}", id="question", classes="title", markup=False)
        yield Static("", id="completions", markup=False)
        suggester = SuggestFromList(self._words, case_sensitive=False)
        yield Input(self._value, suggester=suggester, select_on_focus=False, compact=True)

    def on_mount(self) -> None:
        self._list_completions()
        self.call_later(self._focus_input)  # after the keys that wait for this screen

    def _focus_input(self) -> None:
        """Let the line take the keys. What is proposed is selected, and what was typed meanwhile is not."""
        field = self.query_one(Input)
        field.focus()
        if field.value == self._value:
            field.select_all()

    def on_key(self, event: events.Key) -> None:
        field = self.query_one(Input)
        if event.key == "enter":
            event.stop()  # it is no key of the screen below
            self._end(field.value.strip())
        elif event.is_printable and event.character:
            event.stop()
            start = 0 if field.value == self._value else len(field.value)  # as if what is proposed were selected
            field.replace(event.character, start, len(field.value))
            field.cursor_position = len(field.value)

    def _end(self, text: str) -> None:
        """End with the text or, if this is a choice, with the word that it stands for; ask on if there is none."""
        if not self._is_choice or not text or not self._words or text in self._words:
            self.dismiss(text)
            return
        matching = find_completions(text, self._words)
        if len(matching) == 1:
            self.dismiss(matching[0])
            return
        error = f"{len(matching)} match {text}: Tab takes the next" if matching else f"nothing matches {text}"
        self.query_one("#question", Static).update(f" {escape(error)}")

    def on_input_changed(self) -> None:
        self._note_typed()

    def _note_typed(self) -> None:
        """Remember what the line has now, unless that is what was completed last, and list what completes it."""
        value = self.query_one(Input).value
        if value != self._completed:
            self._typed, self._completed = value, None
            self.query_one("#question", Static).update(f" {self._label}")
            self._list_completions()

    def _list_completions(self) -> None:
        self._fitting = find_completions(self._typed, self._words)
        self.query_one("#completions", Static).update(" " + _join_words(self._fitting, self.size.width - 1))

    def action_complete(self) -> None:
        """Complete the typed text to the first of the matching words, or to the next one when called again."""
        self.query_one(Input).call_later(self._complete)  # after the keys that the line has not handled yet

    def _complete(self) -> None:
        self._note_typed()
        if self._fitting:
            following = self._fitting.index(self._completed) + 1 if self._completed in self._fitting else 0
            self._completed = self._fitting[following % len(self._fitting)]
            field = self.query_one(Input)
            field.value = self._completed
            field.cursor_position = len(field.value)


def find_completions(text: str, words: Sequence[str]) -> list[str]:
    """Return the words that begin with `text`, then those that contain it elsewhere. Case does not matter."""
    low = text.lower()
    return [w for w in words if w.lower().startswith(low)] + [
        w for w in words if low in w.lower() and not w.lower().startswith(low)
    ]


def _join_words(words: Sequence[str], width: int) -> str:
    """Return as many of the words as fit a line of `width` columns, and how many more there are."""
    line = ""
    for i, word in enumerate(map(escape, words)):
        longer, more = f"{line}{'  ' if line else ''}{word}", len(words) - i - 1
        if display_width(longer) + (len(f"  … {more} more") if more else 0) > width:
            return f"{line}  … {len(words) - i} more" if line else word[:width]
        line = longer
    return line


class HelpScreen(_Layer):
    """The keys of all screens, with what each does."""

    def compose(self) -> ComposeResult:
        yield AnswerText()
        yield KeysLine("Esc back", "down, page down: more", always=("q quit",))

    def on_mount(self) -> None:
        self.query_one(AnswerText).focus()

    def on_resize(self, event: events.Resize) -> None:
        self.query_one(AnswerText).show_text(wrap_keys(event.size.width - 1))


def wrap_keys(width: int) -> str:
    """Return KEYS in lines of at most `width` columns."""
    hang = " " * _KEY_COLUMNS
    return "\n".join(
        part for line in KEYS.splitlines() for part in textwrap.wrap(line, width, subsequent_indent=hang) or [""]
    )


class BriefFix(NamedTuple):
    """The best known fix of a pod: a sentence and its shell command, which may be ""."""

    text: str
    command: str
    is_checked: bool


def read_fix(result: CommandResult) -> BriefFix | None:
    """Return the fix in the output of `pod NAME -o brief`, or None if the output has none."""
    try:
        fix: dict[str, Any] | None = json.loads(result.out)["fix"]
    except (ValueError, KeyError, TypeError):
        return None
    return BriefFix(fix["text"], fix["command"] or "", bool(fix["checked"])) if fix else None


def writer_for(width: int, now: Callable[[], datetime], *, blocks: bool, knows_requests: bool) -> RowWriter:
    """Return a RowWriter for a screen of `width` columns, of which one is for the scroll bar.

    `blocks` and `knows_requests` say whether the terminal shows block characters, and whether requests of nodes are
    known.
    """
    return RowWriter(max(40, width - 1), now(), blocks=blocks, knows_requests=knows_requests)
