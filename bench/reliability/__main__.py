"""`python -m bench.reliability`: one run, or many with consecutive seeds, and a report.

python -m bench.reliability [--seed N] [--operations 10000] [--server simulated|real] [--replicas 2]
python -m bench.reliability --rounds 100 --server real --lease-s 15    stalled storage, lost Leases, frozen leaders
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from bench.processes import exit_on_sigterm
from bench.reliability.driver import FaultRun, RunSettings, run
from bench.reliability.system import ApiProcess, Election, RealApi, SimulatedApi, System
from tests.e2e import control_plane


def main() -> int:
    """Run and print the report; return 1 if an invariant was violated."""
    args = _parser().parse_args()
    exit_on_sigterm()
    directory = Path(args.directory or tempfile.mkdtemp(prefix="reliability-"))
    directory.mkdir(parents=True, exist_ok=True)
    settings = RunSettings(args.seed, args.operations, args.per_s, args.disturb_every_s, args.rounds)
    print(f"seed {args.seed}; logs in {directory}", flush=True)
    api = _api(args.server, directory)
    try:
        system = System(api, directory, args.replicas, Election(args.lease_s, args.lease_s * 2 / 3, args.lease_s / 6))
        try:
            result = run(system, settings)
        finally:
            system.stop()
    finally:
        api.stop()
    if not api.faulty:  # A server with injected faults may delay an election.
        result.violations += exceeded_limits(result, system.election)
    print(report(result, system.election, bounded=not api.faulty))
    return 1 if result.violations else 0


def report(result: FaultRun, election: Election, *, bounded: bool = True) -> str:
    """Return the report for the terminal and docs/reliability.md. `bounded`: elections have a limit."""
    lines = [
        f"{sum(result.operations_done.values())} operations and disturbances in {result.seconds:.0f} s: "
        + ", ".join(f"{n} x {name}" for name, n in sorted(result.operations_done.items())),
        f"{result.pods} pods, {result.bindings} bindings, {result.evicted} evicted, {result.decisions} decisions of "
        f"{result.incarnations} incarnations, {result.explained} records explained by gaps",
    ]
    limits = _limits(election)
    for how, waits in sorted(result.waits_s.items()):
        limit = f" (of {limits[how]:.2f} s)" if bounded else ""
        worst = f"at most {max(waits):.2f} s{limit} without a leader"
        lines.append(f"{len(waits)} x {how} of the leader: {worst}, {sum(waits) / len(waits):.2f} s on average")
    lines += [f"{len(result.violations)} violations", *result.violations]
    return "\n".join(lines)


def exceeded_limits(result: FaultRun, election: Election) -> list[str]:
    """Return a line for each time without a leader that exceeded its limit."""
    limits = _limits(election)
    return [
        f"{wait:.2f} s without a leader after {how}, of {limits[how]:.2f} s"
        for how, waits in result.waits_s.items()
        for wait in waits
        if wait > limits[how]
    ]


def _limits(election: Election) -> dict[str, float]:
    return {"SIGKILL": election.lease_s + 2 * election.retry_s, "SIGTERM": 2 * election.retry_s}


def _api(server: str, directory: Path) -> ApiProcess:
    if server == "simulated":
        return SimulatedApi(directory)
    binaries = control_plane.assets()
    if binaries is None:
        raise SystemExit("no etcd and kube-apiserver: see tests/e2e/control_plane.py")
    return RealApi(binaries, directory)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=0, help="of pods and stalls, instead of operations")
    parser.add_argument("--per-s", type=float, default=RunSettings.per_s, help="operations a second (%(default)s)")
    parser.add_argument(
        "--disturb-every-s", type=float, default=RunSettings.disturb_every_s, help="on average; 0: never"
    )
    parser.add_argument("--server", choices=("simulated", "real"), default="simulated")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--lease-s", type=float, default=Election.lease_s)
    parser.add_argument("--directory", help="for logs and data; default: a new temporary one")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
