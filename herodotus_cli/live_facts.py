"""What the API server says just now about a pending pod: who holds what it lacks, and which rights are needed.

Owns: which requests are made, all at once. Does not own: the requests (`transport`), what follows from the answers
(`herodotus_record.holders`), layout (`render`).

Invariant: everything is read with the user's own rights. A request that fails leaves its lines out; if the user may not
make it, a line says so.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from herodotus_cli.render import suggestions
from herodotus_cli.render.screen_elements import Block, TextLine
from herodotus_record.holders import HeldObject, find_held, find_holders

if TYPE_CHECKING:
    from herodotus_cli.transport.api_server_queries import NodePodsQuery
    from herodotus_cli.transport.kubectl import KubectlTransport

Json = dict[str, Any]


def read_blocks(answer: Json, transport: KubectlTransport) -> list[list[Block]]:
    """Return the sections of the screen about the pod of a PodExplanation: missing rights, and holders."""
    held = find_held(answer)
    needed = [right for found in answer.get("suggestions") or () for right in found["rights"]]
    if answer.get("kind") != "PodExplanation" or (held is None and not needed):
        return []
    with ExitStack() as running:
        rights = running.enter_context(transport.rights(answer["metadata"]["namespace"])) if needed else None
        pods = running.enter_context(transport.pods_on_node(held.node)) if held else None
        missing = suggestions.build_missing_rights(rights.find_missing(needed)) if rights else []
        holders = _build_holders(held, pods) if held and pods else []
    return [section for section in (missing, holders) if section]


def _build_holders(held: HeldObject, query: NodePodsQuery) -> list[Block]:
    from herodotus_cli.render import holders

    pods = query.pods()
    if pods is not None:
        return holders.build_blocks(find_holders(held, pods))
    if not query.is_forbidden:
        return []
    why = "you may not list pods in all namespaces"
    return [TextLine(f"Who holds {', '.join(held.names)} on {held.node} is not shown: {why}.", "dim")]
