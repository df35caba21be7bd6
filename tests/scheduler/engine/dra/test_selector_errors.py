"""Errors of CEL selectors in the message: since v1.37 with the device, and with a hint if an attribute is absent."""

from __future__ import annotations

import pytest

from scheduler.offline.evaluate import evaluate
from tests.scheduler.engine.dra.builders import DRIVER, claim, device, device_class, exactly, node, pod, slice_on

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ABSENT = f'device.attributes["{DRIVER}"].numa == 0'
HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)


@pytest.mark.parametrize(
    ("expression", "version", "words"),
    [
        (ABSENT, "v1.36", "selector #0: CEL runtime error: no such key: numa"),
        (ABSENT, "v1.37", f"selector #0 on device {DRIVER}/n1/a: CEL runtime error: no such key: numa{HINT}"),
        ("1 / 0 == 1", "v1.36", "selector #0: CEL runtime error: division by zero"),
        ("1 / 0 == 1", "v1.37", f"selector #0 on device {DRIVER}/n1/a: CEL runtime error: division by zero"),
    ],
    ids=["absent v1.36", "absent v1.37", "other v1.36", "other v1.37"],
)
@pytest.mark.parametrize("owner", ["class gpu", "claim default/c"])
def test_the_error_of_a_selector_names_the_device_since_v1_37(
    expression: str, version: str, words: str, owner: str
) -> None:
    of_class, of_request = ([expression], []) if owner == "class gpu" else ([], [expression])
    objects = [
        node("n1"),
        device_class("gpu", *of_class),
        slice_on("n1", device("a")),
        claim("c", exactly("r", 1, *of_request)),
    ]
    config = {**CONFIG, "kubernetesVersion": version}
    decided = evaluate({"id": "case", "config": config, "pod": pod("c"), "objects": objects})
    assert decided.result.message.endswith(f"{owner}: {words}")


def test_an_expression_that_does_not_compile_names_no_device() -> None:
    objects = [node("n1"), device_class("gpu", "nothing"), slice_on("n1", device("a")), claim("c", exactly("r"))]
    config = {**CONFIG, "kubernetesVersion": "v1.37"}
    decided = evaluate({"id": "case", "config": config, "pod": pod("c"), "objects": objects})
    assert "class gpu: selector #0: CEL compile error: " in decided.result.message
