"""Packages import only what the table allows, and every package is in the table."""

import ast
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTED = (
    "herodotus_record",
    "herodotus_kube",
    "herodotus_serving",
    "scheduler",
    "herodotus_endpoint",
    "herodotus_cli",
    "herodotus_client",
    "herodotus_agents",
    "herodotus_local",
    "herodotus_sim",
)
RECORD = ("herodotus_record.*",)
ENGINE_BASE = (
    "scheduler.engine.objects",
    "scheduler.engine.columns",
    "scheduler.engine.formulas",
    "scheduler.engine.rules",
)
DEVICES = ("scheduler.engine.dra", "scheduler.engine.cel.*")
FRAMEWORK = (*ENGINE_BASE, "scheduler.engine.framework")
ENGINE = (
    *FRAMEWORK,
    "scheduler.engine.plugins.*",
    "scheduler.engine",
    "scheduler.engine.records",
    "scheduler.engine.suggestions",
)
STATE = ("scheduler.backend", "scheduler.backend.queue", "scheduler.kube")
SERVICE_BASE = (
    "herodotus_endpoint.errors",
    "herodotus_endpoint.store.*",
    "herodotus_endpoint.settings",
    "herodotus_endpoint.parameters",
    "herodotus_endpoint.metrics",
    "herodotus_endpoint.reader_limits",
    "herodotus_endpoint.resources",
    "herodotus_endpoint.routing",
)

# What each package, or single module, may import of the project's other packages. The longest matching name counts. A
# name that ends with .* stands for the package with all packages below it, any other for the modules of that package.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "herodotus_record": ("herodotus_record.codec",),
    "herodotus_record.codec": ("herodotus_record", "herodotus_record.lru"),
    "herodotus_record.escaping": (),
    "herodotus_record.installation": (),
    "herodotus_record.lru": (),
    "herodotus_record.trace_ids": (),
    "herodotus_serving": ("herodotus_record.escaping",),
    "herodotus_serving.programs": (  # starts each server's command line, after a check
        "herodotus_record.escaping",
        "herodotus_record.installation",
        "herodotus_agents.*",
        "herodotus_endpoint",
        "herodotus_sim.*",
        "scheduler.commands",
    ),
    "herodotus_kube": (),
    # the engine: no thread, client or clock
    "scheduler.klog": ("herodotus_record.escaping", "herodotus_record.trace_ids"),
    "scheduler.engine.objects": (),
    "scheduler.engine.formulas": (),
    "scheduler.engine.cel": ("herodotus_record.lru", "scheduler.engine.cel.library", "scheduler.engine.objects"),
    "scheduler.engine.rules": ("herodotus_record", "scheduler.engine.objects"),
    "scheduler.engine.cel.library": ("scheduler.engine.cel", "scheduler.engine.objects"),
    "scheduler.engine.columns": ("herodotus_record.lru", "scheduler.engine.objects"),
    "scheduler.engine.framework": (*RECORD, *ENGINE_BASE, "scheduler.klog"),
    "scheduler.engine.dra": ("scheduler.engine.objects",),
    "scheduler.engine.plugins.*": (*RECORD, *FRAMEWORK, *DEVICES, "scheduler.klog"),
    "scheduler.engine": (*RECORD, *FRAMEWORK),
    "scheduler.engine.suggestions": (*RECORD, *FRAMEWORK, "scheduler.engine"),
    "scheduler.engine.records": (*RECORD, *FRAMEWORK, "scheduler.engine"),
    "scheduler.engine.manifests": (*RECORD, *FRAMEWORK),
    "scheduler.engine.whatif": (
        *RECORD,
        *ENGINE,
        *DEVICES,
        "scheduler.engine.manifests",
        "scheduler.engine.nodegroups",
        "scheduler.engine.plugins.*",
    ),
    "scheduler.engine.nodegroups": (
        *RECORD,
        *ENGINE,
        "scheduler.engine.manifests",
        "scheduler.engine.whatif",
    ),
    # what live and offline programs both need
    "scheduler.config": ("herodotus_record", *FRAMEWORK, "scheduler.engine.plugins.*"),
    "scheduler.prometheus": ("scheduler.engine.framework", "scheduler.klog"),
    "scheduler.kube": ("herodotus_kube", "scheduler.engine.objects", "scheduler.klog"),
    "scheduler.extenders": (*RECORD, *FRAMEWORK, "scheduler.config", "scheduler.extenders.wire"),
    "scheduler.extenders.wire": (),
    "scheduler.serving": ("herodotus_serving", "scheduler.kube", "scheduler.klog"),
    "scheduler.backend": (*RECORD, *FRAMEWORK, "scheduler.backend.queue", "scheduler.kube", "scheduler.klog"),
    "scheduler.backend.queue": (*RECORD, *FRAMEWORK),
    "scheduler.recorder": (*RECORD, "scheduler.engine.columns", "scheduler.engine.records", "scheduler.klog"),
    "scheduler.reviews": (
        *RECORD,
        *ENGINE,
        "scheduler.engine.manifests",
        "scheduler.engine.nodegroups",
        "scheduler.engine.whatif",
        "scheduler.backend",
        "scheduler.kube",
        "scheduler.recorder",
        "scheduler.klog",
    ),
    # programs: live and offline never import each other
    "scheduler.live": (*RECORD, *ENGINE, *STATE, "scheduler.recorder", "scheduler.prometheus", "scheduler.klog"),
    "scheduler.offline": (
        *RECORD,
        *ENGINE,
        "scheduler.engine.manifests",
        "scheduler.engine.whatif",
        "scheduler.config",
        "scheduler.offline.evaluate",
    ),
    "scheduler.offline.evaluate": (
        *RECORD,
        *ENGINE,
        "scheduler.engine.manifests",
        "scheduler.config",
        "scheduler.offline.snapshots",
        "scheduler.prometheus",
    ),
    "scheduler.offline.snapshots": (
        *RECORD,
        *ENGINE,
        "scheduler.engine.manifests",
        "scheduler.engine.nodegroups",
        "scheduler.engine.whatif",
        "scheduler.kube",
    ),
    "scheduler.offline.observe": (*RECORD, *ENGINE, *STATE, "scheduler.config", "scheduler.recorder", "scheduler.klog"),
    "scheduler.offline.read_log": (*RECORD, "scheduler.recorder", "scheduler.klog"),
    "scheduler.commands": ("herodotus_record.*", "herodotus_kube", "herodotus_serving", "scheduler.*"),
    "scheduler": ("scheduler.commands",),
    # the decisions service
    "herodotus_endpoint.store.*": RECORD,
    "herodotus_endpoint.errors": ("herodotus_record", "herodotus_endpoint.archive", "herodotus_endpoint.store.*"),
    "herodotus_endpoint.exchange.parquet": (
        *RECORD,
        "herodotus_endpoint.exchange.atomic_files",
        "herodotus_endpoint.store.*",
    ),
    "herodotus_endpoint.exchange.atomic_files": (),
    "herodotus_endpoint.extras": ("herodotus_record.installation",),
    "herodotus_endpoint.fair_queue": (),
    "herodotus_endpoint.archive": (
        *RECORD,
        "herodotus_endpoint.exchange.parquet",
        "herodotus_endpoint.fair_queue",
        "herodotus_endpoint.store.*",
    ),
    "herodotus_endpoint.parameters": ("herodotus_endpoint.errors",),
    "herodotus_endpoint.resources": ("herodotus_record",),
    "herodotus_endpoint.routing": ("herodotus_endpoint.parameters", "herodotus_endpoint.resources"),
    "herodotus_endpoint.openapi": (*RECORD, *SERVICE_BASE, "herodotus_endpoint.api"),
    "herodotus_endpoint.metrics": ("herodotus_endpoint.store.*",),
    "herodotus_endpoint.reader_limits": (
        "herodotus_endpoint.errors",
        "herodotus_endpoint.fair_queue",
        "herodotus_endpoint.store.*",
        "herodotus_serving",
    ),
    "herodotus_endpoint.access": (*RECORD, *SERVICE_BASE, "herodotus_kube", "herodotus_serving"),
    "herodotus_endpoint.tracing": (*RECORD, "herodotus_endpoint.metrics", "herodotus_endpoint.store.*"),
    "herodotus_endpoint.settings": (
        "herodotus_endpoint.archive",
        "herodotus_endpoint.tracing",
        "herodotus_endpoint.access",
        "herodotus_endpoint.store.*",
    ),
    "herodotus_endpoint.api": (
        *RECORD,
        *SERVICE_BASE,
        "herodotus_endpoint.access",
        "herodotus_endpoint.archive",
        "herodotus_endpoint.tracing",
        "herodotus_serving",
    ),
    "herodotus_endpoint.kubeapi": (
        *RECORD,
        *SERVICE_BASE,
        "herodotus_endpoint.access",
        "herodotus_endpoint.api",
        "herodotus_endpoint.archive",
        "herodotus_endpoint.openapi",
        "herodotus_serving",
    ),
    "herodotus_endpoint.pages": ("herodotus_endpoint.resources", "herodotus_endpoint.routing"),
    "herodotus_endpoint.exchange": (
        *RECORD,
        "herodotus_endpoint.exchange.atomic_files",
        "herodotus_endpoint.exchange.parquet",
        "herodotus_endpoint.store.*",
        "herodotus_endpoint.api",
        "herodotus_endpoint.extras",
        "herodotus_endpoint.options",
    ),
    "herodotus_endpoint.options": ("herodotus_record", "herodotus_serving", "herodotus_endpoint.*"),
    "herodotus_endpoint": (*RECORD, "herodotus_kube", "herodotus_serving", "herodotus_endpoint.*"),
    # the plugin works without the servers' packages
    "herodotus_cli": (*RECORD, "herodotus_cli.*"),
    "herodotus_cli.render": RECORD,
    "herodotus_cli.transport": (*RECORD, "herodotus_cli", "herodotus_cli.transport.local"),
    "herodotus_cli.transport.local": (*RECORD, "herodotus_cli", "herodotus_cli.transport", "herodotus_local"),
    "herodotus_cli.commands": (
        *RECORD,
        "herodotus_cli",
        "herodotus_cli.render",
        "herodotus_cli.transport",
        "herodotus_cli.assistant",
    ),
    "herodotus_client": (*RECORD, "herodotus_cli.transport"),
    "herodotus_cli.assistant": (*RECORD, "herodotus_cli", "herodotus_cli.commands"),
    "herodotus_agents.*": (
        *RECORD,
        "herodotus_kube",
        "herodotus_serving",
        "herodotus_serving.programs",
        *FRAMEWORK,
        "scheduler.engine.plugins.*",
        "scheduler.extenders.wire",
        "scheduler.prometheus",
    ),
    "herodotus_local": (
        *RECORD,
        *ENGINE,
        "herodotus_endpoint",
        "herodotus_endpoint.settings",
        "herodotus_endpoint.store.*",
        "scheduler.config",
        "scheduler.engine.manifests",
        "scheduler.engine.nodegroups",
        "scheduler.engine.whatif",
        "scheduler.offline.evaluate",
        "scheduler.offline.observe",
    ),
    "herodotus_sim.*": ("herodotus_record.lru",),
}

# The only modules that may import an external library.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "httpx": (
        "scheduler.kube.http",
        "scheduler.recorder.shipper",
        "scheduler.recorder.connection",
        "scheduler.reviews.review_client",
        "scheduler.extenders.transport",
        "scheduler.prometheus",
        "herodotus_cli.transport.http",
        "herodotus_client.client",
        "herodotus_kube.client",
    ),
    "kubernetes": ("herodotus_kube.credentials",),
    "sqlalchemy": ("herodotus_endpoint.store",),
    "sqlite3": ("herodotus_endpoint.store",),
    "alembic": ("herodotus_endpoint.store",),
    "pyarrow": ("herodotus_endpoint.exchange.parquet", "herodotus_endpoint.archive"),
    "duckdb": ("herodotus_endpoint.archive.reader",),
    "cryptography": ("herodotus_serving.self_signed", "herodotus_endpoint.access"),
    "prometheus_client": (
        "scheduler.live.metrics",
        "scheduler.live.node_series",
        "scheduler.kube.request_metrics",
        "scheduler.offline.observe.metrics",
        "scheduler.commands.health_checks",
        "scheduler.serving.routes",
        "herodotus_endpoint",
    ),
    "opentelemetry": ("herodotus_endpoint.tracing.spans", "herodotus_endpoint.tracing.exporter"),
    "flask": ("herodotus_endpoint", "herodotus_agents"),
    "gunicorn": ("herodotus_serving.workers",),
    "h11": ("herodotus_serving.connection", "herodotus_serving.parsing"),
    "click": ("herodotus_cli",),
    "mcp": ("herodotus_cli.assistant.server",),
    "rich": ("herodotus_cli.render",),
    "zstandard": ("herodotus_record.codec", "herodotus_endpoint.store"),
    "msgspec": (
        "herodotus_record.codec",
        "herodotus_record.cluster_reviews",
        "herodotus_record.node_groups",
        "herodotus_kube",
        "scheduler",
        "herodotus_endpoint",
        "herodotus_agents",
        "herodotus_local",
    ),
    "re2": ("scheduler.engine.cel.library.regex",),
    "numpy": ("herodotus_record.codec", "scheduler", "herodotus_endpoint", "herodotus_agents"),
}


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(p): p for folder in DISTRIBUTED for p in sorted((ROOT / folder).rglob("*.py"))}
PACKAGES = sorted(name for name, path in MODULES.items() if path.name == "__init__.py")


@cache
def imports(module: str, *, at_import_time: bool = False) -> frozenset[str]:
    """Return every module that an import statement of `module` names, wherever the statement is.

    `at_import_time`: only those that are executed when the module is imported.
    """
    tree = ast.parse(MODULES[module].read_text())
    found: set[str] = set()
    for node in tree.body if at_import_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno} imports relatively"
            base = node.module or ""
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in node.names}
    return frozenset(found)


def is_inside(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def layer(module: str) -> str | None:
    """Return the entry of the table that a module belongs to; a package without an entry has none."""
    package = module if module in PACKAGES else module.rpartition(".")[0]
    exact = [name for name in (module, package) if name in MAY_IMPORT]
    covering = [name for name in MAY_IMPORT if name.endswith(".*") and is_inside(package, name[:-2])]
    return exact[0] if exact else max(covering, key=len, default=None)


def is_allowed(entry: str, module: str) -> bool:
    """Return whether modules of a layer may import a module of the project."""
    target = layer(module)
    return target == entry or any(
        is_inside(module, allowed[:-2]) if allowed.endswith(".*") else target == allowed
        for allowed in MAY_IMPORT[entry]
    )


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


def unlisted_packages() -> list[str]:
    """Return the packages that no entry of the table covers."""
    return [package for package in PACKAGES if layer(package) is None]


def test_every_package_is_in_the_table() -> None:
    assert unlisted_packages() == []


def test_every_top_level_package_is_checked() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == {*DISTRIBUTED, "bench"}


@pytest.mark.parametrize(
    "package", ["scheduler.new", "scheduler.engine.new", "herodotus_endpoint.new", "herodotus_new"]
)
def test_an_unlisted_package_is_found(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGES", [*PACKAGES, package])
    assert unlisted_packages() == [package]


def test_a_package_whose_entry_was_removed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(MAY_IMPORT, "scheduler.reviews")
    assert unlisted_packages() == ["scheduler.reviews"]


@pytest.mark.parametrize("module", MODULES)
def test_imports_are_allowed_by_the_table(module: str) -> None:
    entry = layer(module)
    assert entry is not None
    wrong = {i for i in imports(module) if i.split(".")[0] in DISTRIBUTED and not is_allowed(entry, i)}
    assert not wrong, f"{module} imports {sorted(wrong)}; {entry} may import {MAY_IMPORT[entry]}"


def test_imports_have_no_cycle() -> None:
    graph = {m: {i for i in imports(m, at_import_time=True) if i in MODULES and i != m} for m in MODULES}
    assert find_cycle(graph) == []


def test_the_scheduler_folder_has_few_entries() -> None:
    entries = [p.name for p in (ROOT / "scheduler").iterdir() if p.name != "__pycache__"]
    assert len(entries) <= 16, sorted(entries)


@pytest.mark.parametrize("library", ONLY_IN)
def test_external_libraries_are_imported_only_where_allowed(library: str) -> None:
    allowed = ONLY_IN[library]
    wrong = {
        m
        for m in MODULES
        if any(is_inside(i, library) for i in imports(m)) and not any(is_inside(m, a) for a in allowed)
    }
    assert not wrong, f"{library} is imported in {sorted(wrong)}; it may be imported in {allowed}"


def test_no_folder_of_tests_shadows_a_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
