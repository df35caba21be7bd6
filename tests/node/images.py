"""Images without a registry: a base of Debian's packages, and the project's Dockerfile carried out on it.

The base and the layers of the build are kept between runs in a cache directory (HERODOTUS_NODE_CACHE).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from herodotus_record.version import __version__
from tests.processes import ROOT

CACHE: Final = Path(os.environ.get("HERODOTUS_NODE_CACHE", "/var/cache/herodotus-node"))
BASE: Final = "localhost/herodotus-base:1"
PAUSE: Final = "registry.k8s.io/pause:3.10"
TARGETS: Final = ("scheduler", "endpoint", "agents")
PACKAGES: Final = "python3,python3-venv,python-is-python3,ca-certificates"
WAIT_FOR_SIGTERM: Final = "import signal; signal.sigwait({signal.SIGTERM, signal.SIGINT})"
BUILD_S: Final = 1500.0


def image_name(target: str, tag: str = __version__) -> str:
    """Return the name by which the manifests refer to an image."""
    return f"ghcr.io/herodotus-scheduler/herodotus-{target}:{tag}"


def build_archives() -> Iterator[Path]:
    """Build every image that is not in the cache, and yield an archive of each, to be imported."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{CACHE}/storage"\nrunroot = "{CACHE}/run"\n'
    )
    if not _is_built(BASE):
        _build_base()
    yield _archive(PAUSE, "pause")
    _write_pip_configuration()
    for target in TARGETS:
        name = image_name(target)
        mounts = ["--volume", f"{CACHE}/pip.conf:/etc/pip.conf:ro", "--volume", f"{_wheels()}:/locked-wheels:ro"]
        options = ["--layers", "--build-arg", f"BASE={BASE}", "--target", target, *mounts]
        _buildah("bud", "--isolation", "chroot", *options, "--tag", name, str(ROOT))
        yield _archive(name, target)


def _build_base() -> None:
    """Build an image with Debian's Python, and one that waits until it is stopped, which stands for the pause image."""
    context = CACHE / "base"
    context.mkdir(exist_ok=True)
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert release is not None
    packages = ["--variant=minbase", f"--include={PACKAGES}", "--dpkgopt=force-unsafe-io"]
    _run("mmdebstrap", "--mode=root", *packages, release[1], str(context / "base.tar"))
    (context / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
    _buildah("bud", "--isolation", "chroot", "--tag", BASE, str(context))
    (context / "base.tar").unlink()
    wait = f'ENTRYPOINT ["/usr/bin/python3", "-c", "{WAIT_FOR_SIGTERM}"]'
    (context / "Dockerfile").write_text(f"FROM {BASE}\n{wait}\n")
    _buildah("bud", "--isolation", "chroot", "--tag", PAUSE, str(context))


def _wheels() -> Path:
    """Return the folder of the locked wheels, which the project's environment was installed from."""
    return Path(sys.prefix) / "wheels"


def _write_pip_configuration() -> None:
    """Let pip in the build take only the locked wheels, so that the build needs no network."""
    (CACHE / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /locked-wheels\n")


def _archive(name: str, file: str) -> Path:
    """Return an archive of a built image; write it only if the image has changed since the last one."""
    archive = CACHE / f"{file}-{_buildah('images', '--quiet', name).strip()}.tar"
    if not archive.exists():
        for earlier in CACHE.glob(f"{file}-*.tar*"):
            earlier.unlink()
        new = archive.with_suffix(".tar.new")
        _buildah("push", "--quiet", name, f"docker-archive:{new}:{name}")
        new.rename(archive)
    return archive


def _is_built(name: str) -> bool:
    command = ["buildah", "inspect", "--type", "image", name]
    return subprocess.run(command, env=_environment(), capture_output=True, check=False).returncode == 0


def _buildah(*arguments: str) -> str:
    return _run("buildah", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "CONTAINERS_STORAGE_CONF": str(CACHE / "storage.conf")}
