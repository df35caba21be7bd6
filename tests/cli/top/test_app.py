"""The program of `top`, driven by keys."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("textual", reason="NOT RUN: textual is not installed; make setup does that")

from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, Static

from herodotus_cli.errors import CliError
from herodotus_cli.top.answer_screen import AnswerScreen, HelpScreen, NodeScreen, QuestionScreen
from herodotus_cli.top.app import TopApp
from herodotus_cli.top.cluster import NodeRow, NodesAndPods
from herodotus_cli.top.row_list import AnswerText, KeysLine, RowList
from herodotus_cli.top.rows import Part
from tests.cli.top.fakes import FakeReader, FakeRunner, build_app, node, pod

Script = Callable[[TopApp, Pilot[None]], Awaitable[None]]


def drive(script: Script, app: TopApp | None = None, size: tuple[int, int] = (80, 24)) -> None:
    program = app or build_app()

    async def run() -> None:
        async with program.run_test(size=size) as pilot:
            await until(pilot, lambda: "updated" in text(program, "status") and "1 waiting" in text(program, "title"))
            await script(program, pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], check: Callable[[], Any]) -> None:
    for _ in range(500):
        if check():
            return
        await pilot.pause(0.02)
    raise AssertionError("waited in vain")


def text(app: TopApp, name: str) -> str:
    found = app.screen_stack[0].query(f"#{name}") if app.screen_stack else ()
    return str(next(iter(found.results(Static))).content) if found else ""


def drawn(app: TopApp, name: str) -> list[str]:
    rows = app.screen.query_one(f"#{name}", RowList)
    return [rows.render_line(y).text.rstrip() for y in range(min(len(rows.rows), rows.size.height))]


def asked(app: TopApp) -> tuple[str, ...]:
    assert isinstance(app.screen, AnswerScreen)
    return app.screen.words


def test_first_screen_has_nodes_waiting_pods_with_fix_and_placements() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "free 2 cpu" in text(app, "fix"))
        assert drawn(app, "nodes") == [
            "worker-1             ██████████ 100% █░░░░░░░░░  12% 2/110",
            "worker-2             ░░░░░░░░░░   0% ░░░░░░░░░░   0% 0/110   cordoned",
            "worker-10            █░░░░░░░░░  12% █░░░░░░░░░   6% 1/110   gpu=true:NoSchedu…",
        ]
        assert drawn(app, "waiting") == ["shop/payments-0                 4m      Insufficient cpu"]
        assert text(app, "fix") == "FIX free 2 cpu on worker-1"
        assert [line.split()[0] for line in drawn(app, "placements")][:2] == ["shop/web-0", "data/db-0"]

    drive(script)


@pytest.mark.parametrize(("height", "heights"), [(24, [11, 1, 4]), (50, [12, 1, 29])])
def test_lists_that_need_fewer_lines_leave_them_to_the_placements(height: int, heights: list[int]) -> None:
    nodes = [node(f"n-{i}") for i in range(12)]
    pods = [pod(f"web-{i}", "n-1") for i in range(60)]

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.pause()
        lists = [app.screen.query_one(f"#{name}", RowList) for name in ("nodes", "waiting", "placements")]
        assert [each.size.height for each in lists] == heights

    drive(script, build_app(FakeReader(nodes, pods), FakeRunner()), (80, height))


def test_enter_leads_from_a_node_to_its_pods_to_a_decision_and_escape_back() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        assert isinstance(app.screen, NodeScreen)
        assert [line.split()[0] for line in drawn(app, "pods")] == ["shop/web-0", "data/db-0"]
        await pilot.press("enter")
        assert asked(app) == ("pod", "web-0", "-n", "shop", "--all")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, NodeScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.screen_stack[0])

    drive(script)


def test_search_sort_and_group_rearrange_the_nodes() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        nodes = app.screen.query_one("#nodes", RowList)
        await pilot.press("s")
        assert [row.name for row in nodes.rows] == ["worker-1", "worker-10", "worker-2"]
        await pilot.press("S")
        assert [row.name for row in nodes.rows] == ["worker-2", "worker-10", "worker-1"]
        await pilot.press("S", "g", *"zon", "tab", "enter")
        assert [row.name for row in nodes.rows] == ["zone-a", "worker-1", "worker-2", "zone-b", "worker-10"]
        await pilot.press("slash", *"gpu", "enter")
        assert [row.name for row in nodes.rows] == ["zone-b", "worker-10"]
        await pilot.press("escape")
        assert len(nodes.rows) == 5

    drive(script)


def test_namespace_restricts_pods_but_not_requests() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("n", *"data", "enter")
        assert [line.split()[0] for line in drawn(app, "placements")] == ["data/db-0"]
        assert "100%" in drawn(app, "nodes")[0]
        assert text(app, "title") == " herodotus top  3 nodes  0 of 1 waiting  namespace data  sort name"

    drive(script)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["i"], ("node", "worker-1")),
        (["tab", "enter"], ("pod", "payments-0", "-n", "shop", "--all")),
        (["down", "w", "enter"], ("pod", "payments-0", "-n", "shop", "--node", "worker-2")),
        (["w", *"web", "tab", "enter"], ("pod", "web-0", "-n", "shop", "--node", "worker-1")),
        (["w", *"WEB", "enter"], ("pod", "web-0", "-n", "shop", "--node", "worker-1")),
        (["tab", "w", *"-10", "enter"], ("pod", "payments-0", "-n", "shop", "--node", "worker-10")),
        (["tab", "w", "enter"], ("pod", "payments-0", "-n", "shop", "--node", "worker-1")),
        (["tab", "p"], ("plan", "pod", "payments-0", "-n", "shop")),
    ],
    ids=[
        *("history", "waiting", "why not here", "why not here: another pod", "why not here: the only match"),
        *("why not there: the only match", "why not there", "plan"),
    ],
)
def test_key_asks_a_command(keys: list[str], words: tuple[str, ...]) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await until(pilot, lambda: isinstance(app.screen, AnswerScreen))
        assert asked(app) == words

    drive(script)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["d"], "drain worker-1"),
        (["c"], "cordon worker-1"),
        (["down", "c"], "uncordon worker-2"),
        (["enter", "plus"], "scale replicaset/web-5d9c=2 -n shop"),
        (["d", "wait", "c"], "drain worker-1 --then uncordon worker-1"),
    ],
    ids=["drain", "cordon", "uncordon", "replica", "one after the other"],
)
def test_key_simulates(keys: list[str], words: str) -> None:
    runner = FakeRunner()

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        for key in keys:
            if key == "wait":
                await until(pilot, lambda: "displaced" in text(app, "status"))
            else:
                await pilot.press(key)
        await until(pilot, lambda: f"whatif {words} -o json" in [" ".join(each) for each in runner.asked])

    drive(script, build_app(runner=runner))


def test_drain_moves_pods_between_the_bars_and_escape_restores_them() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        before = drawn(app, "nodes"), drawn(app, "placements"), text(app, "title")
        await pilot.press("d")
        await until(pilot, lambda: len(drawn(app, "placements")) == 2 and "MOVED" in text(app, "placements-header"))
        assert text(app, "title") == " SIMULATED, nothing is changed: drain worker-1"
        assert text(app, "status") == " Drainable, but 1 of 2 displaced pods finds no node."
        assert drawn(app, "nodes") == [
            "changed (2)          ██----░░░░  19% █░░░░░░░░░   6% 2/220   -1 pod 1 cordoned",
            "worker-1             ----------   0% -░░░░░░░░░   0% 0/110   -2 pods cordoned",
            "worker-10            █+++░░░░░░  38% █░░░░░░░░░  12% 2/110   +1 pod gpu=true:N…",
            "worker-2             ░░░░░░░░░░   0% ░░░░░░░░░░   0% 0/110   cordoned",
        ]
        assert drawn(app, "placements") == [
            "shop/web-0                      worker-1 → worker-10",
            "data/db-0                       worker-1 → no node",
        ]
        assert drawn(app, "waiting")[0].split() == ["data/db-0", "–", "Insufficient", "cpu"]
        await pilot.press("escape")
        assert (drawn(app, "nodes"), drawn(app, "placements"), text(app, "title")) == before
        assert len(drawn(app, "waiting")) == 1

    drive(script)


def test_pods_move_one_after_the_other() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("d")
        await until(pilot, lambda: "MOVED" in text(app, "placements-header"))
        assert [row.name for row in app.screen.query_one("#placements", RowList).rows] == ["web-0"]
        await until(pilot, lambda: len(app.screen.query_one("#placements", RowList).rows) == 2)

    drive(script)


def test_whole_answer_of_a_simulation_and_pods_of_a_node_in_it() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("d")
        await until(pilot, lambda: len(drawn(app, "placements")) == 2 and "MOVED" in text(app, "placements-header"))
        await pilot.press("down", "enter")
        assert [line.split()[0] for line in drawn(app, "pods")] == ["shop/web-0", "shop/job-0"]
        await pilot.press("escape", "a")
        await until(pilot, lambda: isinstance(app.screen, AnswerScreen))
        assert asked(app) == ("whatif", "drain", "worker-1")

    drive(script)


def test_simulation_without_an_answer_says_why_and_changes_nothing() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        title = text(app, "title")
        await pilot.press("c")
        await until(pilot, lambda: "updated" in text(app, "status"))
        assert text(app, "title") == title
        assert any("no answer to whatif cordon worker-1" in note.message for note in app._notifications)

    drive(script)


def test_question_lists_what_completes_it() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("g")
        assert str(app.screen.query_one("#completions", Static).content).split()[:3] == ["none", "zone", "group"]
        await pilot.press("tab", "tab")
        assert app.screen.query_one(Input).value == "zone"
        await pilot.press("enter")
        assert "by zone" in text(app, "title")

    drive(script)


def test_tab_completes_the_key_that_the_line_has_not_handled_yet() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("g")
        line = app.screen.query_one(Input)
        line.post_message(events.Key("z", "z"))
        assert isinstance(app.screen, QuestionScreen)
        app.screen.action_complete()  # as the key Tab, which the program handles first
        await pilot.pause()
        assert line.value == "zone"
        await pilot.press("enter")
        assert "by zone" in text(app, "title")

    drive(script)


def test_title_counts_the_nodes_that_match_a_search() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        assert "top  3 nodes" in text(app, "title")
        await pilot.press("slash", *"worker-1", "enter")
        assert "top  2 of 3 nodes" in text(app, "title")

    drive(script)


def test_reason_of_the_waiting_pod_under_the_cursor_has_a_line_where_its_row_is_narrow() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        assert text(app, "reason") == "REASON Insufficient cpu"
        assert app.query_one("#reason").display
        await pilot.resize_terminal(160, 24)
        await until(pilot, lambda: not app.query_one("#reason").display)

    drive(script)


def test_text_typed_before_the_line_has_the_focus_is_kept_and_a_proposed_one_replaced() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash")
        app.screen.set_focus(None)
        await pilot.press(*"wor")
        app.screen.query_one(Input).focus()
        await pilot.press(*"ker")
        assert app.screen.query_one(Input).value == "worker"
        await pilot.press("enter", "slash")
        assert app.screen.query_one(Input).value == "worker"
        await pilot.press("x")
        assert app.screen.query_one(Input).value == "x"

    drive(script)


def test_why_not_proposes_no_node_that_the_pod_is_on() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter", "w")
        assert app.screen.query_one(Input).value == ""

    drive(script)


def test_a_move_of_the_cursor_draws_only_two_lines() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        rows = app.screen.query_one("#nodes", RowList)
        lines: list[int] = []
        draw = rows.render_line
        rows.render_line = lambda y: lines.append(y) or draw(y)  # type: ignore[method-assign,func-returns-value]
        await pilot.press("down")
        await until(pilot, lambda: len(lines) >= 2)
        app.show_state()  # nothing has changed
        await pilot.pause(0.1)
        assert sorted(lines) == [0, 1]

    drive(script)


def test_copy_puts_the_command_of_the_fix_on_the_clipboard() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("tab", "y")
        await until(pilot, lambda: app.clipboard == "kubectl delete pod db-0")

    drive(script)


def test_fix_stays_while_it_is_looked_up_again() -> None:
    runner = FakeRunner()

    def count() -> int:
        return sum(words[-1] == "brief" for words in runner.asked)

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "free 2 cpu" in text(app, "fix"))
        before = count()
        await pilot.press("r")
        while count() == before:
            assert "free 2 cpu" in text(app, "fix")
            await pilot.pause(0.01)

    drive(script, build_app(runner=runner))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["w", *"o", "enter"], "3 match o: Tab takes the next"),
        (["w", *"nowhere", "enter"], "nothing matches nowhere"),
        (["n", *"nowhere", "enter"], "nothing matches nowhere"),
        (["tab", "w", *"worker", "enter"], "3 match worker: Tab takes the next"),
        (["g", *"nothing", "enter"], "nothing matches nothing"),
    ],
    ids=["several pods", "no pod", "no namespace", "several nodes", "no label"],
)
def test_question_goes_on_after_text_that_is_no_choice(keys: list[str], said: str) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        assert isinstance(app.screen, QuestionScreen)
        assert str(app.screen.query_one("#question", Static).content) == f" {said}"
        await pilot.press("backspace")
        assert str(app.screen.query_one("#question", Static).content) != f" {said}"
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.screen_stack[0])

    drive(script)


def test_a_key_ends_the_message_of_the_key_before() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("plus")
        await until(pilot, lambda: len(app._notifications))
        await pilot.press("escape")
        assert len(app._notifications) == 0

    drive(script)


@pytest.mark.parametrize("width", [80, 120, 40])
@pytest.mark.parametrize(
    "keys",
    [[], ["enter"], ["tab", "enter"], ["d", "wait"], ["question_mark"]],
    ids=["main", "node", "answer", "simulation", "help"],
)
def test_keys_are_shown_whole_and_the_last_is_quit(keys: list[str], width: int) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        for key in keys:
            if key == "wait":
                await until(pilot, lambda: "displaced" in text(app, "status"))
            else:
                await pilot.press(key)
        await pilot.pause()
        line = str(app.screen.query_one(KeysLine).content)
        assert line.endswith("  q quit")
        assert len(line) <= width

    drive(script, size=(width, 24))


@pytest.mark.parametrize("width", [80, 200, 40])
def test_help_lists_every_key(width: int) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        answer = app.screen.query_one(AnswerText)
        await until(pilot, lambda: answer.virtual_size.height > 20)
        assert answer.virtual_size.width < width
        assert answer.max_scroll_x == 0

    drive(script, size=(width, 24))


def test_completions_are_whole_words() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("tab", "w")
        shown = str(app.screen.query_one("#completions", Static).content)
        *names, more = shown.strip().split("  ")
        assert {name.partition("-")[0] for name in names} == {"node"}
        assert all(len(name) == len("node-0000") for name in names)
        assert more == f"… {300 - len(names)} more"

    drive(script, build_app(FakeReader([node(f"node-{i:04}") for i in range(300)])))


def test_failed_update_is_on_the_status_line_and_the_program_goes_on() -> None:
    app = build_app(FakeReader(error=CliError("error: kubectl proxy did not answer", ["is it running?"])))

    async def script() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: "kubectl proxy did not answer is it running?" in text(app, "status"))
            await pilot.press("question_mark")
            assert isinstance(app.screen, HelpScreen)

    asyncio.run(script())


def test_waiting_pods_are_evaluated_after_the_first_nodes_are_shown() -> None:
    runner, shown = FakeRunner(), threading.Event()

    class SlowReader(FakeReader):
        def read(self, namespace: str, show: Callable[[NodesAndPods], None] | None = None) -> NodesAndPods:
            time.sleep(0.3)
            assert runner.asked == []
            shown.set()
            return super().read(namespace, show)

    async def script(_app: TopApp, _pilot: Pilot[None]) -> None:
        assert shown.is_set()
        assert runner.asked[0][0] == "pending"

    drive(script, build_app(SlowReader(), runner))


def test_cursor_stays_on_its_node_while_others_come() -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "s")  # worker-2, which is the last by cpu
        rows = app.screen.query_one("#nodes", RowList)
        assert (rows.row.name if rows.row else "", rows.cursor) == ("worker-2", 2)

    drive(script)


def test_only_rows_on_the_screen_are_written() -> None:
    written = []

    def write(row: NodeRow) -> list[Part]:
        written.append(row)
        return [(row.name, "")]

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        rows = app.screen.query_one("#nodes", RowList)
        rows.show_rows(rows.rows, write)
        await pilot.pause()
        assert len(rows.rows) == 5000
        assert len(written) < 100
        await pilot.press("end")
        await until(pilot, lambda: drawn(app, "nodes")[-1].startswith("n-4999"))

    drive(script, build_app(FakeReader([node(f"n-{i}") for i in range(5000)], []), FakeRunner()))
