"""Three PostgreSQL servers under Patroni with one etcd, each server in a network namespace of its own.

The caller runs in a private network and process namespace (`PRIVATE`), which has a bridge here. Whatever is started
ends with that namespace, however it ends. Addresses and ports are those of the private network, so nothing listens
on the machine's own. A partition takes a server off the bridge, or drops what it sends to etcd and the other servers.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests import postgresql
from tests.processes import eventually

PROGRAMS: Final = ("patroni", "etcd", "ip", "unshare", "nsenter", "setpriv", "bash")
MISSING: Final = "needs root, network namespaces, PostgreSQL, Patroni, etcd (Debian: postgresql patroni etcd-server)"
# bash, as the first process of the namespace, also collects processes whose parents were killed: PostgreSQL would take
# one that nobody collects for another server that runs.
PRIVATE: Final = (
    *("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("bash", "-c", '"$@" & wait $!', "private"),
)
MEMBERS: Final = 3
HERE: Final = "10.77.0.1"  # the service and the caller
ETCD: Final = "10.77.0.2"
START_S: Final = 120.0  # three servers are created, on a slow machine
USER: Final = "postgres"


def is_available() -> bool:
    """Return whether everything is installed and this process may create namespaces."""
    if os.geteuid() or not postgresql.BINARIES or not all(map(shutil.which, PROGRAMS)):
        return False
    return subprocess.run([*PRIVATE, "true"], capture_output=True, check=False).returncode == 0


class Member:
    """One server with its Patroni, in a network namespace that a sleeping process holds."""

    def __init__(self, number: int, folder: Path, ttl_s: int) -> None:
        self.name, self.address = f"member-{number}", f"10.77.0.{10 + number}"
        self._link, self._folder, self._log = f"member{number}", folder, (folder / f"member-{number}.log").open("ab")
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._namespace = Path(f"/proc/{self._holder.pid}/ns/net")
        own = os.readlink("/proc/self/ns/net")
        eventually(lambda: os.readlink(self._namespace) != own, f"the network of {self.name}")
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", str(self._holder.pid))
        _run("ip", "link", "set", self._link, "master", "bridge", "up")
        self._inside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self._inside("ip", "link", "set", "eth0", "up")
        self._inside("ip", "link", "set", "lo", "up")
        (folder / f"{self.name}.sockets").mkdir()
        shutil.chown(folder / f"{self.name}.sockets", USER)
        self._settings = folder / f"{self.name}.yaml"
        self._settings.write_text(json.dumps(_settings(self, folder, ttl_s)))  # JSON is YAML
        self._patroni: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Patroni, which creates or starts its server."""
        command = ["nsenter", f"--net={self._namespace}", "setpriv", f"--reuid={USER}", f"--regid={USER}"]
        self._patroni = subprocess.Popen(
            [*command, "--clear-groups", "patroni", str(self._settings)],
            stdout=self._log,
            stderr=self._log,
            cwd="/",
            env=os.environ | {"HOME": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def kill(self) -> None:
        """Kill every process of the member at once, as if its machine lost power."""
        eventually(self._has_ended, f"the end of {self.name}", every_s=0.01)
        if self._patroni:
            self._patroni.wait()

    def cut_off(self) -> None:
        """Drop every packet from and to the member."""
        _run("ip", "link", "set", self._link, "nomaster")

    def cut_off_from(self, others: Sequence[str]) -> None:
        """Drop every packet that the member sends to these addresses."""
        for address in others:
            self._inside("ip", "route", "add", "blackhole", f"{address}/32")

    def reconnect(self) -> None:
        """End a partition of either kind."""
        _run("ip", "link", "set", self._link, "master", "bridge")
        for line in self._inside("ip", "route", "show", "type", "blackhole").splitlines():
            self._inside("ip", "route", "del", "blackhole", line.split()[1] if "blackhole" in line else line.split()[0])

    def stop_replay(self) -> None:
        """Stop the process that applies changes, while the server still receives them (Patroni ends a mere pause)."""
        self._replaying = int(self.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'"))
        os.kill(self._replaying, signal.SIGSTOP)

    def continue_replay(self) -> None:
        os.kill(self._replaying, signal.SIGCONT)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement as superuser on this server, and return what psql prints."""
        address = ["-h", self.address, "-U", USER, "-d", database]
        command = ["psql", *address, "-qAtc", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()

    def end(self) -> None:
        """Kill the member and give back its network."""
        self.kill()
        self._holder.kill()
        self._holder.wait()
        self._log.close()

    def _pids(self) -> list[int]:
        network, found = os.readlink(self._namespace), []
        for link in Path("/proc").glob("[0-9]*/ns/net"):
            try:
                if os.readlink(link) == network and link.parts[2] != str(self._holder.pid):
                    found.append(int(link.parts[2]))
            except OSError:  # it has ended
                continue
        return found

    def _has_ended(self) -> bool:
        """Kill what runs and return whether nothing did; a process may start others while it is found."""
        running = self._pids()
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not running

    def _inside(self, *command: str) -> str:
        return _run("nsenter", f"--net={self._namespace}", *command)


class PatroniCluster:
    """Three members with synchronous replication and one etcd, as a context manager in a private namespace."""

    def __init__(self, folder: Path, *, ttl_s: int) -> None:
        """Start everything in `folder`. Patroni's leader key expires `ttl_s` seconds after the leader is lost."""
        shutil.chown(folder, USER)
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "bridge", "type", "bridge")
        for address in (HERE, ETCD):
            _run("ip", "addr", "add", f"{address}/24", "dev", "bridge")
        _run("ip", "link", "set", "bridge", "up")
        self.members: list[Member] = []
        self._log = (folder / "etcd.log").open("wb")
        self._etcd = subprocess.Popen(_etcd_command(folder), stdout=self._log, stderr=self._log, cwd="/")
        try:
            self.members += [Member(number, folder, ttl_s) for number in range(1, MEMBERS + 1)]
            for member in self.members:
                member.start()
            self.wait_until_healthy()
        except BaseException:
            self.stop()
            raise

    def create_database(self, name: str) -> None:
        """Create an empty database that the role of the same name owns."""
        self.leader().sql(f"CREATE ROLE {name} LOGIN")
        self.leader().sql(f"CREATE DATABASE {name} OWNER {name}")

    def url(self, name: str) -> str:
        """Return a connection string with all members."""
        hosts = ",".join(f"{member.address}:5432" for member in self.members)
        return f"postgresql://{name}@{hosts}/{name}?target_session_attrs=read-write"

    def leader(self) -> Member:
        """Return the member that a reachable member says is the leader."""
        found = [m for m in self.members if self._roles().get(m.name) == "leader"]
        if len(found) != 1:
            raise AssertionError(f"no leader: {self._roles()}")
        return found[0]

    def others(self, member: Member) -> list[Member]:
        return [each for each in self.members if each is not member]

    def wait_until_healthy(self) -> None:
        """Wait until there is a leader, and both others replicate from it, one of them synchronously."""
        eventually(self._is_healthy, "three healthy members", START_S, every_s=0.2)

    def stop(self) -> None:
        """End every process."""
        for member in self.members:
            member.end()
        self._etcd.kill()
        self._etcd.wait()
        self._log.close()

    def __enter__(self) -> PatroniCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _roles(self) -> dict[str, str]:
        return {str(each["name"]): str(each["role"]) for each in self._status()}

    def _status(self) -> list[dict[str, Any]]:
        """Return Patroni's own view of its members, from the first member that answers."""
        for member in self.members:
            try:
                with urllib.request.urlopen(f"http://{member.address}:8008/cluster", timeout=1) as answer:
                    found: list[dict[str, Any]] = json.load(answer)["members"]
                    return found
            except (OSError, ValueError):
                continue
        return []

    def _is_healthy(self) -> bool:
        status = self._status()
        roles = sorted(each["role"] for each in status if each["state"] in ("running", "streaming"))
        if roles != ["leader", "replica", "sync_standby"]:
            return False
        try:
            standbys = self.leader().sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
        except (AssertionError, subprocess.SubprocessError):
            return False
        return int(standbys) == MEMBERS - 1


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _etcd_command(folder: Path) -> list[str]:
    client, peer = f"http://{ETCD}:2379", f"http://{ETCD}:2380"
    return [
        *("etcd", "--name", "etcd", "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"etcd={peer}"),
    ]


def _settings(member: Member, folder: Path, ttl_s: int) -> dict[str, Any]:
    """Return Patroni's configuration of a member: synchronous replication that a lost standby does not switch off."""
    trusted = ["local all all trust", "host all all 10.77.0.0/24 trust", "host replication all 10.77.0.0/24 trust"]
    dcs = {
        "ttl": ttl_s,
        "loop_wait": 1,
        "retry_timeout": (ttl_s - 1) // 2,
        "synchronous_mode": True,
        "synchronous_mode_strict": True,
        "postgresql": {
            "use_pg_rewind": True,
            "parameters": {"max_connections": 100, "hot_standby_feedback": "on", "shared_buffers": "32MB"},
        },
    }
    return {
        "scope": "herodotus",
        "name": member.name,
        "restapi": {"listen": f"{member.address}:8008", "connect_address": f"{member.address}:8008"},
        "etcd3": {"host": f"{ETCD}:2379"},
        "bootstrap": {
            "dcs": dcs,
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
        },
        "postgresql": {
            "listen": f"{member.address}:5432",
            "connect_address": f"{member.address}:5432",
            "data_dir": str(folder / member.name),
            "bin_dir": str(postgresql.BINARIES[-1].parent),
            "pgpass": str(folder / f"{member.name}.pgpass"),
            "pg_hba": trusted,
            "authentication": {"superuser": {"username": USER}, "replication": {"username": "replicator"}},
            "parameters": {"unix_socket_directories": str(folder / f"{member.name}.sockets")},
        },
    }
