"""How this copy of Herodotus was installed, and whether the package `scheduler` beside it is Herodotus' own.

Owns: the distributions' names, the command that adds an extra, the check of `scheduler`. Does not own: which modules an
extra has. Imports no other package of the project, and installs nothing.

Invariant: a command that is returned names no distribution but the two of this project.
"""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

PLUGIN, SERVERS = "kubectl-herodotus", "kubectl-herodotus-servers"
DISTRIBUTIONS = {
    "local": PLUGIN,
    "mcp": PLUGIN,
    "top": PLUGIN,
    "tune": PLUGIN,
    "archive": SERVERS,
    "otlp": SERVERS,
    "parquet": SERVERS,
}  # by extra

IMAGE_MARK = "herodotus-image"  # packages/images/install.sh creates this file in the environment of an image
_IMAGES = {"archive": "archive", "otlp": "otlp", "parquet": "archive"}  # by extra: the name in packages/lock.txt
_INSTALLED = "installed"  # install.sh writes this file beside its environment
_ENGINE = "scheduler"
_ENGINE_MARK = f'DISTRIBUTION = "{SERVERS}"'  # a line of scheduler/__init__.py


class ForeignSchedulerError(ImportError):
    """The error for a package `scheduler` that is not Herodotus' own. The message is one line and names both."""


def describe_extra_installation(extra: str) -> str:
    """Return the command that adds an extra to this installation, or a sentence if no command can.

    The command fits the way in which the running code was installed: from a clone, by install.sh, pipx, `uv tool` or
    pip, from krew's archive, or in an image.
    """
    environment, packages = Path(sys.prefix), _packages()
    requirement = f"'{DISTRIBUTIONS[extra]}[{extra}]'"
    if is_archive():
        return f"pipx install {requirement} (the archive of krew and Homebrew lacks it: uninstall that first)"
    if (packages / "install.sh").is_file():
        return f"{shlex.quote(str(packages / 'install.sh'))} --with {extra}"
    if (environment / IMAGE_MARK).is_file():
        return _describe_image(extra)
    if installer := find_installer(environment.parent):
        return f"{installer} --with {extra}"
    if (environment / "pipx_metadata.json").is_file():
        return f"pipx runpip {shlex.quote(environment.name)} install {requirement}"
    if (environment / "uv-receipt.toml").is_file():
        return f"uv tool install {environment.name} --with {requirement}"
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:  # uv creates such environments
        return f"uv pip install --python {python} {requirement}"
    return f"{python} -m pip install {requirement}"


def is_archive() -> bool:
    """Return whether this process is an executable built by PyInstaller, as in krew's archive.

    `sys.executable` is then that program and no Python.
    """
    return getattr(sys, "frozen", False)  # set by PyInstaller (packages/krew)


def _packages() -> Path:
    """Return the directory that contains this package: site-packages, or the root of a clone."""
    return Path(__file__).absolute().parents[1]


def _describe_image(extra: str) -> str:
    image = _IMAGES.get(extra)
    if image is None:
        return f"images hold the servers alone; on your machine: ./install.sh --with {extra}"
    return f"build the image with it: scripts/build-images.sh --build-arg INSTALLATION={image}"


def find_installer(folder: Path) -> str | None:
    """Return the command line of install.sh with which a folder's installation was made, or None if there is none."""
    try:
        listed = (folder / _INSTALLED).read_text("utf-8")
    except OSError:
        return None
    lines = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
    words = [lines.get("script", "./install.sh"), *(["--prefix", lines["prefix"]] if lines.get("prefix") else [])]
    return shlex.join(words)


def require_own_scheduler() -> None:
    """Raise ForeignSchedulerError unless `import scheduler` finds Herodotus' own package, or none at all.

    An unrelated distribution on PyPI has a package of this name. It comes first if its directory is earlier on the
    path, and it overwrites our files if it is installed into the same environment. Nothing of it is executed here.
    """
    try:
        spec = find_spec(_ENGINE)
        if spec is None:
            return
        places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    except ValueError:  # a module without a spec was put into sys.modules
        places = []
    origin = places[0] if places else "an unknown place"
    if places and Path(origin).is_file() and _ENGINE_MARK.encode() in Path(origin).read_bytes():
        return
    raise ForeignSchedulerError(
        f"the package `{_ENGINE}` at {origin} is another project's, and not that of {SERVERS}: install Herodotus into"
        " an environment of its own (install.sh, pipx or uv tool), and keep the other one out of PYTHONPATH and the"
        " working directory",
        name=_ENGINE,
    )
