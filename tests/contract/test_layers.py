"""Imports point downwards (DESIGN's whole table of rooms), checked on the source text of every module."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    "herodotus_record",
    "herodotus_serving",
    "scheduler",
    "herodotus_endpoint",
    "herodotus_cli",
    "herodotus_agents",
    "herodotus_sim",
)

# What a room (or the deepest listed part of one) may import of the other rooms. The longest matching prefix counts.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "herodotus_record": (),
    "herodotus_serving": (),
    "herodotus_cli": ("herodotus_record",),
    "herodotus_endpoint": ("herodotus_record", "herodotus_serving"),
    "herodotus_agents": (
        "herodotus_record.version",
        "scheduler.formulas",
        "scheduler.extenders.wire",
        "scheduler.objects.quantity",
    ),
    "herodotus_sim": (),
    "scheduler": ("herodotus_record", "herodotus_serving"),
}

# Inside the scheduler: what a part may import of its siblings. Parts that are not listed (app, loop, ...) may use all.
SCHEDULER_MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "scheduler.formulas": (),
    "scheduler.objects": (),
    "scheduler.columns": ("objects",),
    "scheduler.framework": ("objects", "columns", "formulas", "klog"),
    "scheduler.plugins": ("objects", "columns", "framework", "formulas", "prometheus", "klog"),
    "scheduler.prometheus": ("klog",),
    "scheduler.config": ("objects", "framework", "plugins"),
    "scheduler.queue": ("objects", "framework"),
    "scheduler.kube": ("objects", "klog"),
    "scheduler.extenders": ("objects", "framework", "formulas", "config"),
    "scheduler.extenders.wire": (),
    "scheduler.recorder": ("objects", "columns", "framework", "formulas", "cycle", "klog"),
    "scheduler.serving": ("kube", "klog"),
    "scheduler.logged": ("recorder", "klog"),
    "scheduler.cache": ("objects", "columns"),
    "scheduler.cycle": ("objects", "columns", "framework"),
}

# One door for each outside thing.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "httpx": (
        "scheduler.kube.http",
        "scheduler.recorder.shipper",
        "scheduler.recorder.connection",
        "scheduler.reviews.desk",
        "scheduler.extenders.transport",
        "scheduler.prometheus",
        "herodotus_cli.transport.http",
        "herodotus_endpoint.access.apiserver",
        "herodotus_agents.prometheus",
    ),
    "kubernetes": ("scheduler.kube.credentials", "herodotus_endpoint.access.apiserver", "herodotus_agents.kube"),
    "sqlalchemy": ("herodotus_endpoint.store",),
    "sqlite3": ("herodotus_endpoint.store",),
    "alembic": ("herodotus_endpoint.store",),
    "pyarrow": ("herodotus_endpoint.exchange.parquet",),
    "cryptography": ("herodotus_serving.self_signed", "herodotus_endpoint.access"),
    "prometheus_client": (
        "scheduler.metrics",
        "scheduler.observe.metrics",
        "scheduler.vitals",
        "scheduler.serving.routes",
        "herodotus_endpoint",
    ),
    "flask": ("herodotus_endpoint", "herodotus_agents"),
    "gunicorn": ("herodotus_endpoint", "herodotus_agents.server"),
    "click": ("herodotus_cli",),
    "rich": ("herodotus_cli.render",),
    "zstandard": ("herodotus_record.codec", "herodotus_endpoint.store"),
    "msgspec": ("herodotus_record.codec", "scheduler", "herodotus_endpoint", "herodotus_agents"),
    "numpy": ("herodotus_record.codec", "scheduler", "herodotus_endpoint", "herodotus_agents"),
}


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(p): p for room in ROOMS for p in sorted((ROOT / room).rglob("*.py"))}


def imports(module: str) -> set[str]:
    """Every module that `module` names in an import, absolute, wherever it stands in the file."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - (node.level - 1)]
                base = ".".join([*anchor, base]).rstrip(".")
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in node.names}
    return found


def inside(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def rule(module: str, table: dict[str, tuple[str, ...]]) -> str | None:
    matching = [prefix for prefix in table if inside(module, prefix)]
    return max(matching, key=len, default=None)


@pytest.mark.parametrize("module", MODULES)
def test_rooms_import_downwards(module: str) -> None:
    room = module.split(".")[0]
    allowed = MAY_IMPORT[rule(module, MAY_IMPORT) or room]
    wrong = {
        i
        for i in imports(module)
        if i.split(".")[0] in ROOMS and i.split(".")[0] != room and not any(inside(i, a) for a in allowed)
    }
    assert not wrong, f"{module} imports {sorted(wrong)}; {room} may import {allowed}"


@pytest.mark.parametrize("module", [m for m in MODULES if rule(m, SCHEDULER_MAY_IMPORT)])
def test_scheduler_parts_import_downwards(module: str) -> None:
    own = rule(module, SCHEDULER_MAY_IMPORT)
    assert own is not None
    allowed = (own, *(f"scheduler.{part}" for part in SCHEDULER_MAY_IMPORT[own]))
    wrong = {i for i in imports(module) if inside(i, "scheduler") and not any(inside(i, a) for a in allowed)}
    assert not wrong, f"{module} imports {sorted(wrong)}; {own} may import {allowed}"


@pytest.mark.parametrize("library", ONLY_IN)
def test_one_door_for_each_outside_thing(library: str) -> None:
    doors = ONLY_IN[library]
    wrong = {
        m for m in MODULES if any(inside(i, library) for i in imports(m)) and not any(inside(m, door) for door in doors)
    }
    assert not wrong, f"{library} is imported in {sorted(wrong)}; its doors are {doors}"


def test_no_test_folder_shadows_a_room() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
