"""`python -m bench.simulation`: many seeds on virtual time, replays of one, and shrinking of a failing one."""

from __future__ import annotations

import os
import sys

from bench.simulation import standard_library

if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets depends on it
        os.environ |= {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, "-m", "bench.simulation", *sys.argv[1:]])
    standard_library.install()
    from bench.simulation import network

    network.install()
    from bench.simulation.command import main

    raise SystemExit(main())
