"""The versions of the servers that upgrade tests run beside each other: this one, and a later one made from it.

Nothing is released yet, so no earlier version must stay compatible. The later version has the code of this one, another
version number, and a migration that extends the schema. It shows that the mechanism works.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from herodotus_record.version import __version__
from tests.processes import ROOT

PACKAGES: Final = ("herodotus_endpoint", "herodotus_kube", "herodotus_record", "herodotus_serving", "scheduler")
MIGRATION: Final = '''"""Add a column, as a later release may do."""

import sqlalchemy as sa
from alembic import op

revision = "later"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("decisions", sa.Column("later", sa.BigInteger, nullable=False, server_default="0"))
'''


@dataclass(frozen=True)
class Version:
    """A version of the two servers: the number that it reports, and the folder with its code."""

    number: str
    tree: Path


THIS: Final = Version(__version__, ROOT)


def make_later(folder: Path) -> Version:
    """Write the code of a later version to a folder and return it."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "herodotus_endpoint/store/migrations/versions/later.py").write_text(MIGRATION)
    file, number = folder / "herodotus_record" / "version.py", "99.0.0"
    text, count = re.subn(r'(__version__ = )"[^"]+"', rf'\1"{number}"', file.read_text())
    assert count == 1
    file.write_text(text)
    return Version(number, folder)
