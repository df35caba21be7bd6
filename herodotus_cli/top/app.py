"""The program of `kubectl herodotus top`: its main screen, its keys, and when it reads what.

Owns: the main screen, updates, simulations. Does not own: reading (`reader`, `command_runner`), rows (`cluster`,
`rows`), the other screens (`answer_screen`).

Invariant: nothing that waits runs in the thread of the screen, so a key is never late because of the cluster. Nothing
is changed in the cluster.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, Final

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.widgets import Static

from herodotus_answers.pending import apply_live
from herodotus_cli.environment import Environment
from herodotus_cli.errors import CliError
from herodotus_cli.top.answer_screen import (
    AnswerScreen,
    BriefFix,
    HelpScreen,
    NodeScreen,
    PodName,
    QuestionScreen,
    read_fix,
    writer_for,
)
from herodotus_cli.top.cluster import (
    GROUPINGS,
    SORTS,
    NodeRow,
    NodesAndPods,
    PodRow,
    arrange_nodes,
    list_groupings,
    list_placements,
    select_pods,
    select_waiting,
)
from herodotus_cli.top.command_runner import CommandResult, CommandRunner
from herodotus_cli.top.reader import NodeReader
from herodotus_cli.top.row_list import KeysLine, RowList
from herodotus_cli.top.rows import RowWriter
from herodotus_cli.top.simulation import (
    ClusterSimulation,
    PodMove,
    build_replica_action,
    build_words,
    read_simulation,
    select_still_waiting,
    simulate,
)
from herodotus_record.escaping import escape

_PLACEMENTS = 200
_FIX_DELAY_S = 0.3  # the cursor rests on a pod for this long before its fix is looked up
_FRAMES, _FRAME_S = 10, 0.12  # in which the pods of a simulation move
_KEYS: Final = (
    *("/ search", "n namespace", "s sort", "d drain", "c cordon", "w why not"),
    *("g group", "+ pod", "p plan", "y copy fix", "Tab next list", "Enter open", "r update"),
)
_SIMULATION_KEYS: Final = ("Esc undo", "a answer", "d drain", "c cordon", "+ pod", "/ search", "n namespace", "s sort")
_LISTS = ("nodes", "waiting", "placements")


class TopApp(App[None]):
    """The program. It reads nodes and pods, and the pending pods, every `interval_s` seconds after the last time."""

    CSS = """
    Screen, RowList, AnswerText { background: ansi_default; color: ansi_default; }
    RowList, AnswerText { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; height: 1fr; }
    RowList { overflow-x: hidden; }
    Static { height: 1; width: 1fr; background: ansi_default; color: ansi_default; }
    Static { text-wrap: nowrap; text-overflow: ellipsis; }
    .title, .header { text-style: bold; }
    .title, .keys { text-style: reverse; }
    #nodes { height: 3fr; }
    #waiting { height: 2fr; min-height: 3; }
    #placements { height: 1fr; min-height: 2; }
    QuestionScreen { align: left bottom; background: transparent; }
    QuestionScreen Input { width: 1fr; background: ansi_default; color: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = set()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", show=False, priority=False),
        Binding("question_mark", "help", show=False),
        Binding("escape", "clear", show=False),
        # Those that ask a question have priority: the keys that follow at once then belong to the question.
        Binding("slash", "ask_search", show=False, priority=True),
        Binding("n", "ask_namespace", show=False, priority=True),
        Binding("s", "sort", show=False),
        Binding("S", "reverse", show=False),
        Binding("g", "group", show=False, priority=True),
        Binding("w", "why_not", show=False, priority=True),
        Binding("p", "plan", show=False),
        Binding("i", "node_history", show=False),
        Binding("r", "read_now", show=False),
        Binding("a", "show_answer", show=False),
        Binding("y", "copy", show=False),
        Binding("d", "simulate('drain')", show=False),
        Binding("c", "simulate('cordon')", show=False),
        Binding("plus", "simulate('replica')", show=False),
    ]

    def __init__(
        self, reader: NodeReader, runner: CommandRunner, environment: Environment, *, namespace: str, interval_s: float
    ) -> None:
        super().__init__(ansi_color=True)
        self._reader, self._runner, self._environment = reader, runner, environment
        self._given_namespace, self._interval_s = namespace, interval_s
        self._namespace, self._search, self._sort, self._grouping = namespace, "", SORTS[0], GROUPINGS[0]
        self._is_reversed = False
        self._simulations: list[ClusterSimulation] = []  # each has the actions of the one before, and one more
        self._moves_shown = 0  # of the last simulation
        self._asked: tuple[tuple[str, ...], ...] = ()  # actions that are being simulated
        self._state = NodesAndPods([], [], has_all_pods=False)
        self._waiting: Sequence[Mapping[str, Any]] = ()
        self._has_waiting = False
        self._fixes: dict[PodName, BriefFix | None] = {}
        self._outdated: set[PodName] = set()
        self._errors: dict[str, str] = {}
        self._read_at: dict[str, datetime] = {}
        self._notice = ""
        self._reading = threading.Event()
        self._is_ending = threading.Event()
        self._has_drawn = threading.Event()  # the first nodes, or why there are none
        self._wake = {"nodes": threading.Event(), "waiting": threading.Event()}
        self._has_blocks = "utf" in (getattr(sys.stdout, "encoding", "") or "").lower()

    def run_on_terminal(self) -> int:
        """Run until the user ends it, and return the exit code: 1 after an error of the program, which is printed."""
        self.run(mouse=False)  # the terminal's own selection keeps working
        return self.return_code or 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether the key of an action has an effect now: False while text is typed.

        It is also False for `why_not` on an AnswerScreen, which has that key itself.
        """
        if isinstance(self.screen, QuestionScreen) or (action == "why_not" and isinstance(self.screen, AnswerScreen)):
            return False
        return super().check_action(action, parameters)

    async def on_event(self, event: events.Event) -> None:
        """Handle an event; a key ends the messages of the keys before it, so that they cover no later answer."""
        if isinstance(event, events.Key):
            self.clear_notifications()
        await super().on_event(event)

    def compose(self) -> ComposeResult:
        yield Static("", id="title", classes="title", markup=False)
        yield Static("", id="nodes-header", classes="header", markup=False)
        yield RowList(lambda row: (row.name, row.members > 0), id="nodes")
        yield Static("", id="waiting-header", classes="header", markup=False)
        yield RowList(lambda pod: (pod["namespace"], pod["pod"]), id="waiting")
        yield Static("", id="reason", markup=False)
        yield Static("", id="fix", markup=False)
        yield Static("", id="placements-header", classes="header", markup=False)
        yield RowList(lambda row: (row.namespace, row.name), id="placements")
        yield Static("", id="status", markup=False)
        yield KeysLine(*_KEYS, id="keys")

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for ending in (signal.SIGTERM, signal.SIGHUP):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(ending, self.exit)
        self._list("nodes").focus()
        self.show_state()
        self._start(self._read_cluster_again_and_again)
        self._start(self._read_waiting_again_and_again)
        self.set_interval(1, self._show_status)

    def on_unmount(self) -> None:
        self._is_ending.set()
        self._has_drawn.set()
        for wake in self._wake.values():
            wake.set()

    def on_resize(self) -> None:
        self.show_state()

    # Reading, in threads.

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _on_screen(self, show: Callable[..., None], *arguments: Any) -> None:
        """Call `show` with the arguments in the screen's thread, unless the program is ending."""
        with suppress(RuntimeError):
            if not self._is_ending.is_set():
                self.call_from_thread(show, *arguments)

    def _repeat(self, what: str, read: Callable[[], None]) -> None:
        while not self._is_ending.is_set():
            error = ""
            try:
                read()
            except CliError as e:
                error = " ".join(line.strip() for line in e.lines)
            except Exception as e:  # an update must not end the program; the status line says what failed
                error = f"error: {type(e).__name__}: {e}"
            self._on_screen(self._finish_update, what, error)
            self._wake[what].wait(self._interval_s)
            self._wake[what].clear()

    def _read_cluster_again_and_again(self) -> None:
        def read() -> None:
            first = "nodes" not in self._read_at
            show = (lambda state: self._on_screen(self._show_cluster, state)) if first else None
            self._on_screen(self._show_cluster, self._reader.read(self._given_namespace, show))

        self._repeat("nodes", read)

    def _read_waiting_again_and_again(self) -> None:
        def read() -> None:
            self._has_drawn.wait()  # evaluating a large cluster would delay the first screen
            where = [f"--namespace={self._given_namespace}"] if self._given_namespace else ["--all-namespaces"]
            result = self._runner.run(["pending", *where, "-o", "json"])
            if result.code or not result.out:
                raise CliError(" ".join(result.messages.split()) or "error: pending printed nothing")
            answer = json.loads(result.out)
            shown = apply_live(answer) if "live" in answer else answer
            self._on_screen(self._show_waiting, shown["pods"], result.messages)

        self._repeat("waiting", read)

    def _show_cluster(self, state: NodesAndPods) -> None:
        self._state = state
        self.show_state()
        self._has_drawn.set()

    def _show_waiting(self, pods: Sequence[Mapping[str, Any]], messages: str) -> None:
        self._waiting, self._has_waiting = pods, True
        self._outdated = set(self._fixes)  # shown until their pods' fixes are looked up again
        self._notice = next((line.rstrip(";") for line in messages.splitlines() if "evaluated" in line), "")
        self.show_state()
        self._look_up_fix()

    def _finish_update(self, what: str, error: str) -> None:
        self._errors[what] = error
        self._has_drawn.set()
        if not error:
            self._read_at[what] = self._environment.now()
        self._show_status()

    def run_command(self, words: Sequence[str], show: Callable[[CommandResult], None], width: int = 80) -> None:
        """Run a command of the plugin in a thread, and call `show` with its result in the screen's thread."""
        self._start(lambda: self._on_screen(show, self._runner.run(words, width)))

    # Drawing.

    def writer(self) -> RowWriter:
        """Return a RowWriter for the terminal's present width and the present time."""
        return writer_for(
            self.size.width, self._environment.now, blocks=self._has_blocks, knows_requests=self._state.has_all_pods
        )

    def filters(self) -> str:
        """Return the namespace and the search that restrict the rows, as text for a title; "" if none does."""
        texts = [f"namespace {self._namespace}" if self._namespace else "", f"/{self._search}" if self._search else ""]
        return "".join(f"  {text}" for text in texts if text)

    def pods_on(self, node: str) -> list[PodRow]:
        """Return the pods of a node that match the search and the namespace, in the simulation if one is shown."""
        on_node = (pod for pod in self._build_shown_state().pods if pod.node == node)
        return select_pods(on_node, namespace=self._namespace, search=self._search)

    def _build_shown_state(self) -> NodesAndPods:
        if not self._simulations:
            return self._state
        return simulate(self._state, self._simulations[-1], self._moves_shown)

    def show_state(self) -> None:
        """Draw everything from what was read last, with the simulation if there is one."""
        if not self._is_composed():
            return
        writer, namespace, search, state = self.writer(), self._namespace, self._search, self._build_shown_state()
        simulation = self._simulations[-1] if self._simulations else None
        nodes = arrange_nodes(
            state.nodes, sort=self._sort, grouping=self._grouping, search=search, reverse=self._is_reversed
        )
        pending = select_still_waiting(self._waiting, simulation) if simulation else self._waiting
        waiting = select_waiting(pending, namespace=namespace, search=search)
        self._list("nodes").show_rows(nodes, writer.node)
        self._list("waiting").show_rows(waiting, writer.waiting)
        if simulation:
            self._list("placements").show_rows(simulation.moves[: self._moves_shown], writer.move)
        else:
            placed = list_placements(select_pods(state.pods, namespace=namespace, search=search), _PLACEMENTS)
            self._list("placements").show_rows(placed, writer.placement)
        for above in map(self._list, _LISTS[:-1]):
            above.styles.max_height = max(1, len(above.rows))  # the last list has the lines that these do not need
        matching = sum(not row.members for row in nodes)
        self._set("title", self._describe_title(simulation, matching, len(waiting)))
        self._set("nodes-header", writer.node_header())
        self._set("waiting-header", writer.waiting_header())
        self._set("placements-header", writer.move_header() if simulation else writer.placement_header())
        self.screen_stack[0].query_one(KeysLine).show_keys(*(_SIMULATION_KEYS if simulation else _KEYS))
        self._show_fix()
        self._show_status()
        for screen in self.screen_stack:
            if isinstance(screen, NodeScreen) and screen.is_mounted:
                screen.show_state()

    def _describe_title(self, simulation: ClusterSimulation | None, matching: int, waiting: int) -> str:
        if simulation:
            return f" SIMULATED, nothing is changed: {simulation.title}{self.filters()}"
        of = f"{waiting} of {len(self._waiting)}" if self.filters() else waiting
        count = f"{of} waiting" if self._has_waiting else "waiting pods: reading …"
        order = f"sort {self._sort}{' reversed' if self._is_reversed else ''}"
        by = f"  by {self._grouping}" if self._grouping != "none" else ""
        nodes = f"{matching} of {len(self._state.nodes)}" if self._search else len(self._state.nodes)
        return f" herodotus top  {nodes} nodes  {count}{self.filters()}  {order}{by}"

    def _is_composed(self) -> bool:
        return bool(self.screen_stack) and bool(self.screen_stack[0].query("#status"))

    def _list(self, name: str) -> RowList:
        return self.screen_stack[0].query_one(f"#{name}", RowList)

    def _set(self, name: str, text: str) -> None:
        line = self.screen_stack[0].query_one(f"#{name}", Static)
        if str(line.content) != escape(text):
            line.update(escape(text), layout=False)

    def _show_status(self) -> None:
        if not self._is_composed():
            return
        if self._asked:
            self._set("status", f" simulating {' '.join(self._asked[-1])} …  Esc cancels")
            return
        if self._simulations:
            self._set("status", f" {self._simulations[-1].headline}")
            return
        errors = [error for error in self._errors.values() if error]
        read_at = self._read_at.get("nodes")
        updated = f"updated {read_at:%H:%M:%S}" if read_at else "reading …"
        status = " ".join(errors) or "  ".join(filter(None, [f"every {self._interval_s:g}s", self._notice]))
        self._set("status", f" {updated}  {status}")

    # Fixes.

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows.id == "waiting":
            self._show_fix()
            self._look_up_fix()

    def _look_up_fix(self) -> None:
        pod = self._waiting_pod()
        if pod is not None and self._needs_fix(pod):
            self.set_timer(_FIX_DELAY_S, lambda: self._fetch_fix(pod))

    def _needs_fix(self, pod: PodName) -> bool:
        return pod not in self._fixes or pod in self._outdated

    def _fetch_fix(self, pod: PodName) -> None:
        if pod != self._waiting_pod() or not self._needs_fix(pod):
            return
        self._outdated.discard(pod)

        def show(result: CommandResult) -> None:
            self._fixes[pod] = read_fix(result)
            self._show_fix()

        self.run_command(_brief(pod), show)

    def _show_fix(self) -> None:
        pod, row = self._waiting_pod(), self._list("waiting").row
        self._set("reason", f"REASON {row['reason']}" if row else "")
        if pod is None:
            text = "No pods wait for a node." if self._has_waiting and not self._waiting else ""
        elif pod not in self._fixes:
            text = "FIX …"
        elif (fix := self._fixes[pod]) is None:
            text = "FIX none is known (Enter: the decision)"
        else:
            text = f"FIX {fix.text}{'' if fix.is_checked else ' (not checked)'}"
        self._set("fix", text)
        self.screen_stack[0].query_one("#reason").display = not self.writer().has_wide_reasons

    def copy_fix(self, pod: PodName | None) -> None:
        """Copy the command of a pod's fix, or its sentence, to the clipboard of the terminal."""
        if pod is None:
            self._tell("choose a waiting pod first: only a pod has a fix")
            return

        def copy(result: CommandResult) -> None:
            fix = read_fix(result)
            if fix is None:
                self._tell(f"no fix is known for {pod.namespace}/{pod.name}")
                return
            self.copy_to_clipboard(fix.command or fix.text)
            self._tell(f"copied{'' if fix.is_checked else ' (not checked)'}: {fix.command or fix.text}")

        self.run_command(_brief(pod), copy)

    def _tell(self, text: str) -> None:
        self.notify(escape(text), markup=False, timeout=4)

    # What the cursor is on.

    def _waiting_pod(self) -> PodName | None:
        row = self._list("waiting").row if self._is_composed() else None
        return PodName(row["namespace"], row["pod"]) if row else None

    def _find_pod(self, name: PodName) -> PodRow | None:
        return next((pod for pod in self._state.pods if (pod.namespace, pod.name) == name), None)

    def _chosen_pod(self) -> PodName | None:
        """Return the pod under the cursor of the list that has the focus, or None if that is no list of pods."""
        focused = self.focused
        row = focused.row if isinstance(focused, RowList) else None
        if isinstance(row, PodRow | PodMove):
            return PodName(row.namespace, row.name)
        return self._waiting_pod() if isinstance(focused, RowList) and focused.id == "waiting" else None

    def _chosen_node(self) -> NodeRow | None:
        """Return the node of an open NodeScreen, otherwise the node under the cursor of the list of nodes.

        Returns None if there is no node, or if the cursor is on the row of a zone or group.
        """
        if isinstance(self.screen, NodeScreen):
            name = self.screen.node
            return next((row for row in self._state.nodes if row.name == name), None)
        row = self._list("nodes").row
        return row if isinstance(row, NodeRow) and not row.members else None

    # Keys.

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        row = event.row
        if isinstance(row, NodeRow):
            if not row.members:
                self.push_screen(NodeScreen(row.name))
        elif isinstance(row, PodRow | PodMove):
            self.show_pod(PodName(row.namespace, row.name))
        else:
            self.show_pod(PodName(row["namespace"], row["pod"]))

    def show_pod(self, pod: PodName) -> None:
        """Show a pod's decision, with every node."""
        self.push_screen(AnswerScreen(["pod", pod.name, "-n", pod.namespace, "--all"], pod))

    def action_help(self) -> None:
        """Open the list of all keys, unless it is open."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_clear(self) -> None:
        """Cancel a simulation that has no answer yet, or else undo the last simulated action, or clear the search."""
        if self._asked:
            self._asked = ()
            self._show_status()
        elif self._simulations:
            self._simulations.pop()
            self._moves_shown = len(self._simulations[-1].moves) if self._simulations else 0
            self.show_state()
        else:
            self._set_search("")

    def action_sort(self) -> None:
        """Sort the nodes by the next one of SORTS; after the last comes the first."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self.show_state()

    def action_reverse(self) -> None:
        """Turn the order of the nodes around."""
        self._is_reversed = not self._is_reversed
        self.show_state()

    def action_group(self) -> None:
        """Ask by what the nodes are grouped: zone, node group or a label."""

        def group(text: str) -> None:
            self._grouping = text or GROUPINGS[0]
            self.show_state()

        names = list_groupings(self._state.nodes)
        self._choose("group nodes by zone, group or a label (empty: none):", "", names, group)

    def action_read_now(self) -> None:
        """Read everything now, without waiting for the end of the interval."""
        for wake in self._wake.values():
            wake.set()

    def action_copy(self) -> None:
        """Copy the fix of the chosen pod, or without one that of the pod under the cursor of the waiting pods."""
        self.copy_fix(self._chosen_pod() or self._waiting_pod())

    def action_ask_search(self) -> None:
        """Ask for a text to search."""
        names = {row.name for row in self._state.nodes} | {f"{pod.namespace}/{pod.name}" for pod in self._state.pods}
        self._ask("search (KEY=VALUE: a label):", self._search, sorted(names), self._set_search)

    def action_ask_namespace(self) -> None:
        """Ask for a namespace."""
        names = {pod.namespace for pod in self._state.pods} | {pod["namespace"] for pod in self._waiting}
        self._choose("namespace (empty: all):", self._namespace, sorted(names), self._set_namespace)

    def action_plan(self) -> None:
        """Show a plan for the chosen pod, or without one for the pod under the cursor of the waiting pods."""
        self.show_plan(self._chosen_pod() or self._waiting_pod())

    def show_plan(self, pod: PodName | None) -> None:
        """Show the fewest changes after which a pod fits, with their commands."""
        if pod is None:
            self._tell("choose a waiting pod first: Tab to the waiting pods")
            return
        self.push_screen(AnswerScreen(["plan", "pod", pod.name, "-n", pod.namespace], pod))

    def action_node_history(self) -> None:
        """Show how often the chosen node was considered, rejected and selected."""
        if (node := self._chosen_node()) is not None:
            self.push_screen(AnswerScreen(["node", node.name]))

    def action_simulate(self, what: str) -> None:
        """Simulate an action on the chosen node or pod, and show what it would do.

        `what` is `drain`, `cordon` (`uncordon` if the node is cordoned), or `replica` for one pod more of the pod's
        workload.
        """
        if what == "replica":
            self._simulate_replica()
            return
        node = self._chosen_node()
        if node is None:
            self._tell("choose a node first")
            return
        word = "uncordon" if what == "cordon" and "cordoned" in node.marks else what
        self._simulate((word, node.name))

    def _simulate_replica(self) -> None:
        name = self._chosen_pod()
        pod = self._find_pod(name) if name else None
        if pod is None:
            self._tell("choose a pod first: Enter on a node, or Tab to the waiting pods and placements")
        elif action := build_replica_action(pod, self._build_shown_state().pods):
            self._simulate(action)
        else:
            self._tell(f"{pod.namespace}/{pod.name} has no workload that can be scaled")

    def _simulate(self, action: tuple[str, ...]) -> None:
        """Simulate an action after those that are shown, and move the pods on the main screen."""
        asked = (*(self._simulations[-1].actions if self._simulations else ()), action)
        self._asked = asked

        def show(result: CommandResult) -> None:
            if self._asked is not asked:  # cancelled, or another one was asked since
                return
            self._asked = ()
            try:
                simulation = read_simulation(asked, json.loads(result.out))
            except (ValueError, KeyError, TypeError):
                self._show_status()
                self._tell(" ".join(result.messages.split()) or f"{asked[-1][0]}: no answer")
                return
            self._simulations.append(simulation)
            self._moves_shown = len(self._simulations[-2].moves) if len(self._simulations) > 1 else 0
            self._list("nodes").scroll_home(animate=False)
            self._move_pods(simulation)

        while len(self.screen_stack) > 1:
            self.pop_screen()
        self._show_status()
        self.run_command([*build_words(asked), "-o", "json"], show)

    def _move_pods(self, simulation: ClusterSimulation) -> None:
        """Show some more moves of a simulation, and call this again after _FRAME_S until all are shown.

        It stops if the simulation is no longer the latest one.
        """
        if not self._simulations or self._simulations[-1] is not simulation:
            return
        total = len(simulation.moves)
        self._moves_shown = min(total, self._moves_shown + max(1, total // _FRAMES))
        self.show_state()
        if self._moves_shown < total:
            self.set_timer(_FRAME_S, lambda: self._move_pods(simulation))

    def action_show_answer(self) -> None:
        """Show the whole answer to the simulation."""
        if self._simulations:
            self.push_screen(AnswerScreen(build_words(self._simulations[-1].actions)))

    def action_why_not(self) -> None:
        """Show why a pod is or is not on a node: ask for the pod if the cursor is on a node, else for the node."""
        focused = self.focused
        node = self._chosen_node()
        if node is not None and isinstance(focused, RowList) and focused.id == "nodes":
            self._ask_which_pod(node.name)
        else:
            self.ask_why_not(self._chosen_pod() or self._waiting_pod())

    def _ask_which_pod(self, node: str) -> None:
        waiting = [f"{pod['namespace']}/{pod['pod']}" for pod in self._waiting]
        others = [f"{pod.namespace}/{pod.name}" for pod in self._state.pods]
        chosen = self._waiting_pod()

        def show(name: str) -> None:
            namespace, _, pod = name.partition("/")
            if pod:
                self._show_why_not(PodName(namespace, pod), node)

        proposed = f"{chosen.namespace}/{chosen.name}" if chosen else ""
        names = list(dict.fromkeys([*waiting, *others]))
        self._choose(f"why not on {node}: which pod", proposed, names, show)

    def ask_why_not(self, pod: PodName | None) -> None:
        """Ask for a node, and show why a pod is or is not there. The node under the cursor is proposed."""
        if pod is None:
            self._tell("choose a pod first: Enter on a node, or Tab to the waiting pods and placements")
            return
        node, present = self._list("nodes").row, self._find_pod(pod)
        proposed = node.name if isinstance(node, NodeRow) and not node.members else ""
        if present is not None and present.node == proposed:
            proposed = ""

        def show(name: str) -> None:
            if name:
                self._show_why_not(pod, name)

        names = [row.name for row in self._state.nodes]
        self._choose(f"why is {pod.namespace}/{pod.name} on this node, or not:", proposed, names, show)

    def _show_why_not(self, pod: PodName, node: str) -> None:
        self.push_screen(AnswerScreen(["pod", pod.name, "-n", pod.namespace, "--node", node], pod))

    def _ask(
        self, label: str, value: str, words: Sequence[str], then: Callable[[str], None], *, is_choice: bool = False
    ) -> None:
        def end(text: str | None) -> None:
            if text is not None:
                then(text)

        self.push_screen(QuestionScreen(escape(label), value, words, is_choice=is_choice), end)

    def _choose(self, label: str, value: str, words: Sequence[str], then: Callable[[str], None]) -> None:
        """Ask for one of `words`, or for "", and call `then` with it."""
        self._ask(label, value, words, then, is_choice=True)

    def _set_search(self, text: str) -> None:
        self._search = text
        self.show_state()

    def _set_namespace(self, text: str) -> None:
        self._namespace = text
        self.show_state()


def _brief(pod: PodName) -> list[str]:
    return ["pod", pod.name, "-n", pod.namespace, "-o", "brief"]
