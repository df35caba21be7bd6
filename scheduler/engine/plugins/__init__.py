"""The in-tree plugins, one file each, and their order.

Adding one touches four files: the plugin, its line in `IN_TREE` (and in `DEFAULT` where kube-scheduler enables it), its
test, and its row in docs/parity.md.
"""

from __future__ import annotations

from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.plugins.best_price import BestPrice
from scheduler.engine.plugins.congestion import Congestion
from scheduler.engine.plugins.default_binder import DefaultBinder
from scheduler.engine.plugins.default_preemption import DefaultPreemption
from scheduler.engine.plugins.dynamic_resources import DynamicResources
from scheduler.engine.plugins.gang_scheduling import GangScheduling
from scheduler.engine.plugins.image_locality import ImageLocality
from scheduler.engine.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.engine.plugins.network_traffic import NetworkTraffic
from scheduler.engine.plugins.node_affinity import NodeAffinity
from scheduler.engine.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.engine.plugins.node_name import NodeName
from scheduler.engine.plugins.node_ports import NodePorts
from scheduler.engine.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.engine.plugins.node_resources_fit import NodeResourcesFit
from scheduler.engine.plugins.node_unschedulable import NodeUnschedulable
from scheduler.engine.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.engine.plugins.pigeon import Pigeon
from scheduler.engine.plugins.pod_group_pods_count import PodGroupPodsCount
from scheduler.engine.plugins.pod_topology_spread import PodTopologySpread
from scheduler.engine.plugins.priority_sort import PrioritySort
from scheduler.engine.plugins.reward import Reward
from scheduler.engine.plugins.safe_balance import SafeBalance
from scheduler.engine.plugins.safe_overload import SafeOverload
from scheduler.engine.plugins.scheduling_gates import SchedulingGates
from scheduler.engine.plugins.taint_toleration import TaintToleration
from scheduler.engine.plugins.topology_placement import TopologyPlacementGenerator
from scheduler.engine.plugins.volume_binding import VolumeBinding
from scheduler.engine.plugins.volume_restrictions import VolumeRestrictions
from scheduler.engine.plugins.volume_zone import VolumeZone
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import DECLARED_FEATURES, DEVICE_ALLOCATION, GANG_SCHEDULING, TOPOLOGY_AWARE

_ALL: tuple[type[BasePlugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
    # plugins that only Herodotus has; never enabled by default
    SafeOverload,
    SafeBalance,
    Congestion,
    Pigeon,
    Reward,
    BestPrice,
    NetworkTraffic,
)

IN_TREE: dict[str, type[BasePlugin]] = {plugin.name: plugin for plugin in _ALL}

# kube-scheduler's default MultiPoint list: (name, weight), weight 0 meaning 1. The order is significant.
DEFAULT: tuple[tuple[str, int], ...] = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
    ("GangScheduling", 0),
    ("TopologyPlacementGenerator", 0),
    ("PodGroupPodsCount", 1),
)

# The feature gates that enable some of these plugins.
_GATES = {
    "DynamicResources": DEVICE_ALLOCATION,
    "NodeDeclaredFeatures": DECLARED_FEATURES,
    "GangScheduling": GANG_SCHEDULING,
    "TopologyPlacementGenerator": TOPOLOGY_AWARE,
    "PodGroupPodsCount": TOPOLOGY_AWARE,
}


def list_default_plugins(rules: Rules) -> tuple[tuple[str, int], ...]:
    """Return (name, weight) of each plugin that kube-scheduler enables by default with these feature gates."""
    return tuple((name, weight) for name, weight in DEFAULT if name not in _GATES or rules.enabled(_GATES[name]))
