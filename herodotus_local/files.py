"""Read the objects of a cluster from files, as kubectl printed them or as a snapshot of a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from herodotus_local.cluster_reader import ClusterListing
from herodotus_local.errors import UnusableInputError
from scheduler.engine.manifests.cluster import ManifestError, decode_object
from scheduler.engine.nodegroups.reading import AutoscalingObjects
from scheduler.engine.objects.pod import FINISHED_PHASES
from scheduler.engine.objects.types import Node, Pod
from scheduler.engine.whatif.pods import split_priority_classes
from scheduler.offline.evaluate.files import check_stdin, manifests


class FileReader:
    """Reads a cluster from files, in place of a `ClusterReader`."""

    def __init__(self, paths: Sequence[str], note: Callable[[str], None]) -> None:
        """Prepare without reading. `note` receives a sentence about the kinds of objects that are skipped."""
        self._paths, self._note = paths, note

    def read(self, _namespace: str, _needs_storage: Callable[[Sequence[Pod]], bool]) -> ClusterListing:
        """Return all objects of the files that scheduling reads.

        Raises UnusableInputError for an invalid object, or if there are no nodes.
        """
        found, skipped = ClusterListing(), set[str]()
        try:
            check_stdin(self._paths)
            written = [manifest for path in self._paths for manifest in manifests(path)]
            classes, others = split_priority_classes(written)
            found.priority_classes = None if classes is None else list(classes.values())
            for where, content in others:
                obj = decode_object(where, content, skipped)
                if isinstance(obj, Node):
                    found.nodes.append(obj)
                elif isinstance(obj, Pod):
                    found.pods += [obj] * (obj.status.phase not in FINISHED_PHASES)
                elif obj is not None:
                    found.others.append(obj)
        except ManifestError as e:
            raise UnusableInputError(str(e)) from e
        if not found.nodes:
            raise UnusableInputError("the files have no nodes")
        if skipped:
            self._note(f"skipped: {', '.join(sorted(skipped))}")
        return found

    def read_pods(self, _namespace: str) -> list[Pod]:
        """Return the pods of the files."""
        return self.read("", lambda _: False).pods

    def read_node_groups(self, _pods: Iterable[str]) -> AutoscalingObjects:
        """Return nothing: `read` returns the objects of autoscalers that the files hold."""
        return AutoscalingObjects()
