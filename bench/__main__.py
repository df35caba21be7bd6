"""`python -m bench BENCHMARK`: the benchmarks of the scheduler and of the extender service, one module each."""

from __future__ import annotations

import argparse
from typing import Final

from bench import algorithm, comparison, extender, footprint, gpu_packing, latency, start, trace_parity
from bench.processes import exit_on_sigterm

BENCHMARKS: Final = {
    "algorithm": algorithm,
    "control-plane": comparison,
    "latency": latency,
    "start": start,
    "footprint": footprint,
    "extender": extender,
    "gpu-packing": gpu_packing,
    "trace-parity": trace_parity,
}


def main() -> int:
    """Run a benchmark and return the exit code."""
    exit_on_sigterm()
    arguments = _parser().parse_args()
    code: int = arguments.run(arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the scheduler.")
    benchmarks = parser.add_subparsers(metavar="BENCHMARK", required=True)
    for name, module in BENCHMARKS.items():
        summary = (module.__doc__ or "").splitlines()[0]
        command = benchmarks.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
