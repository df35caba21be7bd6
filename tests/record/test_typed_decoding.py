"""Decoding into types for the first time in several threads, which msgspec alone does not survive."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

# Types that contain each other in a long chain, and threads that decode from different places of the chain.
PROGRAM = dedent(
    """
    import sys, threading, types
    from herodotus_record import typed_decoding

    LENGTH, THREADS = 60, 8
    source = "from __future__ import annotations\\nfrom typing import Optional, TypedDict\\nimport msgspec\\n"
    for i in range(LENGTH):
        child = f"    child: Optional[T{i + 1}]\\n" if i + 1 < LENGTH else ""
        source += f"class T{i}(BASE):\\n    a: int\\n    b: list[str]\\n{child}\\n"
    module = sys.modules["chain"] = types.ModuleType("chain")
    exec(source.replace("BASE", sys.argv[1]), module.__dict__)
    document = None
    for _ in range(LENGTH):
        document = {"a": 1, "b": ["x"], **({"child": document} if document else {})}
    sys.setswitchinterval(1e-6)
    start, decoded = threading.Barrier(THREADS), []

    def decode(depth):
        part = document
        for _ in range(depth):
            part = part["child"]
        start.wait()
        decoded.append(typed_decoding.convert(part, getattr(module, f"T{depth}")))

    threads = [threading.Thread(target=decode, args=(number * 5,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(0 if len(decoded) == THREADS else 1)
    """
)


@pytest.mark.parametrize("base", ["TypedDict", "msgspec.Struct"])
def test_threads_may_use_a_type_for_the_first_time_together(base: str) -> None:
    for _ in range(5):
        ended = subprocess.run([sys.executable, "-c", PROGRAM, base], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr[-1000:]
