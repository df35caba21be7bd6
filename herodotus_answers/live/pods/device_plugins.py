"""Find nodes on which a device plugin, or the node plugin of a CSI or DRA driver, does not run although pods need it.

Owns: which nodes these are, which DaemonSet is the plugin, why it has no pod there, what would change it. Does not own:
devices of nodes that offer some (`waiting_causes`), where a DaemonSet's pods are to be (`daemon_nodes`). Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.daemon_nodes import advise_toleration, find_nodes_without_pod, list_hard_taints
from herodotus_answers.live.node_rules import (
    list_lacking_labels,
    list_pod_terms,
    matches_any_term,
    read_labels,
    selects_node,
    tolerates,
)
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
    daemon_sets = _list_daemon_sets(objects) if labels else None
    if daemon_sets is None:
        return None
    plugins = [each for each in daemon_sets if _is_plugin(each, vendor)]
    missing = _list_uncovered(plugins, [bare[name] for name in labels])
    if not missing:
        return None
    names = [str(node["metadata"]["name"]) for node in missing]
    listed_names = _join(names)
    which, have, offer = ("node", "has", "offers") if len(names) == 1 else ("nodes", "have", "offer")
    text = f"{which} {listed_names} {have} the label {labels[names[0]]} and {offer} no {resource}: "
    if not plugins:
        text += "no DaemonSet looks like the device plugin of that resource"
        remedy = make_remedy(f"install the driver and the device plugin for {resource}")
        if any(_offers(node, domain) for node in nodes):  # something registers it there
            remedy = make_remedy(f"see what registers {resource} on other nodes, and why not on {listed_names}")
        return make_cause("device-plugin-missing", text, "Node labels, DaemonSets", remedies=[remedy])
    them, of = "it" if len(names) == 1 else "them", f"DaemonSet/{plugins[0]['metadata']['name']}"
    excluded, remedy = _explain_exclusion(plugins[0], missing, "the device plugin", them)
    source = "Node labels, DaemonSet spec.template"
    return make_cause("device-plugin-missing", text + excluded, source, of=of, remedies=[remedy])


def find_excluded_driver(driver: str, nodes: Sequence[Json], objects: ClusterObjects) -> LiveCause | None:
    """Return the cause that the node plugin of a CSI or DRA driver is kept off nodes, or None if it is not.

    `nodes` are those on which a pod needs the driver. None also if no DaemonSet is known to be the driver's.
    """
    daemon_sets = _list_daemon_sets(objects) or []
    plugins = [each for each in daemon_sets if _names_driver(each, driver)]
    plugins = plugins or [each for each in daemon_sets if _resembles_driver(each, driver)]
    missing = _list_uncovered(plugins, nodes) if plugins else []
    if not missing:
        return None
    names, of = [str(node["metadata"]["name"]) for node in missing], f"DaemonSet/{plugins[0]['metadata']['name']}"
    text, remedy = _explain_exclusion(plugins[0], missing, f"the node plugin of {driver}", _join(names))
    return make_cause("node-plugin-missing", text, "DaemonSet spec.template, Node", of=of, remedies=[remedy])


def list_open_nodes(pod_spec: Json, nodes: Iterable[Json]) -> list[Json]:
    """Return the nodes that a pod selects and whose taints it tolerates."""
    tolerations = pod_spec.get("tolerations") or ()
    return [
        node
        for node in nodes
        if selects_node(pod_spec, node) and all(tolerates(tolerations, taint) for taint in list_hard_taints(node))
    ]


def _list_daemon_sets(objects: ClusterObjects) -> list[Json] | None:
    listed = objects.list_objects("DaemonSet")
    return None if listed.missing or not listed.is_complete else list(listed.items)


def _explain_exclusion(plugin: Json, nodes: Sequence[Json], what: str, them: str) -> tuple[str, Remedy]:
    """Return why a DaemonSet is to have no pod on the nodes, and what changes that for those of the first reason."""
    label = f"{plugin['metadata']['namespace']}/{plugin['metadata']['name']}"
    group = find_nodes_without_pod(plugin["spec"]["template"]["spec"], nodes, ())[0]
    remedy = _advise(plugin, group, [node for node in nodes if node["metadata"]["name"] in group["nodes"]], what)
    return f"DaemonSet {label}, {what}, excludes {them} ({group['text']})", remedy


def _list_uncovered(plugins: Sequence[Json], nodes: Sequence[Json]) -> list[Json]:
    """Return the nodes, by name, on which none of the DaemonSets is to have a pod."""
    covered = {name for each in plugins for name in _list_covered(each, nodes)}
    missing = [node for node in nodes if node["metadata"]["name"] not in covered]
    return sorted(missing, key=lambda node: natural_sort_key(node["metadata"]["name"]))


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


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
    words = _read_words(daemon_set)
    return vendor in words and "plugin" in words


def _names_driver(daemon_set: Json, driver: str) -> bool:
    """Return whether the template names a driver, as the path of its socket or an argument does."""
    template = json.dumps(daemon_set["spec"]["template"]["spec"])
    return re.search(rf"(?<![\w.-]){re.escape(driver)}(?![\w-])", template) is not None


def _resembles_driver(daemon_set: Json, driver: str) -> bool:
    """Return whether the name and images have each part of the driver's name, but for the last one, such as `com`."""
    words = _read_words(daemon_set)
    return all(part in words for part in driver.split(".")[:-1])


def _read_words(daemon_set: Json) -> str:
    """Return the name of a DaemonSet and its images."""
    images = [str(each.get("image")) for each in daemon_set["spec"]["template"]["spec"].get("containers") or ()]
    return " ".join([daemon_set["metadata"]["name"], *images])


def _list_covered(plugin: Json, nodes: Sequence[Json]) -> list[str]:
    """Return the nodes on which a DaemonSet is to have a pod: what that pod says is another matter."""
    groups = find_nodes_without_pod(plugin["spec"]["template"]["spec"], nodes, ())
    excluded = {name for group in groups if group["code"] != "missing" for name in group["nodes"]}
    return [str(node["metadata"]["name"]) for node in nodes if node["metadata"]["name"] not in excluded]


def _advise(plugin: Json, group: NodesWithoutPod, nodes: Sequence[Json], what: str) -> Remedy:
    """Return what lets a DaemonSet have pods on nodes that it excludes for one reason."""
    spec, meta = plugin["spec"]["template"]["spec"], plugin["metadata"]
    names, label = [str(node["metadata"]["name"]) for node in nodes], f"{meta['namespace']}/{meta['name']}"
    lacking = list_lacking_labels(spec, nodes[0])
    is_new = not any(each.partition("=")[0] in read_labels(node) for each in lacking for node in nodes)
    if lacking and is_new:
        text = f"label {' and '.join(names)} {' and '.join(lacking)}, so that {what} runs there"
        return make_remedy(text, f"kubectl label node {' '.join(names)} {' '.join(lacking)}")
    advice = f"let the node selector and affinity of DaemonSet {label} select {' and '.join(names)}"
    if group["code"] == "taint":
        advice = f"let DaemonSet {label} tolerate the taint once {' and '.join(names)} may take its pods"
    return advise_toleration(plugin, nodes) or make_remedy(advice)
