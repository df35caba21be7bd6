"""`python -m bench.large_pods`: pods made to be large beside ordinary ones, with kube-scheduler and Herodotus in turn.

Both schedulers start on copies of one etcd with the same nodes, on a real kube-apiserver. Pods of each kind are created
one after the other, while ordinary pods are created at a constant rate; then they are deleted. Printed for each kind:
resident memory of the scheduler before, at its peak, and some time after the deletion; the time of ordinary pods from
their creation to their binding (audit log); and what became of the large pods, which must be equal for both. If a
scheduler has not bound the ordinary pods after BOUND_S, its run ends there, and their time is at least what is printed;
kube-scheduler then starts again with the next kind.

Owns: the kinds, the run, the table. Does not own: the control plane (`control_plane`), the schedulers (`contenders`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any, Final

import numpy as np

from bench import manifests
from bench.comparison import ANCHOR, CONTENDERS, SPOOLING, prepare_runs
from bench.contenders import Contender
from bench.control_plane import PODS, AuditedControlPlane, FillClient, wait_for_bindings
from bench.latency import PodCreator
from bench.processes import exit_on_sigterm, peak_mib, reset_peak, resident_mib
from bench.workloads import BY_NAME, MEASURED, Size
from tests.processes import eventually

Json = dict[str, Any]

PODS_OF_A_KIND: Final = 5
MAX_GROWTH_MIB: Final = 64
LARGE: Final = "large"  # the namespace of the large pods; the audit log has only the ordinary ones
BOUND_S: Final = 300.0  # timeout until ordinary pods are bound; kube-scheduler needs longer for one large pod
TRIED_S: Final = 300.0  # timeout until large pods are tried
RESOURCES, KEYS, TERMS = 20_000, 25_000, 1400
NO_KIND: Final = "none"


def _names(count: int) -> Iterator[str]:
    """Yield distinct short names that are valid as the name of a label or of a resource."""
    return ("".join(letters) for letters in islice(product(ascii_lowercase + digits, repeat=3), count))


def _requests(amount: str, count: int) -> Json:
    amounts = {f"a/{name}": amount for name in _names(count)}
    container = {"name": "pause", "image": "pause", "resources": {"requests": amounts, "limits": amounts}}
    return {"containers": [container]}


def _node_affinity(operator: str, count: int) -> Json:
    expressions = [{"key": name, "operator": operator} for name in _names(count)]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _spread(unsatisfiable: str, count: int) -> Json:
    selector = {"matchLabels": {"app": "large"}}
    constraint = {"maxSkew": 1, "whenUnsatisfiable": unsatisfiable, "labelSelector": selector}
    return {"topologySpreadConstraints": [{**constraint, "topologyKey": name} for name in _names(count)]}


def _anti_affinity(key: str, count: int) -> Json:
    """Return a pod spec with `count` anti-affinity terms, half of them preferred and half required.

    `key` is their topology key. No pod of this run matches a term.
    """
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}} for name in _names(count)]
    preferred = [{"weight": 1 + i % 100, "podAffinityTerm": term} for i, term in enumerate(terms[::2])]
    return {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                "requiredDuringSchedulingIgnoredDuringExecution": terms[1::2],
            }
        }
    }


KINDS: Final[Mapping[str, Callable[[], Json]]] = {
    NO_KIND: dict,
    f"{RESOURCES} resources, 0": partial(_requests, "0", RESOURCES),
    f"{RESOURCES} resources, 1": partial(_requests, "1", RESOURCES),
    f"{KEYS} label keys": partial(_node_affinity, "DoesNotExist", KEYS),
    f"{KEYS} label keys, none fits": partial(_node_affinity, "Exists", KEYS),
    f"{TERMS} soft constraints": partial(_spread, "ScheduleAnyway", TERMS),
    f"{TERMS} hard constraints": partial(_spread, "DoNotSchedule", TERMS),
    f"{TERMS} anti-affinity, host": partial(_anti_affinity, manifests.HOST, TERMS),
    f"{TERMS} anti-affinity, zone": partial(_anti_affinity, manifests.ZONE, TERMS),
}


@dataclass(frozen=True)
class KindFigures:
    """The figures of one kind of large pods.

    `outcomes` counts bound pods, and the messages of those that are not. It is None if the run ended before.
    """

    before_mib: float
    peak_mib: float
    after_mib: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    outcomes: Mapping[str, int] | None


def measure(
    options: argparse.Namespace, kinds: Sequence[str], plane: AuditedControlPlane, contender: Contender
) -> list[KindFigures]:
    """Measure each kind of large pods, one after the other on one scheduler, and return the figures.

    The measurement ends with the first kind in which ordinary pods were not bound in time. `options` are the command
    line's. Raises RuntimeError if a pod is bound to a node that does not exist.
    """
    contender.wait_until_ready()
    nodes = {item["metadata"]["name"] for item in plane.client.get("/api/v1/nodes")["items"]}
    plane.client.create("/api/v1/namespaces", {"metadata": {"name": LARGE}})
    figures = []
    with PodCreator(plane.client, BY_NAME["SchedulingBasic"].measured) as creator:
        creator.create(options.pods, options.rate)  # the first pods of a process are slower than all others
        for kind in kinds:
            figures.append(_measure_kind(options, kind, plane, contender, creator))
            print(f"{contender.name:16}{_format(kind, figures[-1])}", flush=True)
            if figures[-1].outcomes is None:
                break
    pods = plane.client.get(PODS.format(MEASURED))["items"]
    if any(item["spec"].get("nodeName", "") not in nodes | {""} for item in pods):
        raise RuntimeError(f"{contender.name}: a pod is bound to a node that does not exist")
    return figures


def _measure_kind(
    options: argparse.Namespace, kind: str, plane: AuditedControlPlane, contender: Contender, creator: PodCreator
) -> KindFigures:
    scheduler, client = contender.processes()["scheduler"], plane.client
    before, first = resident_mib(scheduler), creator.requested
    reset_peak(scheduler)
    names = [f"large-{i}" for i in range(0 if kind == NO_KIND else PODS_OF_A_KIND)]

    def create_large() -> None:
        spec = KINDS[kind]()
        for name in names:
            client.create(PODS.format(LARGE), manifests.pod(name, LARGE, {}, {}, spec))

    with ThreadPoolExecutor(1) as beside:
        creating = beside.submit(create_large)
        creator.create(options.pods, options.rate)
        creating.result()
    outcomes = None
    with suppress(AssertionError):  # of `eventually`
        wait_for_bindings(plane, contender, creator.requested, BOUND_S)
        tried = f"{kind}: all large pods to be tried"
        outcomes = eventually(lambda: _find_outcomes(client, names), tried, TRIED_S, 1.0)
        for name in names:
            client.delete(f"{PODS.format(LARGE)}/{name}")
        client.delete(f"/apis/events.k8s.io/v1/namespaces/{LARGE}/events")
        time.sleep(options.after)
    now = time.time()
    waited = [
        (plane.bound.get(name, now) - created) * 1000
        for name, created in plane.created.items()
        if int(name.rpartition("-")[2]) >= first
    ]
    p50, p99 = (float(ms) for ms in np.percentile(waited, [50, 99]))
    return KindFigures(before, peak_mib(scheduler), resident_mib(scheduler), p50, p99, max(waited), outcomes)


def _find_outcomes(client: FillClient, names: Sequence[str]) -> Counter[str] | None:
    """Return how many large pods are bound, and how many have each FailedScheduling message, by "bound" or the message.

    Return None if a pod is neither bound nor has such an event.
    """
    events = client.get(f"/apis/events.k8s.io/v1/namespaces/{LARGE}/events")["items"]
    notes = {e["regarding"]["name"]: e["note"] for e in events if e["reason"] == "FailedScheduling"}
    listed = client.get(f"{PODS.format(LARGE)}?fieldSelector=spec.nodeName%21%3D")["items"]
    bound = {item["metadata"]["name"] for item in listed}
    if not {*names} <= notes.keys() | bound:
        return None
    return Counter("bound" if name in bound else notes[name] for name in names)


def _format(kind: str, f: KindFigures) -> str:
    memory = f"{f.before_mib:8.0f}{f.peak_mib:8.0f}{f.after_mib:8.0f}"
    latency = f"{f.p50_ms:9.1f}{f.p99_ms:9.0f}{f.max_ms:9.0f}"
    outcomes = {"not finished": 1} if f.outcomes is None else f.outcomes
    shown = "; ".join(f"{count} {outcome[:60]}" for outcome, count in outcomes.items())
    return f"{kind:30}{memory}{latency}  {shown}"


def find_misses(reference: Sequence[KindFigures], figures: Sequence[KindFigures], kinds: Sequence[str]) -> list[str]:
    """Return a line for each kind whose outcomes differ from kube-scheduler's, or in which memory grew too much.

    There is also a line if an ordinary pod waited longer than with kube-scheduler.
    """
    misses = []
    start_mib = figures[0].before_mib
    for kind, theirs, ours in zip(kinds, reference, figures, strict=False):
        if ours.outcomes is None or theirs.outcomes not in (ours.outcomes, None):
            misses.append(f"{kind}: other outcomes: {ours.outcomes} instead of {theirs.outcomes}")
        for when, mib in (("peak", ours.peak_mib), ("after the deletion", ours.after_mib)):
            if mib > start_mib + MAX_GROWTH_MIB:
                misses.append(f"{kind}: {mib - start_mib:.0f} MiB more than at the start ({when})")
        if ours.max_ms > theirs.max_ms:
            misses.append(f"{kind}: an ordinary pod waited {ours.max_ms:.0f} ms instead of {theirs.max_ms:.0f} ms")
    return misses


def main() -> int:
    """Run both schedulers on the same pods, print the figures, and return 1 if an aim is missed."""
    exit_on_sigterm()
    parser = argparse.ArgumentParser(prog="python -m bench.large_pods", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000, help="default %(default)s")
    parser.add_argument("--pods", type=int, default=150, help="ordinary pods for each kind; default %(default)s")
    parser.add_argument("--rate", type=float, default=5.0, help="of them a second; default %(default)s")
    parser.add_argument("--after", type=float, default=60.0, help="seconds before memory is read; default %(default)s")
    parser.add_argument("--contender", choices=CONTENDERS, default=SPOOLING, help="default %(default)s")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS], metavar="KIND", help="default: all")
    parser.add_argument("--keep", type=Path, help="logs and data of every run; default: none are kept")
    args = parser.parse_args()
    size = Size(args.nodes, 0, 0)
    print(
        f"{'SCHEDULER':16}{'LARGE PODS':30}{'BEFORE':>8}{'PEAK':>8}{'AFTER':>8}{'P50 MS':>9}{'P99 MS':>9}{'MAX MS':>9}"
        f"  OUTCOMES (memory in MiB)"
    )
    for runs in prepare_runs([(BY_NAME["SchedulingBasic"], size)], args.keep, backlog=False):
        figures = runs.run(args.contender, args.contender, partial(measure, args, args.kinds))
        reference: list[KindFigures] = []
        while len(reference) < len(figures):
            rest = args.kinds[len(reference) :]
            reference += runs.run(ANCHOR, f"{ANCHOR}-{len(reference)}", partial(measure, args, rest))
        misses = find_misses(reference, figures, args.kinds)
        print("\n".join(misses))
    return int(bool(misses))


if __name__ == "__main__":
    sys.exit(main())
