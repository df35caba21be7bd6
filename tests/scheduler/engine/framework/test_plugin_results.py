"""What a plugin answers, or raises, never ends the process: the extension point fails with the plugin's name."""

from __future__ import annotations

import io
from typing import Any

import pytest

from herodotus_record import klog
from herodotus_record.model import Code, DecisionPath, PluginVerdict
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Scores, framework, run, text

SAYS_NOTHING = "answered None, which is no Verdict"


class Forgetful:
    """A plugin of somebody else: without `return`, or one that exits."""

    name = "Forgetful"

    def __init__(self, raises: BaseException | None) -> None:
        self._raises = raises

    def __getattr__(self, point: str) -> Any:
        def say(*_: Any) -> None:
            if self._raises is not None:
                raise self._raises

        return say


@pytest.mark.parametrize(
    ("raises", "words"), [(None, SAYS_NOTHING), (SystemExit("bye"), "bye"), (KeyError("k"), "'k'")], ids=repr
)
class TestAnAnswerThatIsNone:
    def made(self, point: str, raises: BaseException | None) -> Framework:
        plugins: dict[str, Any] = {point: (Forgetful(raises),)}
        return framework(**plugins)

    @pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "bind"])
    def test_a_plugin_without_a_result_fails_each_binding_point(
        self, point: str, raises: BaseException | None, words: str
    ) -> None:
        said = getattr(self.made(point, raises), f"run_{point}")(CycleState(), make_pod().info(), "n")
        assert said == PluginVerdict("Forgetful", text(words, Code.ERROR))

    def test_a_plugin_without_a_result_at_pre_enqueue_gates_the_pod(
        self, raises: BaseException | None, words: str
    ) -> None:
        log = io.StringIO()
        klog.setup(0, log)
        said = self.made("pre_enqueue", raises).run_pre_enqueue(make_pod().info())
        assert said == PluginVerdict("Forgetful", text(words, Code.ERROR))
        assert f'"Unexpected error running PreEnqueue plugin" err="{words}" pod="default/p"' in log.getvalue()

    def test_a_plugin_without_a_result_at_pre_score_fails_the_attempt(
        self, raises: BaseException | None, words: str
    ) -> None:
        made = framework(score=(Scores("S", {}),))
        object.__setattr__(made.profile, "pre_score", (Forgetful(raises),))
        result = run(made, columns_of([make_node("a"), make_node("b")]))
        assert (result.path, result.message) == (DecisionPath.ERROR, f'running PreScore plugin "Forgetful": {words}')

    def test_a_pre_score_without_a_result_does_not_skip(self, raises: BaseException | None, words: str) -> None:
        assert self.made("pre_bind", raises).run_pre_bind_pre_flight(CycleState(), make_pod().info(), "n")
