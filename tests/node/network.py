"""The pods' network: a bridge, names of Services by DNS, and the address of the API server's own Service.

There is no kube-proxy. A Service's name has the addresses of its ready pods, so a connection to a Service without one
fails at once, as with kube-proxy. A Service's port must therefore be its pods' port.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

BRIDGE: Final = "hdnode0"
GATEWAY: Final = "10.211.0.1"
SUBNET: Final = "10.211.0.0/24"
DOMAIN: Final = "cluster.local"
KUBERNETES: Final = "10.0.0.1"  # the first address of the API server's range of Services
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
NAMESPACES: Final = Path("/var/run/netns")
_A, _NXDOMAIN = 1, 3

Addresses = Callable[[str, str], list[str] | None]


def create_network(apiserver_port: int, cni: Path, closing: ExitStack) -> None:
    """Create the bridge, its CNI configuration in `cni`, and the pods' way to the API server; undo it at the end."""
    cni.mkdir(parents=True)
    ipam = {"type": "host-local", "subnet": SUBNET, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(cni / "leases")}
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": ipam}
    network = {"cniVersion": "0.4.0", "name": "herodotus-node", "plugins": [bridge]}
    (cni / "10-bridge.conflist").write_text(json.dumps(network))
    forwards = FORWARDING.read_text()
    closing.callback(FORWARDING.write_text, forwards)  # the CNI plugin of the bridge turns it on
    closing.callback(_remove_namespaces, set(NAMESPACES.glob("cni-*")))
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    closing.callback(_run, "ip", "link", "delete", BRIDGE)
    _run("ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    to_apiserver = ["--destination", KUBERNETES, "--protocol", "tcp", "--dport", "443", "--in-interface", BRIDGE]
    rule = ["PREROUTING", *to_apiserver, "--jump", "DNAT", "--to-destination", f"{GATEWAY}:{apiserver_port}"]
    _run("iptables", "--wait", "--table", "nat", "--append", *rule)
    closing.callback(_run, "iptables", "--wait", "--table", "nat", "--delete", *rule)


class ServiceNames:
    """A DNS server on the bridge that resolves names of Services to the addresses of their ready pods."""

    def __init__(self, addresses: Addresses) -> None:
        """Start the server; `addresses` returns those of a Service (namespace, name), None if it does not exist."""
        self._addresses = addresses
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((GATEWAY, 53))
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="dns")
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", (GATEWAY, 53))
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            if self._closed:
                return
            with suppress(struct.error, IndexError, UnicodeDecodeError):  # not a query
                self._socket.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode())
            at += length + 1
        (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
        name = ".".join(labels).removesuffix(f".svc.{DOMAIN}")
        service, _, namespace = name.partition(".")
        is_service = ".".join(labels).endswith(f".svc.{DOMAIN}") and "." not in namespace
        found = self._addresses(namespace, service) if is_service else None
        answers = [socket.inet_aton(address) for address in found or ()] if kind == _A else []
        code = _NXDOMAIN if found is None else 0
        head = query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(answers), 0, 0)
        records = b"".join(struct.pack("!HHHIH", 0xC00C, _A, 1, 0, 4) + address for address in answers)
        return head + query[12 : at + 5] + records


def _remove_namespaces(before: set[Path]) -> None:
    """Remove the network namespaces of the pods, with their ends of the bridge."""
    for path in set(NAMESPACES.glob("cni-*")) - before:
        _run("ip", "netns", "delete", path.name)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
