"""The `extenders` field of a scheduler configuration: its types and its validation."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.engine.objects import times
from scheduler.engine.objects.names import validate_label_key
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.objects.requests import is_extended


class ExtenderConfigStruct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Base class of the types in `extenders`. Decoding rejects unknown keys, and encoding omits default values."""


class ManagedResource(ExtenderConfigStruct, frozen=True):
    """A resource that an extender manages.

    An extender with managed resources receives only pods that request one of them.
    """

    name: str
    ignored_by_scheduler: bool = False


class TlsConfig(ExtenderConfigStruct, frozen=True):
    """The TLS settings of the connection to an extender: trusted authorities and the client certificate."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderConfig(ExtenderConfigStruct, frozen=True):
    """The configuration of one HTTP extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: TlsConfig | None = None
    http_timeout: str = msgspec.field(name="httpTimeout", default="5s")
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


def find_extender_problems(extenders: tuple[ExtenderConfig, ...]) -> Iterator[Problem]:
    """Yield each validation error of the `extenders` field, worded as in kube-scheduler."""
    binders, managed = 0, set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        binders += bool(extender.bind_verb)
        try:
            times.parse_seconds(extender.http_timeout)
        except ValueError as e:
            yield invalid(f"{path}.httpTimeout", extender.http_timeout, str(e))
        for j, resource in enumerate(extender.managed_resources):
            name = f"{path}.managedResources[{j}].name"
            yield from _name_problems(name, resource.name)
            if resource.name in managed:
                yield invalid(name, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    if binders > 1:
        yield invalid(
            "extenders", f"found {binders} extenders implementing bind", "only one extender can implement bind"
        )


def _name_problems(path: str, name: str) -> Iterator[Problem]:
    wrong = validate_label_key(name)
    yield from (invalid(path, name, each) for each in wrong)
    # quotas count the resource under `requests.NAME`, which must be a name too
    if not wrong and (not is_extended(name) or validate_label_key(f"requests.{name}")):
        yield invalid(path, name, "is an invalid extended resource name")
