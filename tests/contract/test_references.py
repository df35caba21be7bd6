"""The generated references agree with the code. HERODOTUS_REGENERATE=1 writes them again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from herodotus_cli import pager
from tests.contract import chart_values, references
from tests.contract.meanings import MEANINGS, VARIABLES

ROOT = Path(__file__).parents[2]
# by whom they are read
FOLDERS = {
    "kubectl herodotus": "herodotus_cli",
    "scheduler": "scheduler",
    "decisions service": "herodotus_endpoint",
    "extender service and annotators": "herodotus_agents",
}
OF_A_REQUEST = {"HTTP_AUTHORIZATION", "REMOTE_ADDR", "PATH_INFO", "REQUEST_METHOD"}  # WSGI's, not of the process
READ = re.compile(r'(?:environ(?:\.get\(|\[)|_parse_variable\(environ, )"([A-Z_]+)"|"([A-Z_]+)" in os\.environ')
CREDENTIALS = {"KUBECONFIG", "KUBERNETES_SERVICE_HOST"}  # herodotus_kube reads them
ELSEWHERE = {"kubectl herodotus": {*pager._VARIABLES}, "scheduler": CREDENTIALS, "decisions service": CREDENTIALS}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flags.md", references.flags),
        ("parity.md", references.parity),
        ("configuration-reference.md", references.configuration),
        ("record.md", references.record),
        ("monitoring.md", references.metrics),
        ("reasons.md", references.reasons),
        ("chart-values.md", chart_values.text),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_references_equal_the_code(name: str, text: Callable[[], str]) -> None:
    file = ROOT / "docs" / name
    if os.environ.get("HERODOTUS_REGENERATE"):
        file.write_text(text())
    assert text() == file.read_text(), "HERODOTUS_REGENERATE=1 writes it anew"


NOT_A_SETTING = {"USERPROFILE", "PYINSTALLER_RESET_ENVIRONMENT"}  # of other programs


@pytest.mark.parametrize("who", FOLDERS)
def test_every_environment_variable_has_its_row(who: str) -> None:
    source = "\n".join(file.read_text() for file in sorted((ROOT / FOLDERS[who]).rglob("*.py")))
    read = {name for match in READ.findall(source) for name in match if name} | ELSEWHERE.get(who, set())
    assert read - OF_A_REQUEST - NOT_A_SETTING == VARIABLES[who].keys()


def test_every_field_of_kube_scheduler_has_a_meaning() -> None:
    for kind, meanings in MEANINGS.items():
        assert list(meanings) == [field.encode_name for field in msgspec.structs.fields(kind)], kind.__name__
