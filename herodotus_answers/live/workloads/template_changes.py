"""Write the commands that change the pod template of a workload, for its owner: a change that lasts.

Owns: whose template it is, whether it can be changed, and what the change does to pods that exist. Does not own: which
change helps. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from herodotus_answers.live.pod_facts import find_manager, make_remedy
from herodotus_answers.live.workload_objects import find_parent
from herodotus_answers.pod_templates import build_template_command

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import Remedy
    from herodotus_answers.live.workload_objects import Workload

Json = dict[str, Any]
_ROLLS: Final = ("Deployment", "StatefulSet", "DaemonSet")  # kinds that replace their pods when the template changes


class Refusal(NamedTuple):
    """The message of a refusal to create pods, where it was read, and how many pods are missing.

    `original` is the message with what controllers and the API server put before it, once that is removed.
    """

    message: str
    source: str
    at: str | None
    missing: int
    original: str = ""


def is_template_mutable(workload: Workload) -> bool:
    """Return whether the template of a workload, or of the one that made it, can be changed."""
    kind = (find_parent(workload) or workload.label).partition("/")[0]
    return kind != "Job"


def change_template(workload: Workload, text: str, spec: Json, note: str = "") -> Remedy:
    """Return the remedy that changes the pod spec in the template. `text` says how, and `note` what else it does.

    The command is for the object that made the workload, if there is one. A Job's own template cannot be changed, and a
    custom object has no command.
    """
    if manager := find_manager(workload.object, workload.objects):
        return make_remedy(f"{text}, in {manager}, whose controller would undo a change of {workload.label}")
    kind, _, name = (find_parent(workload) or workload.label).partition("/")
    changed = build_template_command(kind, name, workload.namespace, spec)
    command = changed.command if changed else None
    if kind == "Job":
        text += f": the template of a Job cannot be changed, so delete Job {name} and create it anew"
        return make_remedy(text, command)
    text += f", in the template of {kind}/{name}"
    if kind == "CronJob":
        text += "; its next Jobs have it"
    elif kind in _ROLLS and workload.active:
        count = len(workload.active)
        text += f"; replaces its {'pod' if count == 1 else f'{count} pods'}"
    text += f"; {note}" if note else ""
    return make_remedy(text, command)
