"""Readers take turns: whoever asks much waits for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from herodotus_endpoint.fair_queue import FairQueue, TurnRefusedError
from tests.processes import eventually


class Scene:
    """A queue, and threads that ask for turns in it and keep them until they are told to end."""

    def __init__(self, concurrent: int, per_client: int, waiting: int = 9) -> None:
        self.queue = FairQueue(concurrent, per_client, waiting, wait_s=20)
        self.running: list[str] = []
        self._ends: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []
        self._asked = 0

    def ask(self, name: str) -> None:
        """Let the client that the first letter names ask for a turn, and wait until it waits or runs."""
        end = self._ends[name] = threading.Event()

        def hold() -> None:
            with self.queue.admit(name[0]):
                self.running.append(name)
                end.wait(30)
                self.running.remove(name)

        self._threads.append(threading.Thread(target=hold, daemon=True))
        self._threads[-1].start()
        self._asked += 1
        eventually(lambda: len(self.running) + len(self.queue._waiting) == self._asked, "the thread to ask")

    def end(self, name: str) -> None:
        self._ends[name].set()
        self._asked -= 1
        eventually(lambda: name not in self.running, f"{name} to end")

    def runs(self, *names: str) -> None:
        eventually(lambda: sorted(self.running) == sorted(names), f"{names} to run, not {self.running}")

    def close(self) -> None:
        for end in self._ends.values():
            end.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(*request.param)
    yield made
    made.close()


@pytest.mark.parametrize("scene", [(2, 2)], indirect=True)
def test_a_client_that_waits_comes_before_a_second_turn_of_another(scene: Scene) -> None:
    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        scene.ask(name)
    scene.runs("a1", "a2")
    scene.end("a1")
    scene.runs("a2", "b1")
    scene.end("b1")
    scene.runs("a2", "c1")
    scene.end("a2")
    scene.end("c1")
    scene.runs("a3", "b2")


@pytest.mark.parametrize("scene", [(4, 1)], indirect=True)
def test_a_client_has_its_number_of_turns_at_most(scene: Scene) -> None:
    for name in ("a1", "a2", "b1"):
        scene.ask(name)
    scene.runs("a1", "b1")
    scene.end("a1")
    scene.runs("a2", "b1")


@pytest.mark.parametrize("scene", [(1, 1, 2)], indirect=True)
def test_a_client_for_which_many_wait_is_refused(scene: Scene) -> None:
    for name in ("a1", "a2", "a3"):
        scene.ask(name)
    with pytest.raises(TurnRefusedError, match="1 requests of this reader run and 2 wait"), ExitStack() as held:
        held.enter_context(scene.queue.admit("a"))
    scene.ask("b1")
    scene.end("a1")
    scene.runs("b1")


@pytest.mark.parametrize("leaves", [lambda: (_ for _ in ()).throw(KeyError), None], ids=["client", "time"])
def test_who_leaves_the_queue_leaves_nothing_behind(leaves: Callable[[], None] | None) -> None:
    queue = FairQueue(1, 1, 9, wait_s=0.2)
    with queue.admit("a"), pytest.raises((KeyError, TurnRefusedError)), queue.admit("b", *([leaves] if leaves else [])):
        pass
    with queue.admit("b"):
        pass
