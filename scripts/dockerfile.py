"""Parses a Dockerfile, as far as the project's Dockerfile needs.

Owns: lines, stages, substituted arguments. Does not own: executing them (`check_images`). Invariant: an unknown
instruction is an error, so that no line is skipped.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

STEPS: Final = {"RUN", "COPY", "WORKDIR"}  # instructions that are executed, in order


@dataclass(frozen=True)
class DockerfileStep:
    """An instruction to execute.

    `environment`: the variables of RUN. `words`: its command, or COPY's sources and target. `source`: the stage of
    COPY.
    """

    instruction: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    workdir: str
    source: str = ""


@dataclass
class BuildStage:
    """A build stage: its steps, and how to start the resulting image."""

    name: str
    base: str
    workdir: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    steps: list[DockerfileStep] = field(default_factory=list)


def parse_stages(text: str, arguments: Mapping[str, str]) -> dict[str, BuildStage]:
    """Return every stage by its name, in order. `arguments` are build arguments. Raises ValueError with the line."""
    found: dict[str, BuildStage] = {}
    everywhere: dict[str, str] = {}
    variables: dict[str, str] = {}
    for instruction, rest in _lines(text):
        if instruction == "ARG" and not found:
            name, _, default = rest.partition("=")
            everywhere[name] = arguments.get(name, default)
        elif instruction == "FROM":
            base, _, name = _substitute(rest, everywhere).split()
            before = found.get(base)
            variables = {}
            found[name] = BuildStage(name, base)
            if before:
                stage = found[name]
                stage.workdir, stage.user = before.workdir, before.user
                stage.environment, stage.labels = dict(before.environment), dict(before.labels)
        elif instruction == "ARG":
            name, _, default = rest.partition("=")
            variables[name] = arguments.get(name, everywhere.get(name, default))
        else:
            _apply(list(found.values())[-1], instruction, rest, variables)
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    whole = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, whole.splitlines())):
        instruction, _, rest = line.partition(" ")
        yield instruction, rest.strip()


def _substitute(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda m: values[m[1]], text)


def _apply(stage: BuildStage, instruction: str, rest: str, variables: Mapping[str, str]) -> None:
    """Apply one instruction to its stage, which is changed. `rest` is the text after the instruction's name.

    `variables` are the build arguments that the stage has declared. Raises ValueError for an unknown instruction.
    """
    if instruction in ("ENV", "LABEL"):
        pairs = dict(word.split("=", 1) for word in shlex.split(_substitute(rest, variables)))
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
        environment = {**variables, **stage.environment}
        stage.steps.append(DockerfileStep(instruction, words[bool(source) :], environment, stage.workdir, source))
    else:
        raise ValueError(f"unknown instruction: {instruction} {rest}")
