"""The values of the shared options of one command line, read from click's context.

Owns: where an option of the group and one of the command meet, variables of the environment, defaults. Does not own:
names and help texts of options (`options`).

Invariant: a connection option means the same before and after the command's name; the later one wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from herodotus_cli.connection import DEFAULT_SERVICE, REQUEST_TIMEOUT_S, ConnectionSettings
from herodotus_cli.object_names import require_valid_name
from herodotus_cli.parameter_types import Endpoint, ServiceName


class OutputOptions(NamedTuple):
    """The options that say how to print an answer.

    `format` is a value of `output_formats`, such as `json`, or "" for the default screen. `utc` shows times instead of
    ages.
    """

    format: str
    headers: bool
    color: str  # auto, always, never
    watch: bool = False
    utc: bool = False


CONNECTION_NAMES = (
    "context",
    "kubeconfig",
    "endpoint",
    "service",
    "cluster",
    "request_timeout",
    "as_user",
    "as_groups",
    "local",
    "scheduler_config",
    "kubernetes_version",
)


def connection_settings(ctx: click.Context, environ: Mapping[str, str]) -> ConnectionSettings:
    """Return the connection settings of a command.

    Options after the command's name win over those before it, then environment variables count, then defaults.
    """
    chosen: dict[str, Any] = {
        "endpoint": _parse_variable(environ, "HERODOTUS_ENDPOINT", Endpoint(), ""),
        "service": _parse_variable(environ, "HERODOTUS_SERVICE", ServiceName(), DEFAULT_SERVICE),
        "request_timeout": REQUEST_TIMEOUT_S,
    }
    own = {name: ctx.params[name] for name in CONNECTION_NAMES if _is_given(ctx.params.get(name))}
    chosen |= {name: value for name, value in _group_values(ctx).items() if _is_given(value)} | own
    if chosen.get("as_groups") and not chosen.get("as_user"):
        raise click.UsageError("--as-group needs --as")
    if chosen.get("as_user") and chosen["endpoint"]:
        raise click.UsageError("--as needs the API server: leave out --endpoint")
    if chosen.get("local") and "endpoint" in own:
        raise click.UsageError("--local and --endpoint exclude each other")
    evaluates = any(chosen.get(name) for name in ("local", "scheduler_config", "kubernetes_version"))
    if chosen.get("cluster") and evaluates:
        raise click.UsageError(
            "--cluster needs a decisions service: leave out --local, --config and --kubernetes-version"
        )
    return ConnectionSettings(
        context=chosen.get("context", ""),
        kubeconfig=chosen.get("kubeconfig", ""),
        endpoint=chosen["endpoint"],
        service=chosen["service"],
        request_timeout_s=chosen["request_timeout"],
        as_user=chosen.get("as_user", ""),
        as_groups=chosen.get("as_groups", ()),
        local=evaluates,
        scheduler_config=chosen.get("scheduler_config", ""),
        kubernetes_version=chosen.get("kubernetes_version", ""),
        cluster=chosen.get("cluster", ""),
    )


def connection_words(settings: ConnectionSettings) -> list[str]:
    """Return the command-line options from which `connection_settings` makes the same settings again."""
    values = {
        "context": settings.context,
        "kubeconfig": settings.kubeconfig,
        "as": settings.as_user,
        "endpoint": "" if settings.local else settings.endpoint,
        "config": settings.scheduler_config,
        "kubernetes-version": settings.kubernetes_version,
        "cluster": settings.cluster,
    }
    service = settings.service
    return [
        *(f"--{name}={value}" for name, value in values.items() if value),
        *(f"--as-group={group}" for group in settings.as_groups),
        f"--service={service.namespace}/{service.scheme}:{service.name}:{service.port}",
        f"--request-timeout={settings.request_timeout_s:f}",
        *(["--local"] if settings.local else []),
    ]


def _group_values(ctx: click.Context) -> dict[str, Any]:
    """Return the options that were given before the command's name, by parameter name."""
    return {name: value for name, value in (ctx.parent.params if ctx.parent else {}).items() if value is not None}


def group_words(ctx: click.Context, name: str) -> tuple[str, ...]:
    """Return the value of an option before the command's name, for a command with a repeatable option of that name."""
    value = _group_values(ctx).get(name)
    return (str(value),) if value else ()


def _is_given(value: object) -> bool:
    """Return whether click parsed a value for an option; a time limit of 0 is one."""
    return value is not None and value is not False and value != ()


def _parse_variable(environ: Mapping[str, str], name: str, type_: click.ParamType[Any], default: object) -> Any:
    """Return an environment variable, or `default` if it is not set, converted by the parameter type.

    Raises UsageError, which names the variable, if its value is invalid.
    """
    try:
        return type_.convert(environ.get(name) or default, None, None)
    except click.BadParameter as e:
        raise click.UsageError(f"{name}: {e.message}") from None


def namespace(ctx: click.Context) -> str:
    """Return the namespace that was given before or after the command's name, or "" if none was."""
    name = str(ctx.params.get("namespace") or _group_values(ctx).get("namespace") or "")
    return require_valid_name("namespace", name) if name else ""


def all_namespaces(ctx: click.Context) -> bool:
    """Return whether -A was given. Raises UsageError if -n was given too."""
    if ctx.params["all_namespaces"] and ctx.params["namespace"]:
        raise click.UsageError("-A and -n exclude each other")
    return bool(ctx.params["all_namespaces"])


def output_options(ctx: click.Context) -> OutputOptions:
    """Return the output options that were given to a command."""
    format_, headers = ctx.params["format_"] or "", not ctx.params["no_headers"]
    return OutputOptions(
        format_, headers, ctx.params["color"], watch=ctx.params.get("watch", False), utc=ctx.params["utc"]
    )
