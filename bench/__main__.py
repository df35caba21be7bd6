"""`python -m bench`: run workloads and print a table; `evaluate-NODESxPODS` times single pods on a full cluster.

python -m bench [--nodes 5000] [--pods 200] [--rounds 3] [WORKLOAD ...]
"""

from __future__ import annotations

import argparse

from bench.algorithm import calibration_ms, run
from bench.evaluation import SIZES, Measured, measure
from bench.workloads import WORKLOADS


def main() -> int:
    """Run the named workloads, or all."""
    names = [*(w.name for w in WORKLOADS), *SIZES]
    parser = argparse.ArgumentParser(prog="python -m bench", description="Cycle rates of the algorithm alone.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=200, help="pods scheduled in a round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds with and without recording, in turn")
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(names)}; default: all but evaluate-"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.workloads) - set(names)
    if unknown:
        parser.error(f"unknown workload {', '.join(sorted(unknown))}; known: {', '.join(names)}")
    print(f"calibration {calibration_ms():.1f} ms; {arguments.nodes} nodes, every one filtered and scored")
    print(f"{'WORKLOAD':36}{'CYCLES/S':>10}{'P99 MS':>9}{'RECORDING':>11}{'BYTES':>8}")
    for workload in WORKLOADS:
        if not arguments.workloads or workload.name in arguments.workloads:
            r = run(workload, arguments.nodes, arguments.pods, arguments.rounds)
            print(
                f"{r.workload:36}{r.cycles_per_s:>10.0f}{r.cycle_p99_ms:>9.2f}"
                f"{r.recording_ratio:>11.2f}{r.bytes_per_decision:>8.0f}"
            )
    for name, (nodes, pods) in SIZES.items():
        if name in arguments.workloads:
            _print_evaluation(name, measure(nodes, pods))
    return 0


def _print_evaluation(name: str, measured: Measured) -> None:
    print(f"{name}: loaded in {measured.load_s:.1f} s; slowest first pod: {measured.worst.name}")
    print(f"{'POD':36}{'FIRST MS':>10}{'NEXT MS':>9}{'FEASIBLE':>11}")
    for shape in measured.shapes:
        print(f"{shape.name:36}{shape.first_ms:>10.1f}{shape.second_ms:>9.1f}{shape.feasible:>11}")


if __name__ == "__main__":
    raise SystemExit(main())
