"""Sentences on answers about the cluster."""

import pytest

from herodotus_answers.cluster_headlines import shorten_fit_error


@pytest.mark.parametrize(
    ("message", "short"),
    [
        (
            "0/12 nodes are available: 1 node(s) were unschedulable,"
            " 11 node(s) didn't satisfy plugin(s) [NodeAffinity]."
            " preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling.",
            "1 node: cordoned, 11: node selector or affinity",
        ),
        (
            "0/6 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu,"
            " 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            "2 nodes: Insufficient cpu, 4: node selector or affinity",
        ),
        (
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [A B] simultaneously.",
            "1 node: Insufficient cpu, 2: excluded by A B",
        ),
        ("pod has unbound immediate PersistentVolumeClaims. more", "pod has unbound immediate PersistentVolumeClaims."),
    ],
)
def test_message_of_a_fit_error_is_shortened(message: str, short: str) -> None:
    assert shorten_fit_error(message) == short
