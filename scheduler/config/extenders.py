"""`extenders:` of a configuration: their fields and what kube-scheduler refuses. `scheduler.extenders` asks them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.objects import durations
from scheduler.objects.names import wrong_with_key
from scheduler.objects.problems import Problem, invalid
from scheduler.objects.requests import is_extended


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Base of all: unknown keys are errors; written without what is not set."""


class ManagedResource(Struct, frozen=True):
    """A resource that makes a pod the extender's business."""

    name: str
    ignored_by_scheduler: bool = False


class TlsConfig(Struct, frozen=True):
    """How to trust the extender, and to be trusted by it."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class Extender(Struct, frozen=True):
    """One HTTP extender."""

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


def extender_problems(extenders: tuple[Extender, ...]) -> Iterator[Problem]:
    """What kube-scheduler refuses, in its words."""
    binders, managed = 0, set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        binders += bool(extender.bind_verb)
        try:
            durations.seconds(extender.http_timeout)
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
    wrong = wrong_with_key(name)
    yield from (invalid(path, name, each) for each in wrong)
    # quotas count the resource under `requests.NAME`, which must be a name too
    if not wrong and (not is_extended(name) or wrong_with_key(f"requests.{name}")):
        yield invalid(path, name, "is an invalid extended resource name")
