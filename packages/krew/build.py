"""Builds krew's archive of the plugin and its manifest: `python packages/krew/build.py OUTPUT WHEEL...`.

Owns: the contents of the archive, and that equal wheels give equal bytes. Does not own: the list of wheels
(what the plugin takes from packages/lock.txt; the Makefile downloads them), and the start of the program
(kubectl-herodotus).

The archive holds a folder instead of a zipapp, because Python then caches bytecode and starts in two thirds of the
time. It contains no platform-specific code: PyYAML's C extension, the only one, is left out, and PyYAML works without
it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAME = "herodotus"  # of the archive and its manifest, as krew knows the plugin
DISTRIBUTION = "kubectl_herodotus"  # as wheels spell it
COMMANDS = {"kubectl-herodotus": "herodotus_cli.main", "kubectl_complete-herodotus": "herodotus_cli.completion"}
COMPILED = {".so", ".pyd"}
EPOCH = 1577836800  # 2020-01-01, a fixed date for reproducible archives


def main(arguments: Sequence[str]) -> None:
    """Write the archive and the manifest into a directory."""
    output, wheels = Path(arguments[0]), [Path(a) for a in arguments[1:]]
    version = next(w.name.split("-")[1] for w in wheels if w.name.startswith(f"{DISTRIBUTION}-"))
    content = archive({**programs(), **libraries(wheels)})
    name = f"{NAME}-{version}-linux-amd64.tar.gz"
    output.mkdir(parents=True, exist_ok=True)
    (output / name).write_bytes(content)
    filled = {"version": version, "archive": name, "sha256": hashlib.sha256(content).hexdigest()}
    manifest = (HERE / "herodotus.yaml").read_text("utf-8")
    (output / "herodotus.yaml").write_text(manifest.partition("\n")[2].format(**filled), "utf-8")
    print(output / name, output / "herodotus.yaml", sep="\n")


def programs() -> dict[str, tuple[bytes, int]]:
    """Return contents and modes by path of the programs and the licence."""
    start = (HERE / "kubectl-herodotus").read_text("utf-8")
    modules = {name: start.replace(COMMANDS["kubectl-herodotus"], module) for name, module in COMMANDS.items()}
    licence = {"LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644)}
    return licence | {name: (text.encode(), 0o755) for name, text in modules.items()}


def libraries(wheels: Sequence[Path]) -> dict[str, tuple[bytes, int]]:
    """Return contents and modes by path of the wheels' files, as installed."""
    return {f"lib/{name}": (content, 0o644) for wheel in wheels for name, content in _unpacked(wheel)}


def _unpacked(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as content:
        for name in content.namelist():
            path = PurePosixPath(name)
            if path.parts[0].endswith(".data"):
                raise SystemExit(f"error: {wheel.name} has files for elsewhere than the library: {name}")
            if not name.endswith("/") and path.suffix not in COMPILED:
                yield name, content.read(name)


def archive(files: dict[str, tuple[bytes, int]]) -> bytes:
    """Return a reproducible tar.gz without owners and times."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", mtime=0, fileobj=packed) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for path, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), mode, EPOCH
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
