"""Conversion of a configuration file of any supported version to v1, for the command `convert-config`."""

from __future__ import annotations

from pathlib import Path

from scheduler.config.document import parse_document, read_text
from scheduler.config.errors import ConfigError
from scheduler.config.legacy import to_yaml, translate
from scheduler.config.load import Warn, check_version, parse_config
from scheduler.config.types import API_VERSION


def convert_file(path: Path, warn: Warn) -> str:
    """Return the configuration file's content as v1 YAML, unchanged if it is v1 already. Call `warn` with each note.

    Raise ConfigError, with a message that names the file, if it is invalid or has no equivalent in v1.
    """
    text = read_text(path)
    try:
        document = check_version(parse_document(text), accept_legacy=True)
        if document["apiVersion"] != API_VERSION:
            document, notes = translate(document)
            for note in notes:
                warn(note)
            text = to_yaml(document)
        parse_config(text)
    except ConfigError as e:
        raise ConfigError(f"{path}: {e}") from e
    return text
