"""Reads manifests from files as kubectl prints them or people write them, and decides a pod against them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.config import Configuration, Registry
from scheduler.engine.manifests.cluster import LoadedCluster, ManifestError, SourceManifest, decode_pod, load_cluster
from scheduler.engine.manifests.defaults import apply_pod_defaults
from scheduler.engine.objects.kubernetes_yaml import YamlError, decode_text, load_documents
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.evaluate.engine import Engine, EvaluatedPod
from scheduler.offline.snapshots.document import KIND, SnapshotError, items_of

STDIN: Final = "-"
SUFFIXES: Final = (".json", ".yaml", ".yml")  # what is read of a directory, as kubectl does


def evaluate_files(
    cluster: Sequence[str],
    pod: str,
    config: Configuration | None,
    note: Callable[[str], None],
    registry: Registry = IN_TREE,
) -> EvaluatedPod:
    """Decide the pod in the file `pod` on the cluster that the files `cluster` describe, and return the result.

    `note` is called with each line of text for the user. Raise ManifestError for an unreadable file or an invalid
    object, ConfigError if the profile cannot be built.
    """
    check_stdin([*cluster, pod])
    where, wanted = _pod_in(pod)
    if wanted.spec.node_name:
        note(f"{where}: the pod is on node {wanted.spec.node_name}; it is decided as if it were on none")
    if wanted.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in wanted.spec.scheduling_gates)
        note(f"{where}: the pod has scheduling gates ({gates}); it is decided as if they were gone")
    incoming = PodInfo(apply_pod_defaults(replace(wanted, spec=replace(wanted.spec, node_name=""))))
    objects = (manifest for path in cluster for manifest in manifests(path))
    loaded = load_cluster_files(objects, cluster, note, incoming)
    configuration = config or Configuration()
    profile = find_profile(incoming.pod.spec.scheduler_name, configuration, note if config else _quiet)
    return Engine(loaded, configuration, registry, profile).evaluate(incoming)


def check_stdin(paths: Sequence[str]) -> None:
    """Raise ManifestError if `-`, which stands for standard input, occurs twice among the paths."""
    if paths.count(STDIN) > 1:
        raise ManifestError(f"standard input ({STDIN}) can be read once only")


def load_cluster_files(
    objects: Iterable[SourceManifest],
    paths: Sequence[str],
    note: Callable[[str], None],
    incoming: PodInfo | None = None,
) -> LoadedCluster:
    """Return a cluster with these objects. Raise ManifestError if it has no node.

    `paths` are the objects' files, for the error message. `note` is called with one line that lists the skipped kinds,
    if there are any. `incoming` is passed to `load_cluster`.
    """
    loaded = load_cluster(objects, incoming)
    if loaded.skipped:
        note(f"skipped: {', '.join(sorted(loaded.skipped))}")
    if not loaded.nodes.live.any():
        raise ManifestError(f"{', '.join(paths)}: no Node in the cluster")
    return loaded


def manifests(path: str) -> Iterator[SourceManifest]:
    """Yield every object in a file, in the files of a directory, or in standard input (`-`). Lists are expanded."""
    for source, document in read_documents(path):
        yield from parse_items(source, document)


def read_documents(path: str) -> Iterator[tuple[str, object]]:
    """Yield every document of a file, of the files of a directory, or of standard input (`-`), with its place."""
    for name, text in _texts(path):
        documents = [document for document in _documents(name, text) if document is not None]
        for number, document in enumerate(documents, 1):
            yield f"{name}: document {number}" if len(documents) > 1 else name, document


def parse_document(path: str) -> object:
    """Return the only YAML or JSON document in a file. Raise ManifestError if there is none or more than one."""
    documents = [document for name, text in _texts(path) for document in _documents(name, text) if document is not None]
    if len(documents) != 1:
        raise ManifestError(f"{path}: expected one document, found {len(documents) or 'none'}")
    return documents[0]


def _pod_in(path: str) -> tuple[str, Pod]:
    contents = list(manifests(path))
    if len(contents) != 1:
        raise ManifestError(f"{path}: expected one Pod, found {len(contents) or 'no'} objects")
    where, content = contents[0]
    if not isinstance(content, Mapping) or content.get("kind") != "Pod":
        kind = content.get("kind") if isinstance(content, Mapping) else None
        raise ManifestError(f"{where}: kind: expected Pod, found {kind or 'none'}")
    return where, decode_pod(where, content)


def find_profile(scheduler: str, config: Configuration, note: Callable[[str], None]) -> int:
    """Return the index of the profile for the scheduler name `scheduler`.

    If there is none, call `note` with a message for the user and return 0, the first profile.
    """
    names = [profile.scheduler_name for profile in config.profiles]
    if scheduler in names:
        return names.index(scheduler)
    note(f'no profile is named "{scheduler}", as the pod asks for; the first, "{names[0]}", decides')
    return 0


def _quiet(_: str) -> None:
    pass


def _texts(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of the file, of each manifest file in the directory, or of standard input (`-`)."""
    if path == STDIN:
        yield "standard input", sys.stdin.buffer.read()
        return
    try:
        here = Path(path)
        files = sorted(p for p in here.iterdir() if p.suffix in SUFFIXES) if here.is_dir() else [here]
        if not files:
            raise ManifestError(f"{path}: no {', '.join(SUFFIXES)} file in the directory")
        for file in files:
            yield str(file), file.read_bytes()
    except (OSError, ValueError) as e:
        if isinstance(e, ManifestError):
            raise
        raise ManifestError(f"{path}: {getattr(e, 'strerror', None) or e}") from e


def _documents(name: str, content: bytes) -> Iterable[object]:
    if content.lstrip()[:1] == b"{":
        try:
            return [msgspec.json.decode(content)]
        except (msgspec.DecodeError, RecursionError):
            pass  # a mapping of YAML may begin so too, and its parser says more of what is wrong
    try:
        return load_documents(decode_text(content))
    except YamlError as e:
        raise ManifestError(f"{name}: {e}") from e


def parse_items(where: str, document: object) -> Iterator[SourceManifest]:
    """Yield the objects in a document: the items of a list or ClusterSnapshot, or else the document itself.

    An item of a typed list, such as PodList, gets the kind of the list if it has none. `where` names the document in
    errors. Raise ManifestError if a list's items are no array or a ClusterSnapshot is damaged.
    """
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if isinstance(document, Mapping) and kind == KIND:
        try:
            yield from (SourceManifest(f"{where}: items[{i}]", item) for i, item in enumerate(items_of(document)))
        except SnapshotError as e:
            raise ManifestError(f"{where} ({KIND}): {e}") from e
        return
    if not isinstance(document, Mapping) or not isinstance(kind, str) or not kind.endswith("List"):
        yield SourceManifest(where, document)
        return
    items = document.get("items") or []
    if not isinstance(items, list):
        raise ManifestError(f"{where} ({kind}): items: expected an array")
    implied = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    for i, item in enumerate(items):
        typed = {**implied, **item} if isinstance(item, Mapping) and kind != "List" else item
        yield SourceManifest(f"{where}: items[{i}]", typed)
