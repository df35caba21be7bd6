"""Out-of-tree plugins: from an entry point, from module:Class, from a command of one's own; and what can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.commands.main import main
from scheduler.config import parse_config
from scheduler.config.defaulted import fill_defaults
from scheduler.engine.framework.per_node import PerNodePlugin
from scheduler.engine.framework.plugin import BasePlugin, NoArgs
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.registry import PluginLoadError, Registry, with_plugin
from scheduler.offline.evaluate import evaluate
from scheduler.offline.evaluate.cases import CaseError

SOURCE = """
from scheduler.engine.framework.per_node import PerNodePlugin
from scheduler.engine.framework.plugin import Args

class EvenArgs(Args, frozen=True):
    points: int = 7

class Even(PerNodePlugin):
    name = "Even"
    args_type = EvenArgs

    def score(self, state, pod, node):
        return self.args.points

class Raises(PerNodePlugin):
    name = "Raises"

    def filter(self, state, pod, node):
        raise ZeroDivisionError("by zero")

class Unmade(PerNodePlugin):
    name = "Unmade"

    def __init__(self, args, handle):
        raise OSError("no model file")

class Nameless(PerNodePlugin):
    pass

class NodeName(PerNodePlugin):
    name = "NodeName"

def function(args, handle): ...
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a package `even_plugins` with entry points (lines NAME = VALUE), as pip leaves it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "even_plugins.py").write_text(SOURCE)
    info = tmp_path / "even_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: even-plugins\nVersion: 1.0\n")

    def points(lines: str) -> None:
        (info / "entry_points.txt").write_text(f"[herodotus.plugins]\n{lines}\n")

    points("")
    return points


def config(plugin: str, args: dict[str, Any] | None = None) -> dict[str, Any]:
    profile: dict[str, Any] = {"plugins": {"multiPoint": {"enabled": [{"name": plugin, "weight": 3}]}}}
    if args is not None:
        profile["pluginConfig"] = [{"name": plugin, "args": args}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **profile}],
    }


def outcome(registry: Registry, plugin: str, args: dict[str, Any] | None = None) -> Any:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    pod = {"kind": "Pod", "metadata": {"namespace": "d", "name": "p", "uid": "p"}, "spec": {"containers": []}}
    case = {"id": "case", "objects": [node], "pod": pod, "config": config(plugin, args)}
    return evaluate(case, None, registry).outcome()


@pytest.mark.parametrize("name", ["Even", "even_plugins:Even"])
def test_a_plugin_is_loaded_by_entry_point_or_module(installed: Callable[[str], None], name: str) -> None:
    """Records have the name that it calls itself, either way."""
    installed("Even = even_plugins:Even")
    assert outcome(Registry(), name, {"points": 9})["scores"]["Even"] == {
        "raw": {"n": 9},
        "normalized": {"n": 9},
        "weight": 3,
    }


@pytest.mark.parametrize("name", ["Even", "even_plugins:Even"], ids=["its name", "module:Class"])
def test_printed_configuration_of_a_module_plugin_can_be_loaded(installed: Callable[[str], None], name: str) -> None:
    written = config("even_plugins:Even")
    written["profiles"][0]["pluginConfig"] = [{"name": name, "args": {"points": 9}}]
    first = fill_defaults(parse_config(json.dumps(written), registry=Registry()), Registry())
    (args,) = [entry["args"] for entry in first["profiles"][0]["pluginConfig"] if entry["name"] == "Even"]
    assert (args["points"], args["kind"]) == (9, "EvenArgs")
    assert fill_defaults(parse_config(json.dumps(first), registry=Registry()), Registry()) == first


def test_arguments_are_checked_as_those_of_in_tree_plugins(installed: Callable[[str], None]) -> None:
    with pytest.raises(CaseError, match='decoding args for plugin even_plugins:Even: unknown field "point"'):
        outcome(Registry(), "even_plugins:Even", {"point": 9})


def test_a_plugin_that_raises_fails_the_attempt_with_its_name(installed: Callable[[str], None]) -> None:
    registry = Registry()
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}
    pod = {"kind": "Pod", "metadata": {"namespace": "d", "name": "p", "uid": "p"}, "spec": {"containers": []}}
    case = {"id": "case", "objects": [node], "pod": pod, "config": config("even_plugins:Raises")}
    assert evaluate(case, None, registry).result.message == 'running "Raises" filter plugin: by zero'


def test_nothing_is_imported_that_no_configuration_names(installed: Callable[[str], None]) -> None:
    installed("Broken = no_such_module:Broken")
    registry = Registry()
    assert "Broken" in registry
    assert set(registry) == {*IN_TREE, "Broken"}
    with pytest.raises(PluginLoadError, match="no_such_module:Broken cannot be loaded: ModuleNotFoundError"):
        registry["Broken"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("no_such_module:Even", "cannot be loaded: ModuleNotFoundError", id="no module"),
        pytest.param("even_plugins:Odd", "cannot be loaded: AttributeError", id="no class"),
        pytest.param("even_plugins:function", "is no class derived from", id="a function"),
        pytest.param("even_plugins:Nameless", "the class has no `name`", id="no name"),
        pytest.param("even_plugins:NodeName", "a plugin named NodeName already exists", id="a name that is taken"),
        pytest.param("even_plugins:", "expected module:Class", id="a module alone"),
        pytest.param(":", "expected module:Class", id="nothing at all"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_a_one_line_error(
    installed: Callable[[str], None], name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config(name)))
    assert main(["validate", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words in said
    assert said.count("\n") == 1


def test_a_plugin_whose_constructor_fails_is_named(installed: Callable[[str], None]) -> None:
    with pytest.raises(CaseError, match=r'profiles\[0\]: initializing plugin "Unmade": OSError: no model file'):
        outcome(Registry(), "even_plugins:Unmade")


def test_an_entry_point_and_its_plugin_agree_about_the_name(installed: Callable[[str], None]) -> None:
    installed("Odd = even_plugins:Even")
    with pytest.raises(PluginLoadError, match="the entry point Odd = even_plugins:Even: the plugin calls itself Even"):
        Registry()["Odd"]


class Own(PerNodePlugin):
    name = "Own"
    args_type = NoArgs

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 1


def test_a_custom_command_registers_its_plugins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config("Own")))
    assert main(["validate", str(file)]) == 1
    assert 'MultiPoint "Own" does not exist' in capsys.readouterr().err
    assert main(["validate", str(file)], plugins=[with_plugin("Own", Own)]) == 0
    assert "name: Own" in capsys.readouterr().out


def test_with_plugin_refuses_objects_that_are_no_plugins() -> None:
    with pytest.raises(PluginLoadError, match="the plugin calls itself Own"):
        with_plugin("Other", Own)
    with pytest.raises(PluginLoadError, match="a plugin named NodeName already exists"):
        Registry([("NodeName", type("NodeName", (BasePlugin,), {"name": "NodeName"}))])
