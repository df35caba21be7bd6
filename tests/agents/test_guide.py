"""The examples of the guides run as printed: the agent of docs/writing-an-agent.md, the files of earlier-systems.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from herodotus_agents import settings
from herodotus_agents.agents import AGENTS
from herodotus_agents.registry import load_agents
from scheduler import config
from tests.agents.builders import a_node, a_pod, feasible_nodes, points, service
from tests.processes import ROOT

GUIDE = ROOT / "docs" / "writing-an-agent.md"
EARLIER_SYSTEMS = ROOT / "docs" / "earlier-systems.md"
ZONE = "topology.kubernetes.io/zone"


def test_the_agent_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_file = _blocks(GUIDE, "python")[0]
    (tmp_path / "zone_of_the_guide.py").write_text(whole_file)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(AGENTS, "zone", "zone_of_the_guide:AGENT")
    client, none_closed = service("zone", environment={"ZONE_CLOSED": "b"}), service("zone")
    nodes = [a_node("n1"), a_node("n2")]
    for node, zone in zip(nodes, "ab", strict=True):
        node["metadata"]["labels"] = {ZONE: zone}
    assert feasible_nodes(client, "zone", a_pod(), nodes) == (["n1"], {"n2": "zone b is closed"})
    assert feasible_nodes(none_closed, "zone", a_pod(), [a_node("n0"), *nodes]) == (["n0", "n1", "n2"], {})
    assert points(client, "zone", a_pod(), nodes) == {"n1": 10, "n2": 5}


def test_the_files_of_earlier_systems_are_read(tmp_path: Path) -> None:
    agents, scheduler = tmp_path / "agents.yaml", tmp_path / "scheduler.yaml"
    for file, printed in zip((agents, scheduler), _blocks(EARLIER_SYSTEMS, "yaml"), strict=True):
        file.write_text(printed)
    service = settings.load_extender_service_settings(agents, {})
    assert load_agents(service.agents, service.settings, {}).failed == {}
    (profile,) = config.load(scheduler).profiles
    assert profile.scheduler_name == "hightower"


def _blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)
