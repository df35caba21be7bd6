"""The options that commands share, and the values they become.

Owns: names, help texts and parsing of shared options; where an option of the group and one of the command meet. Does
not own: what a command does with them.

Invariant: a connection option means the same before and after the command's name; the later one wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click

from herodotus_cli import live
from herodotus_cli.connection import REQUEST_TIMEOUT_S, SERVICE, Connection, Service

Command = TypeVar("Command", bound=Callable[..., Any])

_LAST_PORT = 65_535
_PORT_DIGITS = 6  # enough to see that a number is too large
# What can be part of a path and might be meant: with capitals and _, which no pod has, the service names similar pods.
_NAME = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9._:-]{1,253}")

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")


class Output(NamedTuple):
    """How to print the answer. `format`: empty (a screen), wide, json, yaml or name."""

    format: str
    headers: bool
    color: str  # auto, always, never
    watch: bool = False
    utc: bool = False


class Duration(click.ParamType[float]):
    """A number of seconds, written `30s`, `5m`, `24h`, `7d`, `1h30m` or as a plain number."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a usage error for anything else."""
        text = str(value)
        if text.replace(".", "", 1).isdigit():
            return float(text)
        if not re.fullmatch(rf"(?:{_DURATION.pattern})+", text):
            self.fail(f"{text!r} is not a duration: write 30s, 5m, 24h or 7d", param, ctx)
        return sum(int(number) * _UNITS_S[unit] for number, unit in _DURATION.findall(text))


class WholeNumber(click.IntRange):
    """A whole number in a range, with an error that says which."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; a usage error for anything else."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            upper = "" if self.max is None else f" to {self.max}"
            self.fail(f"{value!r} is not a whole number from {self.min}{upper}", param, ctx)


class Since(Duration):
    """A duration that is longer than nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a usage error for 0 too."""
        seconds = super().convert(value, param, ctx)
        if not seconds:
            self.fail(f"{value!r} is no time at all: write 1h, 24h or 7d", param, ctx)
        return seconds


class Endpoint(click.ParamType[str]):
    """The base URL of the decisions service, http or https."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The URL without a slash at its end; a usage error for anything else."""
        if value and not _is_url(str(value)):
            self.fail(f"{value!r} is not a URL: write http://HOST:PORT or https://HOST:PORT", param, ctx)
        return str(value).rstrip("/")


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        port = url.port  # ValueError beyond 65535
    except ValueError:
        return False
    return (
        url.scheme in ("http", "https") and bool(url.hostname) and port != 0 and text.isprintable() and " " not in text
    )


class ServiceName(click.ParamType[Service]):
    """`NAMESPACE/NAME:PORT`, with `http:` before the name where the Service speaks no TLS."""

    name = "service"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Service:
        """The parts; a usage error for anything else."""
        if isinstance(value, Service):
            return value
        match = re.fullmatch(r"([a-z0-9.-]+)/(?:(https?):)?([a-z0-9.-]+):([a-z0-9-]+)", str(value))
        if not match or not all(map(is_name, match.group(1, 3))):
            self.fail(f"{value!r} is not NAMESPACE/NAME:PORT", param, ctx)
        if match[4].isdecimal() and not 0 < int(match[4][:_PORT_DIGITS]) <= _LAST_PORT:
            self.fail(f"{value!r}: {match[4]} is not a port", param, ctx)
        return Service(match[1], match[2] or "https", match[3], match[4])


_CONNECTION = (
    click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
    click.option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="Kubeconfig to use instead of $KUBECONFIG or ~/.kube/config.",
    ),
    click.option("--as", "as_user", metavar="USER", help="Impersonate this user, as kubectl does."),
    click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="With --as: and this group."),
    click.option(
        "--endpoint",
        type=Endpoint(),
        metavar="URL",
        help="Ask the decisions service at this URL, not through the API server [$HERODOTUS_ENDPOINT].",
    ),
    click.option(
        "--service",
        type=ServiceName(),
        metavar="NS/NAME:PORT",
        help="Service to reach through the API server, as NS/http:NAME:PORT without TLS"
        " [$HERODOTUS_SERVICE; herodotus/herodotus-endpoint:8000].",
    ),
    click.option(
        "--request-timeout", type=Duration(), metavar="DURATION", help="Give up after this long; 0: never [30s]."
    ),
)
_NAMESPACE = click.option(
    "-n", "--namespace", metavar="NAME", shell_complete=live.namespaces, help="Namespace of the pod [the context's]."
)
_IGNORED_NAMESPACE = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=live.namespaces,
    help="Ignored, as by kubectl get nodes: the answer is about the whole cluster.",
)
_ALL_NAMESPACES = click.option("-A", "--all-namespaces", is_flag=True, help="Every namespace.")
SINCE = click.option("--since", type=Since(), default="24h", metavar="DURATION", help="How far back [24h].")
_SELECTOR = click.option(
    "-l",
    "--selector",
    default="",
    metavar="QUERY",
    help="Only pods with these labels: key=value, key!=value, key, !key, key in (a,b).",
)
_OUTPUT = (
    click.option(
        "-o",
        "--output",
        "format_",
        type=click.Choice(["wide", "json", "yaml", "name"]),
        default=None,
        help="wide: more columns; json, yaml: the answer as a document; name: KIND/NAME.",
    ),
    click.option("--utc", is_flag=True, help="Times in UTC instead of ages."),
    click.option("--no-headers", is_flag=True, help="Leave out the header rows of tables."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set [auto].",
    ),
)
_CONNECTION_NAMES = ("context", "kubeconfig", "endpoint", "service", "request_timeout", "as_user", "as_groups")


def connection_options(command: Command) -> Command:
    """Adds the options that say whom to ask."""
    return _add(command, _CONNECTION)


def namespace_option(command: Command) -> Command:
    """Adds -n; only to commands about things that live in a namespace."""
    return _add(command, (_NAMESPACE,))


def namespaces_options(command: Command) -> Command:
    """Adds -n and -A; to commands about many things that live in namespaces."""
    return _add(command, (_NAMESPACE, _ALL_NAMESPACES))


def ignored_namespace_option(command: Command) -> Command:
    """Add a -n without effect, to commands about what is in no namespace."""
    return _add(command, (_IGNORED_NAMESPACE,))


def selector_option(command: Command) -> Command:
    """Adds -l; to commands about many pods."""
    return _add(command, (_SELECTOR,))


def output_options(command: Command) -> Command:
    """Adds the options that say how to print."""
    return _add(command, _OUTPUT)


def connection(ctx: click.Context, environ: Mapping[str, str]) -> Connection:
    """The connection of a command: its own options, then the group's, then the environment, then the defaults."""
    chosen: dict[str, Any] = {
        "endpoint": _from(environ, "HERODOTUS_ENDPOINT", Endpoint(), ""),
        "service": _from(environ, "HERODOTUS_SERVICE", ServiceName(), SERVICE),
        "request_timeout": REQUEST_TIMEOUT_S,
    }
    own = {name: ctx.params[name] for name in _CONNECTION_NAMES if ctx.params.get(name) not in (None, ())}
    chosen |= {name: value for name, value in _before(ctx).items() if value != ()} | own
    if chosen.get("as_groups") and not chosen.get("as_user"):
        raise click.UsageError("--as-group needs --as")
    if chosen.get("as_user") and chosen["endpoint"]:
        raise click.UsageError("--as needs the API server: leave out --endpoint")
    return Connection(
        context=chosen.get("context", ""),
        kubeconfig=chosen.get("kubeconfig", ""),
        endpoint=chosen["endpoint"],
        service=chosen["service"],
        request_timeout_s=chosen["request_timeout"],
        as_user=chosen.get("as_user", ""),
        as_groups=chosen.get("as_groups", ()),
    )


def _before(ctx: click.Context) -> dict[str, Any]:
    """The options before the command's name."""
    return {name: value for name, value in (ctx.parent.params if ctx.parent else {}).items() if value is not None}


def _from(environ: Mapping[str, str], name: str, type_: click.ParamType[Any], default: object) -> Any:
    """A variable of the environment as an option's value; what is wrong with it names the variable."""
    try:
        return type_.convert(environ.get(name) or default, None, None)
    except click.BadParameter as e:
        raise click.UsageError(f"{name}: {e.message}") from None


def namespace(ctx: click.Context) -> str:
    """The namespace given before or after the command; empty where none was."""
    name = str(ctx.params.get("namespace") or _before(ctx).get("namespace") or "")
    return _checked("namespace", name) if name else ""


def watch_option(command: Command) -> Command:
    """Adds -w; to commands whose answer changes as decisions come."""
    return _add(command, (click.option("-w", "--watch", is_flag=True, help="Print anew whenever decisions come."),))


def every_namespace(ctx: click.Context) -> bool:
    """Whether -A was given; a usage error where a namespace was given beside it."""
    if ctx.params["all_namespaces"] and ctx.params["namespace"]:
        raise click.UsageError("-A and -n exclude each other")
    return bool(ctx.params["all_namespaces"])


def output(ctx: click.Context) -> Output:
    """How a command is to print."""
    format_, headers = ctx.params["format_"] or "", not ctx.params["no_headers"]
    return Output(format_, headers, ctx.params["color"], watch=ctx.params.get("watch", False), utc=ctx.params["utc"])


def name_of(kind: str, given: str) -> str:
    """`NAME` or `kind/NAME` -> NAME; a usage error for another kind."""
    prefix, slash, name = given.rpartition("/")
    if ".." in given:
        return _checked(kind, given)
    if slash and prefix not in (kind, f"{kind}s", {"pod": "po", "node": "no"}.get(kind)):
        raise click.UsageError(f"{given!r} is not a {kind}: write NAME or {kind}/NAME")
    if not name:
        raise click.UsageError(f"{given!r} names no {kind}")
    return _checked(kind, name)


WORKLOADS = {
    "deployment": ("deployment", "deployments", "deploy"),
    "statefulset": ("statefulset", "statefulsets", "sts"),
    "replicaset": ("replicaset", "replicasets", "rs"),
    "daemonset": ("daemonset", "daemonsets", "ds"),
    "job": ("job", "jobs"),
    "cronjob": ("cronjob", "cronjobs", "cj"),
    "replicationcontroller": ("replicationcontroller", "replicationcontrollers", "rc"),
}


def workload_of(given: str) -> tuple[str, str]:
    """`deploy/NAME`, `deployment.apps/NAME`, … -> (kind, NAME); a usage error for anything else."""
    prefix, slash, name = given.partition("/")
    kind = next((kind for kind, names in WORKLOADS.items() if prefix.lower().partition(".")[0] in names), "")
    if not slash or not name or not kind:
        raise click.UsageError(f"{given[:60]!r} is not a workload: write KIND/NAME, such as deploy/web or sts/payments")
    return kind, _checked(kind, name)


def is_name(text: str) -> bool:
    """Whether something in Kubernetes may be called that."""
    return bool(_NAME.fullmatch(text))


def _checked(kind: str, name: str) -> str:
    if not is_name(name):
        raise click.UsageError(f"{kind} {name[:60]!r}{'…' * (len(name) > 60)} is not a valid name")
    return name


def _add(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
