"""A real PostgreSQL for tests and benchmarks: a cluster in a temporary directory on a free port, deleted afterwards.

The server's binaries come from the system's packages. As it refuses to run as root, root runs it as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.processes import free_port

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
MISSING = "PostgreSQL's server is not installed (Debian: apt-get install postgresql)"


class Server:
    """A server as a context manager. `durable` turns fsync on, as in production.

    With `primary` it is a hot standby, which replicates from that server asynchronously.
    """

    def __init__(self, *, durable: bool = False, primary: Server | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="herodotus-postgresql-"))
        self._user = _user()
        self._databases = 0
        self._port = free_port()
        if self._user:
            shutil.chown(self._folder, self._user)
        if primary:
            of = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "test", "-c", "fast", "-R"]
            made = [str(_binary("pg_basebackup")), "-D", str(self._folder / "data"), *of]
        else:
            made = [str(_binary("initdb")), "-D", str(self._folder / "data"), "-U", "test", "-A", "trust", "-E", "UTF8"]
            made += ["--locale=C", "-N"]
        subprocess.run(made, check=True, capture_output=True, user=self._user, cwd="/")
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on" if durable else "off",
            "max_wal_size": "1GB",
        }
        options = [f"-c{name}={value}" for name, value in settings.items()]
        command = [str(_binary("postgres")), "-D", str(self._folder / "data"), "-p", str(self._port), *options]
        self._log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, user=self._user, cwd="/")
        self._wait()

    def database(self) -> str:
        """Create an empty database and return its URL."""
        self._databases += 1
        name = f"db{self._databases}"
        self._sql(f"CREATE DATABASE {name}")
        return f"postgresql://test@127.0.0.1:{self._port}/{name}"

    @property
    def port(self) -> int:
        return self._port

    def promote(self) -> None:
        """Make a standby the primary."""
        self._sql("SELECT pg_promote()")

    def pids(self) -> list[int]:
        """Return the ids of the server's processes; those of a standby that apply changes are among them."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    @property
    def pid(self) -> int:
        """Return the process id of the server, whose backends are its children."""
        return self._process.pid

    def stop(self) -> None:
        """Stop the server and delete everything."""
        self._process.send_signal(signal.SIGINT)  # fast: clients are not waited for
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                self._sql("SELECT 1")
                return
            except subprocess.CalledProcessError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self._folder / "log").read_text(errors="replace")[-2000:]) from None
                time.sleep(0.1)

    def _sql(self, statement: str) -> None:
        address = ["-h", "127.0.0.1", "-p", str(self._port), "-U", "test", "-d", "postgres"]
        subprocess.run([str(_binary("psql")), *address, "-qc", statement], check=True, capture_output=True)


def _binary(name: str) -> Path:
    return BINARIES[-1].with_name(name)


def _user() -> str | None:
    """Return the user to run as, or None for the current one."""
    if os.geteuid():
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
