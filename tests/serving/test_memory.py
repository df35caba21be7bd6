"""Memory of freed requests returns to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import re, sys
from herodotus_serving.memory import return_large_blocks

def resident_mib():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10

if "set" in sys.argv:
    return_large_blocks()
bytearray(31 << 20)  # once freed, glibc keeps blocks below its size
before = resident_mib()
blocks = [(b"x" * (1 << 20), b"x" * 40_000) for _ in range(64)]
pins = [small for _, small in blocks]  # between the large ones in the heap
del blocks
print(resident_mib() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
@pytest.mark.parametrize(("argument", "remains"), [("set", False), ("", True)])
def test_large_blocks_return_to_the_system(argument: str, remains: bool) -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT, argument], capture_output=True, text=True, check=True)
    assert (int(ran.stdout) > 32) is remains
