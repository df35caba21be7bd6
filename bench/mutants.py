"""`python -m bench.mutants`: changes single places of the code, and counts the changes that no test notices.

    python -m bench.mutants --part record --count 40 --seed 43

A mutant is one change at one place, by an operator of cosmic-ray: another comparison, a number that is one higher, a
statement that is left out. The places are drawn by a seed. A mutant is killed if a test that concerns its module fails:
one in the mirrored file of tests, in the mirrored folder, or in the tests of the part, in this order.

Owns: the sample, which tests concern a module, the verdict. Does not own: the operators (cosmic-ray).
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT: Final = Path(__file__).resolve().parent.parent
PARTS: Final = {
    "engine": "scheduler/engine",
    "record": "herodotus_record",
    "access": "herodotus_endpoint/access",
    "store": "herodotus_endpoint/store",
}
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "SURVIVED"
TIMEOUT_S: Final = 600.0  # for the tests of a mutant, which may run for ever: then that is noticed
_LEFT_OUT: Final = "migrations"  # a folder


@dataclass(frozen=True)
class Mutant:
    """One change: the module's path from the root, and which occurrence of which operator."""

    module: str
    operator: str
    occurrence: int

    def apply(self, code: str) -> str:
        """Return the changed code of the module."""
        changed: str = mutate_code(code, get_operator(self.operator)(), self.occurrence)
        return changed

    def describe(self) -> str:
        """Return the module, the operator and the changed lines."""
        code = (ROOT / self.module).read_text()
        lines = difflib.unified_diff(code.splitlines(), self.apply(code).splitlines(), n=0, lineterm="")
        shown = [line for line in lines if not line.startswith(("---", "+++"))]
        return "\n".join([f"{self.module}: {self.operator}", *shown])


def list_places(part: str) -> list[Mutant]:
    """Return a mutant for every place of a part that an operator can change."""
    found = []
    for path in sorted((ROOT / PARTS[part]).rglob("*.py")):
        if _LEFT_OUT in path.parts:
            continue
        nodes = list(ast_nodes(get_ast(path.read_text())))
        for name in operator_names():
            operator = get_operator(name)
            if not operator.arguments():
                places = sum(1 for node in nodes for _ in operator().mutation_positions(node))
                found += [Mutant(str(path.relative_to(ROOT)), name, occurrence) for occurrence in range(places)]
    return found


def draw_sample(places: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return up to `count` mutants that differ from the code in more than the annotations of types."""
    drawn = random.Random(seed).sample(places, len(places))
    return list(islice(filter(_changes_a_result, drawn), count))


def _changes_a_result(mutant: Mutant) -> bool:
    code = (ROOT / mutant.module).read_text()
    try:
        return _strip_annotations(code) != _strip_annotations(mutant.apply(code))
    except SyntaxError:  # of a star in a signature, for example
        return False


def _strip_annotations(code: str) -> str:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        match node:
            case ast.arg():
                node.annotation = None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
            case ast.AnnAssign():
                node.annotation = ast.Constant(None)
            case _:
                pass
    return ast.dump(tree)


def list_tests(module: str, part: str, root: Path = ROOT) -> list[str]:
    """Return the tests that concern a module, as paths from the root, those nearest to it first."""
    whole = Path("tests") / PARTS[part].removeprefix("herodotus_")
    mirrored = Path("tests") / module.removeprefix("herodotus_")
    name = mirrored.parent.name if mirrored.stem == "__init__" else mirrored.stem
    nearest = [mirrored.parent / f"test_{name}.py", mirrored.parent, whole]
    return [str(path) for path in dict.fromkeys(nearest) if (root / path).exists()]


def judge(mutant: Mutant, part: str, tree: Path) -> str:
    """Run the tests that concern a mutant in a copy of the tree; return the verdict. The copy is restored."""
    module = tree / mutant.module
    code = module.read_text()
    module.write_text(mutant.apply(code))
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "-m", "not slow and not wide"]
    try:
        for tests in list_tests(mutant.module, part, tree):
            command = [sys.executable, "-m", "pytest", *options, tests]
            ran = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
            )
            if ran.returncode not in (0, 5):  # 5: no test there
                return KILLED
    except subprocess.TimeoutExpired:
        return TIMED_OUT
    finally:
        module.write_text(code)
    return SURVIVED


def copy_tree(target: Path) -> None:
    """Copy the files that git knows to `target`, compiled so that Python notices a changed module by its content."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    compiled = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
    subprocess.run([sys.executable, *compiled], cwd=target, check=True)


def judge_sample(sample: Sequence[Mutant], part: str, trees: Sequence[Path]) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with its verdict, in the order of the sample. Each tree is a copy in which one is judged."""
    free: SimpleQueue[Path] = SimpleQueue()
    for tree in trees:
        free.put(tree)

    def judge_next(mutant: Mutant) -> str:
        tree = free.get()
        try:
            return judge(mutant, part, tree)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        yield from zip(sample, pool.map(judge_next, sample), strict=True)


def main() -> int:
    """Judge a sample of each part, and print the share that tests notice; return 1 if it is below --least."""
    arguments = _parser().parse_args()
    shares = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [Path(folder) / str(job) for job in range(arguments.jobs)]
        for tree in trees:
            copy_tree(tree)
        for part in arguments.part or PARTS:
            places = list_places(part)
            sample = draw_sample(places, arguments.count, arguments.seed)
            verdicts: Counter[str] = Counter()
            for mutant, verdict in judge_sample(sample, part, trees):
                verdicts[verdict] += 1
                print(f"{sum(verdicts.values())} of {len(sample)}: {verdict} {mutant.describe()}", flush=True)
            shares.append(100 * (len(sample) - verdicts[SURVIVED]) / max(1, len(sample)))
            print(f"{PARTS[part]}: {len(places)} places, {len(sample)} mutants, {shares[-1]:.0f} % noticed", flush=True)
    return int(min(shares) < arguments.least)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Count the changes of the code that no test notices.")
    parser.add_argument("--part", action="append", choices=PARTS, help="repeatable (all parts)")
    parser.add_argument("--count", type=int, default=40, help="mutants of each part (%(default)s)")
    parser.add_argument("--seed", type=int, default=43, help="of the sample (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time (%(default)s)")
    parser.add_argument("--least", type=float, default=0.0, help="share in %% below which the exit code is 1")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
