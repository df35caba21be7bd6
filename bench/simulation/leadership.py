"""Which scheduler process may write to the API server, judged by the requests and responses that it sends and gets.

Owns: the invariant that no process writes once it may not lead. Does not own: who gets the Lease.

A process may write for the renewal deadline after it sent the last renewal that was answered, unless a response showed
it another holder of the Lease, or it gave the Lease back. Only what the process itself has seen counts, because no
process can know of a change that no response has shown it.
"""

from __future__ import annotations

from typing import Any, Final

import httpx
import msgspec

from bench.simulation.machine import DELAYS_S, VirtualMachine, VirtualProcess

Json = dict[str, Any]

# A thread may lose its turn after its last check, at the lock of the connections, and while it writes the request.
GRACE_S: Final = 3 * max(DELAYS_S) + 0.1
UNFENCED: Final = ("/events", "/leases")  # an event harms nothing, and the Lease decides itself


class LeadershipMonitor:
    """Compares the writes of all processes with what they know of the Lease."""

    def __init__(self, machine: VirtualMachine, api_host: str, renew_deadline_s: float) -> None:
        self.violations: list[str] = []
        self._machine, self._api_host, self._renew_deadline_s = machine, api_host, renew_deadline_s
        self._identities: dict[VirtualProcess, str] = {}
        self._leads_until: dict[VirtualProcess, float] = {}

    def note_request(self, client: VirtualProcess, request: httpx.Request) -> None:
        """Note a violation if the request is a write of a process that may not lead any more."""
        path = request.url.path
        if request.url.host != self._api_host or request.method == "GET":
            return
        if "/leases" in path:
            self._note_identity(client, request)
        if any(part in path for part in UNFENCED):
            return
        leads_until = self._leads_until.get(client, float("-inf"))
        if self._machine.now > max(leads_until, client.thawed_s) + GRACE_S:
            self.violations.append(
                f"no_process_writes_that_may_not_lead: {client.name} sends {request.method} {path} at "
                f"{self._machine.now:.3f} s, and could lead until {leads_until:.3f} s"
            )

    def _note_identity(self, client: VirtualProcess, request: httpx.Request) -> None:
        holder = _holder(request.content)
        if holder:
            self._identities[client] = holder

    def note_response(
        self, client: VirtualProcess, request: httpx.Request, response: httpx.Response, sent_s: float
    ) -> None:
        """Note what a response about the Lease, whose request was sent at `sent_s`, shows to a process."""
        is_about_lease = request.url.host == self._api_host and "/leases" in request.url.path
        if not is_about_lease or response.status_code >= 300:
            return
        holder, identity = _holder(response.content), self._identities.get(client)
        if holder == identity and request.method != "GET":
            self._leads_until[client] = sent_s + self._renew_deadline_s
        elif holder != identity and client in self._leads_until:
            self._leads_until[client] = min(self._leads_until[client], self._machine.now)


def _holder(body: bytes) -> str:
    lease: Json = msgspec.json.decode(body)
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
