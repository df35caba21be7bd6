"""Installed again and again: the first record comes at once each time, and nothing is left when it is removed."""

from __future__ import annotations

import os

from tests.node.installation import Installation, installed, list_leftovers
from tests.node.machine import Machine

TIMES = int(os.environ.get("HERODOTUS_INSTALLATIONS", "10"))
FIRST_ANSWER_S = 5.0


def test_every_installation_answers_within_five_seconds_and_leaves_nothing(machine: Machine) -> None:
    """Each time a new namespace, new pods, an empty volume and a new certificate; images are on the node already."""
    took_s = []
    for i in range(TIMES):
        with installed(Installation(machine)) as installation:
            took_s.append(installation.measure_first_answer(f"first-{i}"))
            machine.kubectl("delete", "pod", f"first-{i}", "--force", "--grace-period=0")
        print(f"installation {i + 1}: first answer after {took_s[-1]:.1f} s")
        assert list_leftovers(machine) == []
    assert max(took_s) < FIRST_ANSWER_S, took_s
