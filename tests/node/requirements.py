"""What the tests of a real node need of the machine, and what is missing.

Debian's packages are installed by `make node`; the programs of Kubernetes are found by the envtest convention.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from tests.e2e.control_plane import assets

RUN: Final = "HERODOTUS_NODE"  # set by `make node`
CNI_PLUGINS: Final = Path("/usr/lib/cni")
PROGRAMS: Final = ("containerd", "ctr", "runc", "buildah", "mmdebstrap", "iptables", "ip", "findmnt")
KUBERNETES: Final = ("kubelet", "kube-controller-manager", "kube-scheduler")


def find_missing() -> list[str]:
    """Return what this machine lacks to run containers on a real node, in words; [] if it lacks nothing."""
    missing = [] if os.geteuid() == 0 else ["root"]
    missing += [] if Path("/etc/debian_version").exists() else ["Debian"]
    missing += [program for program in PROGRAMS if shutil.which(program) is None]
    missing += [] if (CNI_PLUGINS / "bridge").exists() else ["containernetworking-plugins"]
    binaries = assets()
    if binaries is None:
        return [*missing, "etcd", "kube-apiserver"]
    return [*missing, *(program for program in KUBERNETES if not (binaries / program).exists())]
