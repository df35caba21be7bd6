"""The agent of docs/writing-an-agent.md is one as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from herodotus_agents.agents import AGENTS
from tests.agents.builders import a_node, a_pod, left, points, service
from tests.processes import ROOT

GUIDE = ROOT / "docs" / "writing-an-agent.md"
ZONE = "topology.kubernetes.io/zone"


def test_the_guide_s_agent_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_file = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    (tmp_path / "zone_of_the_guide.py").write_text(whole_file)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(AGENTS, "zone", "zone_of_the_guide:KIND")
    client, none_closed = service("zone", environment={"ZONE_CLOSED": "b"}), service("zone")
    nodes = [a_node("n1"), a_node("n2")]
    for node, zone in zip(nodes, "ab", strict=True):
        node["metadata"]["labels"] = {ZONE: zone}
    assert left(client, "zone", a_pod(), nodes) == (["n1"], {"n2": "zone b is closed"})
    assert left(none_closed, "zone", a_pod(), [a_node("n0"), *nodes]) == (["n0", "n1", "n2"], {})
    assert points(client, "zone", a_pod(), nodes) == {"n1": 10, "n2": 5}
