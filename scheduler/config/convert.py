"""The `convert-config` command: a configuration file of any supported version, converted to v1."""

from __future__ import annotations

from pathlib import Path

from scheduler.config.document import parse_document, read_text
from scheduler.config.errors import ConfigError
from scheduler.config.legacy import to_yaml, translate
from scheduler.config.load import Warn, check_version, parse_config
from scheduler.config.types import API_VERSION


def convert_file(path: Path, warn: Warn) -> str:
    """Return the configuration as v1 text; a v1 file is returned unchanged. Raise ConfigError, which names the file."""
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
