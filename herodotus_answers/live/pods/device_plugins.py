"""Find nodes that have a vendor's devices by their labels and offer none, because its device plugin does not run there.

Owns: which nodes these are, which DaemonSet is the plugin, why it has no pod there, what would change it. Does not own:
devices of nodes that offer some (`waiting_causes`), where a DaemonSet's pods are to be (`daemon_nodes`). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.daemon_nodes import advise_toleration, find_nodes_without_pod
from herodotus_answers.live.node_rules import list_lacking_labels, list_pod_terms, matches_any_term, read_labels
from herodotus_answers.live.pod_facts import make_cause, make_remedy
from herodotus_answers.quantities import read_quantity
from herodotus_record.units import natural_sort_key

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, NodesWithoutPod, Remedy

Json = dict[str, Any]
_NAMED: Final = 4  # nodes in a sentence
_NO: Final = ("", "false", "0", "none")  # values of a label that says that a node has no device
# Labels of clouds and of node-feature-discovery, by the vendor that a resource's domain names.
_LABELS: Final = {
    "nvidia": ("cloud.google.com/gke-accelerator", "feature.node.kubernetes.io/pci-10de.present"),
    "amd": ("feature.node.kubernetes.io/pci-1002.present",),
}


def find_missing_plugin(
    pod_spec: Json, resource: str, nodes: Sequence[Json], objects: ClusterObjects
) -> LiveCause | None:
    """Return the cause that nodes with devices offer none of an extended resource, or None if there are no such nodes.

    `nodes` are all nodes of the cluster. Those that the pod's node selector and affinity exclude do not count.
    """
    domain, terms = resource.partition("/")[0], list_pod_terms(pod_spec)
    vendor = domain.partition(".")[0]
    bare = {
        str(node["metadata"]["name"]): node
        for node in nodes
        if not _offers(node, domain) and not list_lacking_labels(pod_spec, node)
        if not terms or matches_any_term(terms, node)
    }
    labels = {name: label for name, node in bare.items() if (label := _find_label(node, domain, vendor))}
    listed = objects.list_objects("DaemonSet") if labels else None
    if listed is None or listed.missing or not listed.is_complete:
        return None
    with_devices = [bare[name] for name in sorted(labels, key=natural_sort_key)]
    plugins = [each for each in listed.items if _is_plugin(each, vendor)]
    covered = {name for each in plugins for name in _list_covered(each, with_devices)}
    missing = [node for node in with_devices if node["metadata"]["name"] not in covered]
    if not missing:
        return None
    names = [str(node["metadata"]["name"]) for node in missing]
    listed_names = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    which, have, offer = ("node", "has", "offers") if len(names) == 1 else ("nodes", "have", "offer")
    text = f"{which} {listed_names} {have} the label {labels[names[0]]} and {offer} no {resource}: "
    if not plugins:
        text += "no DaemonSet looks like the device plugin of that resource"
        remedy = make_remedy(f"install the driver and the device plugin for {resource}")
        if any(_offers(node, domain) for node in nodes):  # something registers it there
            remedy = make_remedy(f"see what registers {resource} on other nodes, and why not on {listed_names}")
        return make_cause("device-plugin-missing", text, "Node labels, DaemonSets", remedies=[remedy])
    plugin = plugins[0]
    label = f"{plugin['metadata']['namespace']}/{plugin['metadata']['name']}"
    group = find_nodes_without_pod(plugin["spec"]["template"]["spec"], missing, ())[0]
    text += f"DaemonSet {label}, the device plugin, excludes {'it' if len(names) == 1 else 'them'} ({group['text']})"
    remedy = _advise(plugin, group, [node for node in missing if node["metadata"]["name"] in group["nodes"]])
    of, source = f"DaemonSet/{plugin['metadata']['name']}", "Node labels, DaemonSet spec.template"
    return make_cause("device-plugin-missing", text, source, of=of, remedies=[remedy])


def _offers(node: Json, domain: str) -> bool:
    """Return whether a node offers a resource of the domain, such as a GPU or a slice of one."""
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return any(name.startswith(f"{domain}/") and read_quantity(amount) > 0 for name, amount in amounts.items())


def _find_label(node: Json, domain: str, vendor: str) -> str:
    """Return the label, as KEY=VALUE, that says that a node has a device of the vendor; "" if none does."""
    known = _LABELS.get(vendor, ())
    return next(
        (
            f"{key}={value}"
            for key, value in sorted(read_labels(node).items())
            if (key.startswith(f"{domain}/") or key in known) and value.lower() not in _NO
        ),
        "",
    )


def _is_plugin(daemon_set: Json, vendor: str) -> bool:
    """Return whether a DaemonSet looks like the device plugin of a vendor, by its name and images."""
    images = [str(each.get("image")) for each in daemon_set["spec"]["template"]["spec"].get("containers") or ()]
    words = " ".join([daemon_set["metadata"]["name"], *images])
    return vendor in words and "plugin" in words


def _list_covered(plugin: Json, nodes: Sequence[Json]) -> list[str]:
    """Return the nodes on which a DaemonSet is to have a pod: what that pod says is another matter."""
    groups = find_nodes_without_pod(plugin["spec"]["template"]["spec"], nodes, ())
    excluded = {name for group in groups if group["code"] != "missing" for name in group["nodes"]}
    return [str(node["metadata"]["name"]) for node in nodes if node["metadata"]["name"] not in excluded]


def _advise(plugin: Json, group: NodesWithoutPod, nodes: Sequence[Json]) -> Remedy:
    """Return what lets a DaemonSet have pods on nodes that it excludes for one reason."""
    spec, meta = plugin["spec"]["template"]["spec"], plugin["metadata"]
    names, label = [str(node["metadata"]["name"]) for node in nodes], f"{meta['namespace']}/{meta['name']}"
    lacking = list_lacking_labels(spec, nodes[0])
    is_new = not any(each.partition("=")[0] in read_labels(node) for each in lacking for node in nodes)
    if lacking and is_new:
        text = f"label {' and '.join(names)} {' and '.join(lacking)}, so that the device plugin runs there"
        return make_remedy(text, f"kubectl label node {' '.join(names)} {' '.join(lacking)}")
    what = f"let the node selector and affinity of DaemonSet {label} select {' and '.join(names)}"
    if group["code"] == "taint":
        what = f"let DaemonSet {label} tolerate the taint once {' and '.join(names)} may take its pods"
    return advise_toleration(plugin, nodes) or make_remedy(what)
