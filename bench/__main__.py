"""`python -m bench`: run benchmarks and print tables. It owns the command line, not the measurements.

python -m bench algorithm [--nodes N] [--pods N] [--filling N] [--rounds 3] [--short] [WORKLOAD ...]
python -m bench control-plane [--aims] [--contenders NAME ...] [--nodes N] [--pods N] [--rounds 3] [--short]
                              [--json FILE] [WORKLOAD ...]
python -m bench latency [--rate N | --share 0.9] [--seconds 20] [--contenders NAME ...] [--nodes N] [--pods N]
                        [--rounds 3] [--short] [--json FILE] [WORKLOAD ...]
python -m bench start [--contenders NAME ...] [--nodes N] [--pods N] [--rounds 3] [--short] [--json FILE] [WORKLOAD ...]
python -m bench footprint [--nodes 5000] [--bound 50000] [--pending 100000]
python -m bench evaluate [SIZE ...]
python -m bench reviews [--nodes 5000] [--pods 50000] [--replicas 1] [--rounds 3]
python -m bench extender [--calls N] [--rounds N]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench import algorithm, comparison, ending, extender, footprint, latency, reviews, start
from bench.aims import AIMS
from bench.evaluation import SIZES, EvaluationResult, measure
from bench.workloads import BY_NAME, WORKLOADS, Size, Workload


def main() -> int:
    """Run a benchmark and return the exit code."""
    ending.exit_on_sigterm()
    arguments = _parser().parse_args()
    code: int = arguments.run(arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the scheduler.")
    benchmarks = parser.add_subparsers(metavar="RIG", required=True)
    alone = _add_benchmark(
        benchmarks, "algorithm", "cycle rates of the algorithm alone, every node filtered and scored"
    )
    alone.add_argument("--filling", type=int, default=0, help="more bound pods on each node; they request nothing")
    alone.set_defaults(run=_algorithm)
    real = _add_benchmark(
        benchmarks, "control-plane", "kube-scheduler and Herodotus in turn on etcd and kube-apiserver"
    )
    real.add_argument("--aims", action="store_true", help="the families that have aims, and what of them is reached")
    _add_comparison(real, comparison.CONTENDERS)
    real.set_defaults(run=_compare)
    constant = _add_benchmark(
        benchmarks, "latency", "creation to binding with both schedulers, pods created at a constant rate", list(AIMS)
    )
    rate = constant.add_mutually_exclusive_group()
    rate.add_argument("--rate", type=float, metavar="N", help="pods a second; default: a share of what is sustained")
    rate.add_argument(
        "--share",
        type=float,
        default=0.9,
        help=f"of what {comparison.ANCHOR} sustains while pods are created; default %(default)s",
    )
    constant.add_argument(
        "--seconds", type=float, default=20.0, help="how long pods are created, at most --pods; default %(default)s"
    )
    _add_comparison(constant, (comparison.DELIVERING,))
    constant.set_defaults(run=_latency)
    begin = _add_benchmark(
        benchmarks, "start", "start and failover of both schedulers, with leader election", ["ColdStart"]
    )
    _add_comparison(begin, (comparison.DELIVERING,))
    begin.set_defaults(run=_start)
    held = benchmarks.add_parser("footprint", help="memory by node and pod, and the queue with many pending pods")
    for option, default in (("nodes", 5000), ("bound", 50_000), ("pending", 100_000)):
        held.add_argument(f"--{option}", type=int, default=default, help="default %(default)s")
    held.set_defaults(run=_footprint)
    evaluate = benchmarks.add_parser("evaluate", help="single pods on a full cluster")
    evaluate.add_argument("sizes", nargs="*", choices=[[], *SIZES], default=list(SIZES), metavar="SIZE")
    evaluate.set_defaults(run=_evaluate)
    reviews = benchmarks.add_parser("reviews", help="what reviews cost the loop")
    for option, default in (("nodes", 5000), ("pods", 50_000), ("replicas", 1), ("rounds", 3)):
        reviews.add_argument(f"--{option}", type=int, default=default, help="default %(default)s")
    reviews.set_defaults(run=_reviews)
    agents = benchmarks.add_parser(
        "extender", help="the extender service: 500 nodes a call, by names and as whole nodes"
    )
    agents.add_argument("--calls", type=int, default=300, help="of each verb, in each form")
    agents.add_argument("--rounds", type=int, default=10, help="after each of which memory is looked at")
    agents.set_defaults(run=_extender)
    return parser


def _add_benchmark(
    benchmarks: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help: str, workloads: Sequence[str] = ()
) -> argparse.ArgumentParser:
    rig = benchmarks.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    rig.add_argument(
        "--nodes",
        type=int,
        help="pods that are there before follow; default, and always of a family of one node: the workload's own",
    )
    rig.add_argument("--pods", type=int, help="measured in a round; default: the workload's own")
    rig.add_argument("--rounds", type=int, default=3, help="of each contender, in turn")
    rig.add_argument("--short", action="store_true", help="the workloads' short sizes")
    rig.add_argument(
        "workloads",
        nargs="*",
        default=workloads,
        metavar="WORKLOAD",
        help=f"default: {', '.join(workloads) or 'all'}; known: {', '.join(BY_NAME)}",
    )
    rig.set_defaults(parser=rig)
    return rig


def _add_comparison(rig: argparse.ArgumentParser, contenders: Sequence[str]) -> None:
    rig.add_argument("--json", type=Path, metavar="FILE", help="every figure of every round")
    rig.add_argument("--keep", type=Path, metavar="DIR", help="logs and data of every run; default: none are kept")
    rig.add_argument(
        "--contenders",
        nargs="+",
        choices=comparison.CONTENDERS,
        default=contenders,
        metavar="NAME",
        help=f"beside {comparison.ANCHOR}, of {', '.join(comparison.CONTENDERS)}; default: {', '.join(contenders)}",
    )


def _selected_workloads(arguments: argparse.Namespace) -> list[tuple[Workload, Size]]:
    unknown = set(arguments.workloads) - BY_NAME.keys()
    if unknown:
        arguments.parser.error(f"unknown workload {', '.join(sorted(unknown))}; known: {', '.join(BY_NAME)}")
    named = [w for w in WORKLOADS if not arguments.workloads or w.name in arguments.workloads]
    return [(w, (w.short if arguments.short else w.full).scaled(arguments.nodes, arguments.pods)) for w in named]


def _compare(arguments: argparse.Namespace) -> int:
    if arguments.aims:
        arguments.workloads = arguments.workloads or list(AIMS)
    return comparison.main(
        _selected_workloads(arguments), arguments.rounds, arguments.contenders, arguments.json, arguments.keep
    )


def _latency(arguments: argparse.Namespace) -> int:
    options = latency.LatencyOptions(
        arguments.rate, arguments.share, arguments.seconds, arguments.rounds, tuple(arguments.contenders)
    )
    return latency.main(_selected_workloads(arguments), options, arguments.json, arguments.keep)


def _start(arguments: argparse.Namespace) -> int:
    return start.main(
        _selected_workloads(arguments), arguments.rounds, arguments.contenders, arguments.json, arguments.keep
    )


def _algorithm(arguments: argparse.Namespace) -> int:
    print(f"calibration {algorithm.calibration_ms():.1f} ms; every node filtered and scored")
    print(
        f"{'WORKLOAD':54}{'NODES':>6}{'BOUND':>8}{'CYCLES/S':>10}{'UNRECORDED':>12}{'IN KERNEL':>11}{'P99 MS':>9}"
        f"{'BYTES':>8}{'PEAK MIB':>10}"
    )
    for workload, size in _selected_workloads(arguments):
        r = algorithm.run(workload.with_filling(arguments.filling), size, arguments.rounds)
        print(
            f"{r.workload:54}{r.nodes:>6}{r.bound:>8}{r.cycles_per_s:>10.0f}{r.unrecorded_per_s:>12.0f}"
            f"{r.per_kernel:>11.1f}{r.cycle_p99_ms:>9.2f}{r.bytes_per_decision:>8.0f}{r.peak_mib:>10.0f}",
            flush=True,
        )
    return 0


def _footprint(arguments: argparse.Namespace) -> int:
    print(f"calibration {algorithm.calibration_ms():.1f} ms")
    found = footprint.measure(arguments.nodes, arguments.bound, arguments.pending)
    print("\n".join(footprint.format_lines(found, arguments.pending)))
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    for name in arguments.sizes:
        _print_evaluation(name, measure(*SIZES[name]))
    return 0


def _reviews(arguments: argparse.Namespace) -> int:
    found = reviews.measure(arguments.nodes, arguments.pods, arguments.replicas, arguments.rounds)
    taken = sorted(found.reviews_s)
    print(f"{len(taken)} reviews of {arguments.replicas}, median {taken[len(taken) // 2] * 1000:.0f} ms")
    print(f"{'STEPS':20}{'P50 MS':>10}{'P90 MS':>10}{'P99 MS':>10}{'MAX MS':>10}")
    for name, steps in (("without reviews", found.alone), ("one after the other", found.reviewed)):
        print(f"{name:20}" + "".join(f"{steps.ms(share):>10.2f}" for share in (0.5, 0.9, 0.99, 1)))
    return 0


def _print_evaluation(name: str, measured: EvaluationResult) -> None:
    print(f"{name}: loaded in {measured.load_s:.1f} s; slowest first pod: {measured.worst.name}")
    print(f"{'POD':36}{'FIRST MS':>10}{'NEXT MS':>9}{'FEASIBLE':>11}")
    for shape in measured.shapes:
        print(f"{shape.name:36}{shape.first_ms:>10.1f}{shape.second_ms:>9.1f}{shape.feasible:>11}")


def _extender(arguments: argparse.Namespace) -> int:
    print(f"calibration {algorithm.calibration_ms():.1f} ms; {extender.NODES} nodes a call")
    print(f"{'VERB':28}{'REQUEST':14}{'CPU MS':>8}{'WITH INPUTS':>13}{'P50 MS':>9}{'P99 MS':>9}")
    with extender.run_extender_service() as running:
        for form in extender.BODIES:
            for verb in extender.VERBS:
                r = extender.measure(running, verb, form, arguments.calls)
                print(
                    f"{r.verb:28}{r.form:14}{r.processor_ms:>8.1f}{r.explained_ms:>13.1f}{r.p50_ms:>9.1f}{r.p99_ms:>9.1f}",
                    flush=True,
                )
        held = extender.memory_mib(running, arguments.rounds, arguments.calls // 10)
        print(f"resident MiB after each of {arguments.rounds} rounds: {' '.join(f'{mib:.0f}' for mib in held)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
