"""A directory of wheels without a network: the project's own, built, and its dependencies, packed again from here."""

import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.processes import ROOT

_NOT_IN_WHEELS = {"INSTALLER", "REQUESTED", "direct_url.json"}


def wheels(directory: Path) -> Path:
    """What `pip wheel --wheel-dir DIRECTORY .` would leave."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (own,) = directory.glob("herodotus-*.whl")
    with zipfile.ZipFile(own) as wheel:
        (metadata,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        needs = HeaderParser().parsestr(wheel.read(metadata).decode()).get_all("Requires-Dist", [])
    done: set[str] = set()
    while needs:
        requirement = Requirement(needs.pop())
        name = requirement.name.lower()
        if name in done or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        done.add(name)
        found = distribution(name)
        pack(found, directory)
        needs += found.requires or []
    return directory


def pack(installed: Distribution, directory: Path) -> None:
    """An installed distribution as the wheel that it came from, without its scripts."""
    tags = HeaderParser().parsestr(installed.read_text("WHEEL") or "").get_all("Tag", [])
    pythons, abis, platforms = (".".join(dict.fromkeys(t.split("-")[i] for t in tags)) for i in range(3))
    name = installed.metadata["Name"].replace("-", "_").replace(".", "_")
    path = directory / f"{name}-{installed.version}-{pythons}-{abis}-{platforms}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file in installed.files or ():
            if ".." in file.parts or file.name in _NOT_IN_WHEELS or file.suffix == ".pyc" or file.name == "RECORD":
                continue
            wheel.write(str(file.locate()), str(file))
        (info,) = {f.parts[0] for f in installed.files or () if f.parts[0].endswith(".dist-info")}
        wheel.writestr(f"{info}/RECORD", "".join(f"{n},,\n" for n in [*wheel.namelist(), f"{info}/RECORD"]))
