"""Builds krew's archive of the plugin, its manifest, and a formula for Homebrew: `build.py OUTPUT [FOLDER]`.

FOLDER is what PyInstaller made from herodotus.spec, with the interpreter of the machine that runs this: it becomes the
archive of this machine's platform. Manifest and formula then name every archive of this version in OUTPUT, so that a
release builds each archive on its platform, and collects them in one directory before it writes both.

Owns: the contents of the archive, and that equal folders give equal bytes. Does not own: which modules the folder has
(herodotus.spec).

Invariant: the archive has only what krew extracts: regular files, without links.
"""

from __future__ import annotations

import gzip
import hashlib
import platform
import re
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
NAME: Final = "herodotus"  # of the archive and its manifest, as krew knows the plugin
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}  # as krew calls what `uname -m` prints
BREWS: Final = {"amd64": "on_intel", "arm64": "on_arm"}
DOWNLOADS: Final = "https://github.com/herodotus-scheduler/herodotus/releases/download"
_COMPRESSION: Final = 6  # of gzip: 9 takes five times as long for an archive that is 1% smaller
EPOCH: Final = 1577836800  # 2020-01-01, a fixed date for reproducible archives


def main(arguments: Sequence[str]) -> None:
    """Pack the folder, if one is given, and write manifest and formula into a directory."""
    output, folders = Path(arguments[0]), [Path(a) for a in arguments[1:]]
    output.mkdir(parents=True, exist_ok=True)
    version = read_version()
    for folder in folders:
        packed = output / f"{NAME}-{version}-linux-{ARCHITECTURES[platform.machine()]}.tar.gz"
        pack(folder, packed)
        print(packed)
    sums = {
        architecture: (path.name, hashlib.sha256(path.read_bytes()).hexdigest())
        for architecture in sorted(ARCHITECTURES.values())
        if (path := output / f"{NAME}-{version}-linux-{architecture}.tar.gz").exists()
    }
    (output / f"{NAME}.yaml").write_text(render_manifest(version, sums), "utf-8")
    (output / f"kubectl-{NAME}.rb").write_text(render_formula(version, sums), "utf-8")
    print(output / f"{NAME}.yaml", output / f"kubectl-{NAME}.rb", sep="\n")


def read_version() -> str:
    """Return the version of this tree, which the archive is built from."""
    match = re.search(
        r'^__version__ = "(.*)"$', (ROOT / "herodotus_record/version.py").read_text("utf-8"), re.MULTILINE
    )
    if match is None:
        raise SystemExit("error: herodotus_record/version.py has no version")
    return match[1]


def pack(folder: Path, archive: Path) -> None:
    """Write a reproducible tar.gz without owners, times and links.

    PyInstaller links libraries beside the interpreter to their places in packages. Those packages find them without the
    links, which krew does not extract.
    """
    files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}
    files["LICENSE"] = ROOT / "LICENSE"
    with (
        archive.open("wb") as output,
        gzip.GzipFile("", "wb", _COMPRESSION, output, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = path.stat().st_size, EPOCH
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)


def render_manifest(version: str, sums: dict[str, tuple[str, str]]) -> str:
    """Return krew's manifest with a platform for each architecture of `sums`: name and hash of its archive."""
    manifest: dict[str, Any] = yaml.safe_load((HERE / "herodotus.yaml").read_text("utf-8"))
    manifest["spec"]["version"] = f"v{version}"
    (common,) = manifest["spec"]["platforms"]
    manifest["spec"]["platforms"] = [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
            "uri": f"{DOWNLOADS}/v{version}/{name}",
            "sha256": digest,
            **common,
        }
        for architecture, (name, digest) in sums.items()
    ]
    return yaml.safe_dump(manifest, sort_keys=False)


def render_formula(version: str, sums: dict[str, tuple[str, str]]) -> str:
    """Return Homebrew's formula with the archive of each architecture of `sums`."""
    blocks = [
        f'    {BREWS[architecture]} do\n      url "{DOWNLOADS}/v{version}/{name}"\n      sha256 "{digest}"\n    end\n'
        for architecture, (name, digest) in sums.items()
    ]
    text = (HERE / "kubectl-herodotus.rb").read_text("utf-8")
    return text.replace("{version}", version).replace("    {archives}\n", "".join(blocks))


if __name__ == "__main__":
    main(sys.argv[1:])
