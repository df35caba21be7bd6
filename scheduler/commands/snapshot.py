"""The commands `python -m scheduler snapshot` and `replay`: their options, progress and output.

Owns: the commands. Does not own: reading the cluster (`taking`), the file format (`document`), placing pods again
(`replaying`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import msgspec

from herodotus_kube import discovery
from herodotus_kube.credentials import find_credentials
from herodotus_kube.http import ApiError, ApiServer
from herodotus_record.escaping import escape
from herodotus_record.typed_decoding import json_decoder
from herodotus_record.units import pluralize
from scheduler.commands import process
from scheduler.config import Configuration, Registry, build_profile
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.manifests.cluster import LoadedCluster, load_cluster
from scheduler.engine.objects.autoscaling import NODE_ANNOTATIONS
from scheduler.engine.objects.pod import PodInfo
from scheduler.offline.evaluate import ManifestError, NoCluster
from scheduler.offline.evaluate.files import parse_document, parse_items
from scheduler.offline.snapshots.document import KIND, snapshot
from scheduler.offline.snapshots.replaying import PlacedPod, ReplayedDecision, document, replay
from scheduler.offline.snapshots.taking import items

Json = dict[str, Any]

_PROGRESS_EVERY_S: Final = 1.0
_SHOWN: Final = 20  # of each list, as text


def add_snapshot_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `snapshot` to its parser."""
    command.description = (
        "Write what scheduling reads of a cluster to one file, for evaluate --cluster, whatif --cluster-file and"
        " replay. Images' environment, commands, annotations and all else that scheduling does not read are left out."
    )
    command.add_argument("file", type=Path, metavar="FILE", help="where to; it is readable by its owner alone")
    command.add_argument("--full", action="store_true", help="whole objects, secrets in their environment included")


def add_replay_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `replay` to its parser."""
    command.description = (
        "Place the pods of a snapshot again, with another configuration, and tell which would be elsewhere. The pods in"
        " question are taken off their nodes and placed one after the other; the others stay."
    )
    command.add_argument("file", metavar="FILE", help="the snapshot")
    command.add_argument("--baseline", type=Path, metavar="FILE", help="compare with this configuration's placement")
    command.add_argument(
        "--decisions",
        type=Path,
        metavar="FILE",
        help="only these decisions' pods, in their order (export's JSON lines)",
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--pod", metavar="NAMESPACE/NAME", help="only this pod")
    which.add_argument("--workload", metavar="NAMESPACE/KIND/NAME", help="only pods of this controller or Deployment")
    which.add_argument("--namespace", metavar="NAME", help="only pods of this namespace")
    command.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default text)")


def run_snapshot(arguments: argparse.Namespace, config: Configuration) -> int:
    """Run the command `snapshot`: write the cluster's objects to a file. Return the exit code 0.

    Raise StartupError if the cluster cannot be read or the file cannot be written.
    """
    credentials = find_credentials(kubeconfig=arguments.kubeconfig, context=arguments.context, master=arguments.master)
    api = ApiServer(credentials)
    try:
        annotations = _annotations(config, arguments.registry)
        objects = list(items(api, full=arguments.full, annotations=annotations, report=_counted))
        whole = snapshot(
            objects,
            cluster=discovery.fetch_cluster_id(api),
            server=discovery.fetch_server_version(api),
            taken_at=datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
            full=arguments.full,
        )
    except ApiError as e:
        raise process.StartupError(f"{api.url}: {e}") from e
    finally:
        api.close()
    _write(arguments.file, msgspec.json.encode(whole))
    _say(f"{arguments.file}: {len(objects)} objects, {arguments.file.stat().st_size} bytes")
    return 0


def run_replay(arguments: argparse.Namespace, config: Configuration, baseline: Configuration | None) -> int:
    """Run the command `replay`: place a snapshot's pods again and print the differences. Return the exit code 0.

    `baseline` is the configuration to compare with, or None to compare with the snapshot. Raise ManifestError if the
    file is not a complete snapshot, ConfigError if a profile cannot be built.
    """
    content = parse_document(arguments.file)
    if not isinstance(content, Mapping) or content.get("kind") != KIND:
        kind = content.get("kind") if isinstance(content, Mapping) else None
        raise ManifestError(
            f"{arguments.file}: expected a {KIND}, found {kind or 'none'}: python -m scheduler snapshot writes one"
        )
    manifests = list(parse_items(arguments.file, content))
    chosen = _chosen(arguments)

    def placed_by(with_: Configuration, against: Mapping[str, str]) -> list[ReplayedDecision]:
        cluster = load_cluster(manifests)
        pods = chosen(_placed(cluster))
        if not pods:
            raise ManifestError(f"{arguments.file}: no pod on a node matches {_selection(arguments)}")
        frameworks = _Frameworks(with_, arguments.registry, cluster)
        return replay(frameworks, cluster, pods, against, _progress(len(pods)))

    against = {r.pod.uid: r.now for r in placed_by(baseline, {})} if baseline else {}
    answer = document(
        placed_by(config, against),
        snapshot=arguments.file,
        by=str(arguments.config or "defaults"),
        against=str(arguments.baseline or "the snapshot"),
    )
    print(json.dumps(answer, indent=2) if arguments.output == "json" else "\n".join(map(escape, _lines(answer))))
    return 0


class _Frameworks:
    """Returns the framework that decides a pod, building one per profile when it is first needed.

    Pods with an unknown scheduler name get the first profile.
    """

    def __init__(self, config: Configuration, registry: Registry, cluster: LoadedCluster) -> None:
        self._index = {profile.scheduler_name: i for i, profile in enumerate(config.profiles)}
        self._config, self._registry, self._cluster = config, registry, cluster
        self._made: dict[int, Framework] = {}

    def __call__(self, pod: PodInfo) -> Framework:
        i = self._index.get(pod.pod.spec.scheduler_name, 0)
        if i not in self._made:
            profile = build_profile(self._config, i, self._registry, NoCluster(self._cluster.objects))
            self._made[i] = Framework(profile, time.monotonic, (), self._cluster.nominator)
            self._made[i].prepare(self._cluster.nodes)
        return self._made[i]


def _placed(cluster: LoadedCluster) -> list[PlacedPod]:
    """Return every pod that is on a node, with the node's name, in order of creation."""
    pods = [
        PlacedPod(pod, cluster.nodes.names[slot])
        for slot, there in enumerate(cluster.nodes.pods)
        for pod in there.values()
    ]
    return sorted(pods, key=lambda p: (p.pod.pod.metadata.creation_timestamp or "", p.pod.full_name))


def _chosen(arguments: argparse.Namespace) -> Callable[[list[PlacedPod]], list[PlacedPod]]:
    """Return a function that selects and orders the pods to place again, as the command line says."""
    order = _order(arguments.decisions) if arguments.decisions else None

    def meant(pod: PodInfo) -> bool:
        if arguments.pod:
            return pod.full_name == str(arguments.pod)
        if arguments.namespace:
            return pod.namespace == str(arguments.namespace)
        if arguments.workload:
            return str(arguments.workload).lower() in map(str.lower, _workloads(pod))
        return True

    def choose(placed: list[PlacedPod]) -> list[PlacedPod]:
        selected = [each for each in placed if meant(each.pod) and (order is None or each.pod.uid in order)]
        return selected if order is None else sorted(selected, key=lambda p: order[p.pod.uid])

    return choose


def _workloads(pod: PodInfo) -> Iterator[str]:
    """Yield NAMESPACE/KIND/NAME of a pod's controller, and of the Deployment if that is a Deployment's ReplicaSet.

    A Deployment names its ReplicaSets after itself, with the hash of the template, which their pods have as a label.
    """
    owner = pod.pod.metadata.controller
    if owner is None:
        return
    yield f"{pod.namespace}/{owner}"
    template_hash = (pod.pod.metadata.labels or {}).get("pod-template-hash")
    if owner.kind == "ReplicaSet" and template_hash and owner.name.endswith(f"-{template_hash}"):
        yield f"{pod.namespace}/Deployment/{owner.name.removesuffix(f'-{template_hash}')}"


def _selection(arguments: argparse.Namespace) -> str:
    """Return the options that select pods, for an error message."""
    options = ("pod", "workload", "namespace", "decisions")
    selectors = [f"--{name} {getattr(arguments, name)}" for name in options if getattr(arguments, name)]
    return " ".join(selectors) or "(it has none)"


def _order(path: Path) -> dict[str, int]:
    """Read exported decisions from a file, and return each pod's position by the start of its last decision, by UID.

    Raise ManifestError if the file cannot be read or contains anything but decisions.
    """
    try:
        with path.open("rb") as file:
            decisions = (_line.decode(line) for line in file if line.strip())
            started = [(d.metadata.started, d.spec.pod.uid) for d in decisions if d.spec.pod.uid]
    except OSError as e:
        raise ManifestError(f"{path}: {e.strerror or e}") from e
    except msgspec.DecodeError as e:
        raise ManifestError(f"{path}: expected decisions, one JSON document a line: {e}") from e
    return {uid: place for place, (_, uid) in enumerate(sorted(started))}


def _annotations(config: Configuration, registry: Registry) -> Collection[str]:
    profiles = (build_profile(config, i, registry, NoCluster()) for i in range(len(config.profiles)))
    return NODE_ANNOTATIONS.union(key for profile in profiles for key in profile.annotations)


def _write(path: Path, content: bytes) -> None:
    """Write the file completely or not at all. Only its owner may read it, as it names pods and labels."""
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        unfinished.replace(path)
    except OSError as e:
        raise process.StartupError(f"{path}: {e.strerror or e}") from e


def _lines(answer: Json) -> Iterator[str]:
    moved, unplaced = answer["moved"], answer["unplaced"]
    yield (
        f"{pluralize(answer['pods'], 'pod')} placed again with {answer['configuration']},"
        f" compared with {answer['comparedWith']}:"
        f" {answer['same']} the same, {len(moved)} elsewhere, {len(unplaced)} without a node"
    )
    yield from _listed(
        moved, lambda m: f"  {m['namespace']}/{m['pod']}: {m['from'] or 'nowhere'} -> {m['to']}{_why(m)}"
    )
    yield from _listed(unplaced, lambda u: f"  {u['namespace']}/{u['pod']}: {u['from']} -> nowhere: {u['message']}")
    yield from _listed(answer["nodes"], lambda n: f"  {n['node']}: {n['before']} -> {n['after']} pods")


def _why(moved: Json) -> str:
    if moved["points"] is None:
        return " (it does not fit where it was)" if moved["from"] else ""
    points = moved["points"]
    return f" ({points} point{'' if points == 1 else 's'} ahead, most by {moved['decidedBy']})"


def _listed(entries: Sequence[Json], format_entry: Callable[[Json], str]) -> Iterable[str]:
    yield from map(format_entry, entries[:_SHOWN])
    if len(entries) > _SHOWN:
        yield f"  … {len(entries) - _SHOWN} more: -o json"


def _progress(total: int) -> Callable[[int], None]:
    """Return a callback that takes the number of finished pods and prints the progress to a terminal once a second."""
    next_at = time.monotonic() + _PROGRESS_EVERY_S

    def report(done: int) -> None:
        nonlocal next_at
        if sys.stderr.isatty() and (done == total or time.monotonic() >= next_at):
            next_at = time.monotonic() + _PROGRESS_EVERY_S
            print(f"\r{done} of {total} pods", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return report


def _counted(kind: str, n: int) -> None:
    if sys.stderr.isatty():
        _say(f"{n} {kind}")


def _say(text: str) -> None:
    print(escape(text), file=sys.stderr)


class _Metadata(msgspec.Struct, rename={"started": "creationTimestamp"}):
    started: str


class _Pod(msgspec.Struct):
    uid: str | None  # None: of a log, which does not say it


class _Spec(msgspec.Struct):
    pod: _Pod


class _Line(msgspec.Struct):
    """The fields of an exported decision by which `--decisions` orders the pods."""

    metadata: _Metadata
    spec: _Spec


_line: Final = json_decoder(_Line)
