"""`convert-config`: a configuration file of any version, as v1."""

from __future__ import annotations

from pathlib import Path

from scheduler.config.document import parse, text_of
from scheduler.config.errors import ConfigError
from scheduler.config.legacy import to_yaml, translated
from scheduler.config.load import Warn, checked_version, read
from scheduler.config.types import API_VERSION


def converted(path: Path, warn: Warn) -> str:
    """The text of the same configuration in v1; a file that is v1 already, as it stands. ConfigError names the file."""
    text = text_of(path)
    try:
        document = checked_version(parse(text), accept_legacy=True)
        if document["apiVersion"] != API_VERSION:
            document, notes = translated(document)
            for note in notes:
                warn(note)
            text = to_yaml(document)
        read(text)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from e
    return text
