"""Keep `import httpx` small. A module of its own, because what calls it runs before any other import.

Owns: what is left out of httpx. Does not own: where httpx is imported (the contracts in `pyproject.toml`).
"""

import sys


def leave_out_command_line() -> None:
    """Keep a later `import httpx` from importing its command line, with click, Rich and pygments.

    These are a quarter of the imports of the shipper, and 60 of the 250 ms of a command with --endpoint. httpx itself
    works without them, and its function `main` says what is missing.
    """
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
