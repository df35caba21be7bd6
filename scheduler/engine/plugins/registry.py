"""The registry that resolves the plugin names of a configuration to plugin classes.

    in-tree            NodeName                       `IN_TREE`
    given in code      with_plugin(name, factory)     a custom command: `app.main(plugins=…)`
    installed          an entry point of the group `herodotus.plugins`, by its name
    importable         module:Class                   anything on the import path

Invariant: a plugin is imported only when a configuration names it, so that a broken package does no harm until then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.plugins import IN_TREE

GROUP: Final = "herodotus.plugins"
_REFERENCE: Final = re.compile(r"[\w.]+\s*:\s*[\w.]+")

Factory = type[BasePlugin]
NamedPlugin = tuple[str, Factory]


class PluginLoadError(Exception):
    """An error for a plugin that a configuration names but that cannot be loaded; the message says why."""


def with_plugin(name: str, factory: Factory) -> NamedPlugin:
    """Return the pair of a plugin's name and class, to pass to `Registry` or `commands.main`.

    Raise PluginLoadError if the class is not a plugin class or has another name.
    """
    return name, _check_plugin(name, factory, f'with_plugin("{name}", …)')


class Registry(Mapping[str, Factory]):
    """A mapping from the names of plugins to plugin classes.

    Reading a plugin from outside the tree may import it and raise PluginLoadError.
    """

    def __init__(self, plugins: Iterable[NamedPlugin] = ()) -> None:
        """Add plugins that `with_plugin` returned to the in-tree ones; raise PluginLoadError for a duplicate name."""
        self._known: dict[str, Factory] = dict(IN_TREE)
        for name, factory in plugins:
            self._add(name, factory)
        self._installed = {e.name: e for e in entry_points(group=GROUP) if e.name not in self._known}

    def __getitem__(self, name: str) -> Factory:
        if name not in self._known:
            if ":" in name:
                factory = _import_plugin(EntryPoint(name, name, GROUP))
                self._add(factory.name, factory)
                self._known[name] = factory
            else:
                entry = self._installed[name]
                origin = f"the entry point {entry.name} = {entry.value}"
                self._known[name] = _check_plugin(name, _import_plugin(entry), origin)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._installed or (isinstance(name, str) and ":" in name)

    def __iter__(self) -> Iterator[str]:
        yield from self._known
        yield from (name for name in self._installed if name not in self._known)

    def __len__(self) -> int:
        return len(self._known.keys() | self._installed.keys())

    def _add(self, name: str, factory: Factory) -> None:
        if self._known.setdefault(name, factory) is not factory:
            raise PluginLoadError(f"a plugin named {name} already exists")


def _import_plugin(entry: EntryPoint) -> Factory:
    if not _REFERENCE.fullmatch(entry.value):
        raise PluginLoadError(f"plugin {entry.value}: expected module:Class")
    try:
        factory: Any = entry.load()
    except Exception as e:  # a foreign module may raise anything when it is imported
        raise PluginLoadError(f"plugin {entry.value} cannot be loaded: {type(e).__name__}: {e}") from e
    return _check_plugin(None, factory, f"plugin {entry.value}")


def _check_plugin(name: str | None, factory: Any, origin: str) -> Factory:
    """Return `factory` if it is a plugin class named `name` (None allows any); raise PluginLoadError otherwise.

    `origin` says in the error where the plugin was named.
    """
    if not isinstance(factory, type) or not issubclass(factory, BasePlugin):
        raise PluginLoadError(f"{origin}: {factory!r} is no class derived from BasePlugin or PerNodePlugin")
    own = getattr(factory, "name", None)
    if not isinstance(own, str) or not own:
        raise PluginLoadError(f"{origin}: the class has no `name`")
    if name is not None and own != name:
        raise PluginLoadError(f"{origin}: the plugin calls itself {own}")
    return factory
