"""`python -m bench.defects`: put each defect of tests/bench/defects back into a copy, and search it by simulation.

Prints how many seeds and how much processor time it took until an invariant was violated. Does not own: the simulation
(`bench.simulation`).
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.processes import exit_on_sigterm

ROOT: Final = Path(__file__).parent.parent
DEFECTS: Final = ROOT / "tests" / "bench" / "defects"
_COPIED: Final = re.compile(r"herodotus_\w+|scheduler|bench|tests")
_SEEDS: Final = re.compile(r"^(\d+) seeds in", re.M)
_FAILED: Final = re.compile(r"^seed (\S+): \d+ violations\n(.*)", re.M)


@dataclass(frozen=True)
class DefectSearch:
    """The search for one defect. `violation` is "" if it was not found."""

    name: str
    seeds: int
    cpu_s: float
    seed: str
    violation: str

    def __str__(self) -> str:
        found = f"seed {self.seed}: {self.violation[:110]}" if self.violation else "NOT FOUND"
        return f"{self.name:40} {self.seeds:4} seeds {self.cpu_s:7.1f} s  {found}"


def copy_with_defect(patch: Path, target: Path) -> None:
    """Copy the programs, the benchmarks and the tests' helpers to `target` with a defect in them.

    Raise CalledProcessError if the patch does not apply.
    """
    for package in sorted(path for path in ROOT.iterdir() if _COPIED.fullmatch(path.name)):
        shutil.copytree(package, target / package.name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    subprocess.run(["patch", "-p1", "--quiet", "--no-backup-if-mismatch", "-i", str(patch)], cwd=target, check=True)


def search(patch: Path, options: Sequence[str]) -> DefectSearch:
    """Run the simulation with a defect until a seed violates an invariant, and return what was found."""
    with tempfile.TemporaryDirectory(prefix="defect-") as directory:
        copy_with_defect(patch, Path(directory))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run(
            [sys.executable, "-m", "bench.simulation", "--until-failure", *options],
            cwd=directory,
            env=os.environ | {"PYTHONPATH": directory},
            capture_output=True,
            text=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seeds, failed = _SEEDS.search(run.stdout), _FAILED.search(run.stdout)
    if seeds is None or (failed is None) != (run.returncode == 0):
        raise RuntimeError(f"{patch.stem}: {run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return DefectSearch(patch.stem, int(seeds[1]), cpu_s, *((failed[1], failed[2]) if failed else ("", "")))


def main() -> int:
    """Search each defect and print a table; return 1 if one was not found."""
    parser = argparse.ArgumentParser(prog="python -m bench.defects", description=__doc__)
    parser.add_argument("names", nargs="*", help="default: every patch of tests/bench/defects")
    parser.add_argument("--seeds", type=int, default=100, help="at most, for each (%(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="at most, for each (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--guided", action="store_true", help="continue runs from where they reached new states")
    arguments = parser.parse_args()
    exit_on_sigterm()
    patches = sorted(p for p in DEFECTS.glob("*.patch") if not arguments.names or p.stem in arguments.names)
    options = ["--seeds", str(arguments.seeds), "--minutes", str(arguments.minutes), "--jobs", str(arguments.jobs)]
    options += ["--guided"] * arguments.guided
    results = []
    for patch in patches:
        results.append(search(patch, options))
        print(results[-1], flush=True)
    found = sum(bool(result.violation) for result in results)
    print(f"{found} of {len(results)} defects found in {sum(r.cpu_s for r in results):.0f} s of processor time")
    return 0 if found == len(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
