"""What the commands make of a configuration with extenders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.commands import main as app
from scheduler.offline.evaluate.cases import answer, evaluate
from tests.scheduler.builders import make_node, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_run_refuses_certificates_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "extenders: [{urlPrefix: https://e, tlsConfig: {caFile: /nowhere/ca.crt}}]")
    arguments = ["--config", str(config), "--master", "http://127.0.0.1:1", "--spool", str(tmp_path / "spool")]
    assert app.main(["run", *arguments, "--secure-port", "0"]) == 1
    said = capsys.readouterr().err
    assert "error: couldn't build extenders: unable to load certificates" in said


@pytest.mark.parametrize("form", ["case", "decision"])
def test_evaluate_skips_reviews_and_marks_it(form: str) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}],
    }
    node = {"apiVersion": "v1", "kind": "Node", **make_node().json}
    decided = answer("x", evaluate({"config": config, "objects": [node], "pod": make_pod().json}), form)
    assert "extender http://127.0.0.1:1 was not called: evaluate calls no extender" in json.dumps(decided)
