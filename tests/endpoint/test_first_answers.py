"""The first answers of each kind, to requests that come at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each thread makes the first answer of a kind; the interpreter switches between them as often as it can.
PROGRAM = """
import sys, threading
import msgspec
from herodotus_answers.schema import list_types
from herodotus_endpoint.errors import json_response

sys.setswitchinterval(1e-6)
together = threading.Barrier(8)

def answer(kind):
    together.wait()
    try:
        json_response({"kind": kind})
    except msgspec.ValidationError:
        pass  # the document has no other field

for kind in list_types():
    threads = [threading.Thread(target=answer, args=(kind,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize("attempt", range(3))
def test_first_answers_at_once_do_not_crash_the_process(attempt: int) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert (attempt, done.returncode, done.stderr) == (attempt, 0, "")
