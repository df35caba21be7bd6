"""PostgreSQL's connection strings: libpq's URIs and its keyword form, with one or several hosts.

Owns: parsing, and the parameters of a connection. Does not own: connections (`postgresql`), replicas (`replicas`).

Invariant: no message contains a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from herodotus_endpoint.store.database import BUSY_TIMEOUT_S, StoreError

NEXT_HOST_TIMEOUT_S: Final = 2.0  # per host if there are several; libpq's shortest
_NETWORK: Final = {  # a server that a partition cuts off is noticed within 11 s, instead of the kernel's 15 minutes
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "8000",  # milliseconds
}


class ConnectionString:
    """The parameters of connections to a PostgreSQL server, or to several servers of which one is the primary."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = dict(parameters)

    @classmethod
    def parse(cls, text: str) -> ConnectionString:
        """Parse `postgresql://USER@HOST:PORT,HOST:PORT/DATABASE?NAME=VALUE` or `host=HOST,HOST dbname=DATABASE …`.

        Raises StoreError if the text is neither.
        """
        try:
            settings = conninfo_to_dict(text.replace("postgresql+psycopg:", "postgresql:", 1))
        except ProgrammingError as e:  # its message may quote any part of the text
            raise StoreError("the database URL is not one of PostgreSQL: postgresql://USER@HOST/DATABASE") from e
        parameters = {name: str(value) for name, value in settings.items() if value is not None}
        ports = parameters.get("port", "").split(",")
        if not all(port == "" or port.isdecimal() for port in ports) or "@" in parameters.get("host", ""):
            raise StoreError("the database URL has no valid host and port: write / : @ in a password as %2F %3A %40")
        made = cls(parameters)
        if len(ports) not in (1, made._host_count()):
            raise StoreError(f"the database URL names {made._host_count()} hosts and {len(ports)} ports")
        return made

    @property
    def name(self) -> str:
        """The URI with the hosts and the database, for messages; a password is masked."""
        user = self._parameters.get("user", "") + (":***" if "password" in self._parameters else "")
        hosts = ",".join(
            each._parameters.get("host", "") + (f":{each._parameters['port']}" if each._parameters.get("port") else "")
            for each in self.split_hosts()
        )
        return f"postgresql://{user}{'@' if user else ''}{hosts}/{self._parameters.get('dbname', '')}"

    def split_hosts(self) -> list[ConnectionString]:
        """Return a connection string for each host."""
        count = self._host_count()
        addresses = []
        for i in range(count):
            parameters = dict(self._parameters)
            for key in ("host", "hostaddr", "port"):
                values = parameters.get(key, "").split(",")
                if value := values[i] if len(values) == count else values[0]:
                    parameters[key] = value
                else:
                    parameters.pop(key, None)
            addresses.append(ConnectionString(parameters))
        return addresses

    def connection_parameters(self, role: str, options: str) -> dict[str, str]:
        """Return the keyword arguments of a connection to the server with a role.

        `role` is a value of libpq's target_session_attrs and replaces that of the string. `options` are further
        command-line options of the session, which come after those of the string.
        """
        timeout_s = BUSY_TIMEOUT_S if self._host_count() == 1 else NEXT_HOST_TIMEOUT_S
        defaults = {"connect_timeout": str(int(timeout_s)), **_NETWORK}
        both = f"{self._parameters.get('options', '')} {options}".strip()
        return defaults | self._parameters | {"target_session_attrs": role, "options": both}

    def _host_count(self) -> int:
        return max(len(self._parameters.get(key, "").split(",")) for key in ("host", "hostaddr"))
