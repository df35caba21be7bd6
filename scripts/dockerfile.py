"""A Dockerfile as values, as far as ours goes.

Owns: lines, stages, arguments filled in. Does not own: carrying anything out (`check_images`). Invariant: an
instruction that it does not know is an error, so nothing in the file is passed over.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

STEPS: Final = {"RUN", "COPY", "WORKDIR"}  # what is carried out, in order


@dataclass(frozen=True)
class Step:
    """`environment`: what RUN sees. `words`: its command, or COPY's sources and target; `source`: their stage."""

    instruction: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    workdir: str
    source: str = ""


@dataclass
class Stage:
    """What a stage is made of, and how what it leaves is started."""

    name: str
    base: str
    workdir: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


def stages(text: str, arguments: Mapping[str, str]) -> dict[str, Stage]:
    """Every stage by its name, in the file's order. `arguments`: of the build (ARG). ValueError with the line."""
    found: dict[str, Stage] = {}
    everywhere: dict[str, str] = {}
    inside: dict[str, str] = {}
    for instruction, rest in _lines(text):
        if instruction == "ARG" and not found:
            name, _, default = rest.partition("=")
            everywhere[name] = arguments.get(name, default)
        elif instruction == "FROM":
            base, _, name = _filled(rest, everywhere).split()
            before = found.get(base)
            inside = {}
            found[name] = Stage(name, base)
            if before:
                stage = found[name]
                stage.workdir, stage.user = before.workdir, before.user
                stage.environment, stage.labels = dict(before.environment), dict(before.labels)
        elif instruction == "ARG":
            inside[rest] = arguments.get(rest, everywhere.get(rest, ""))
        else:
            _apply(list(found.values())[-1], instruction, rest, inside)
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    whole = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, whole.splitlines())):
        instruction, _, rest = line.partition(" ")
        yield instruction, rest.strip()


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda m: values[m[1]], text)


def _apply(stage: Stage, instruction: str, rest: str, inside: Mapping[str, str]) -> None:
    """One instruction in its stage."""
    if instruction in ("ENV", "LABEL"):
        pairs = dict(word.split("=", 1) for word in shlex.split(_filled(rest, inside)))
        (stage.environment if instruction == "ENV" else stage.labels).update(pairs)
    elif instruction == "USER":
        stage.user = rest
    elif instruction == "ENTRYPOINT":
        stage.entrypoint, stage.command = tuple(json.loads(rest)), ()
    elif instruction == "CMD":
        stage.command = tuple(json.loads(rest))
    elif instruction in STEPS:
        if instruction == "WORKDIR":
            stage.workdir = rest
        words = (rest,) if instruction == "RUN" else tuple(rest.split())
        source = words[0].removeprefix("--from=") if words[0].startswith("--from=") else ""
        environment = {**inside, **stage.environment}
        stage.steps.append(Step(instruction, words[bool(source) :], environment, stage.workdir, source))
    else:
        raise ValueError(f"not understood: {instruction} {rest}")
