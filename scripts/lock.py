"""`python -m scripts.lock`: writes packages/lock.txt, the one lock from which every installation takes its packages.

Owns: which installations there are, and what each of them asks for. Does not own: resolving (uv), printing what one
installation takes (packages/locked.sh). Invariant: all installations but `s3` have the versions of `dev`, which the
tests use; `s3` is installed in an environment of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "packages" / "lock.txt"
_OLDEST_PLUGIN: Final = ("--python-version", "3.10")  # requires-python of the two projects
_OLDEST: Final = ("--python-version", "3.11")
_PLUGIN: Final = ("pyproject.toml",)
_SERVERS: Final = (*_OLDEST, "pyproject.toml", "packages/servers/pyproject.toml")


def _image(name: str) -> tuple[str, ...]:
    """Return uv's arguments for the image `name`: the servers', with the lists of packages that the image excludes."""
    return (*_SERVERS, *(f"--excludes=packages/images/{list_name}.txt" for list_name in ("common", name)))


# What `uv pip compile` is asked for each installation; `dev` first, since the others take its versions.
INSTALLATIONS: Final = {
    "dev": (*_SERVERS, "--all-extras", "--group", "dev"),
    "s3": (*_OLDEST, "--group", "s3"),
    "build": (*_OLDEST_PLUGIN, "--group", "build"),
    "kubectl": (*_OLDEST_PLUGIN, "--group", "kubectl"),
    "plugin": (*_OLDEST_PLUGIN, *_PLUGIN),
    "mcp": (*_OLDEST, *_PLUGIN, "--extra", "mcp"),
    "top": (*_OLDEST, *_PLUGIN, "--extra", "top"),
    "tune": (*_OLDEST, *_PLUGIN, "--extra", "tune"),
    "servers": _SERVERS,
    "scheduler": _image("scheduler"),
    "agents": _image("agents"),
    "endpoint": _image("endpoint"),
    "otlp": (*_image("endpoint"), "--extra", "otlp"),
    "archive": (*_image("endpoint"), "--extra", "otlp", "--extra", "archive"),
}
_OPTIONS: Final = (
    *("--quiet", "--universal", "--generate-hashes", "--no-strip-extras", "--no-header", "--no-annotate"),
    *("--find-links=dist", "--no-emit-package=kubectl-herodotus", "--no-emit-package=kubectl-herodotus-servers"),
)
_HEAD: Final = """\
# Every package that an installation of Herodotus takes, by version and hash; `make lock` writes this file.
# "for:" names the installations that take the package below it. `packages/locked.sh NAME...` prints what they take.
# No line names an index: that is the installer's setting.
"""


def resolve(installation: str, folder: Path, options: list[str]) -> list[str]:
    """Return the lock entries of one installation; each is the text of a requirement with its hashes.

    `installation` is a key of INSTALLATIONS, `folder` receives the output of uv, and `options` are further options of
    `uv pip compile`. Versions in the present lock are preferred. Raises CalledProcessError.
    """
    file = folder / f"{installation}.txt"
    present = subprocess.run([ROOT / "packages/locked.sh", installation], capture_output=True, text=True, check=False)
    file.write_text(present.stdout)
    together = [] if installation in ("dev", "s3") else ["--constraints", str(folder / "dev.txt")]
    command = ["uv", "pip", "compile", *_OPTIONS, *options, *together, *INSTALLATIONS[installation], "-o", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    text = re.sub(r"^ *#.*\n", "", file.read_text(), flags=re.MULTILINE)  # what was excluded
    return [entry.rstrip() for entry in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]]


def format_lock(entries: dict[str, list[str]]) -> str:
    """Return the lock's text: each distinct entry once, below a comment that names its installations.

    `entries` maps each installation to its entries.
    """
    users: dict[str, list[str]] = defaultdict(list)
    for installation, needed in entries.items():
        for entry in needed:
            users[entry].append(installation)
    return _HEAD + "".join(f"# for: {' '.join(sorted(users[entry]))}\n{entry}\n" for entry in sorted(users))


def main() -> None:
    """Write the lock. The arguments are options of `uv pip compile`, such as --upgrade."""
    with tempfile.TemporaryDirectory() as folder:
        entries = {name: resolve(name, Path(folder), sys.argv[1:]) for name in INSTALLATIONS}
    LOCK.write_text(format_lock(entries))


if __name__ == "__main__":
    main()
