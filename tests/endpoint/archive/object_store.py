"""An object store with the S3 API (moto) as a process of its own, in the environment `.venv/s3`."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pyarrow import fs

from tests.processes import ROOT, Process

PROGRAM: Final = ROOT / ".venv" / "s3" / "bin" / "moto_server"
MISSING: Final = f"{PROGRAM.relative_to(ROOT)} is missing: `make setup` installs it"
CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}


class ObjectStore:
    """A running object store. `bucket` returns the URL of a new bucket."""

    def __init__(self, folder: Path) -> None:
        command = [str(PROGRAM), "-H", "127.0.0.1", "-p", "0"]
        self.process = Process("moto", command, folder / "moto.log", {"PYTHONUNBUFFERED": "1"})
        self.endpoint = self.process.wait_for(r"Running on (http://127\.0\.0\.1:\d+)")[1]

    def bucket(self) -> str:
        name = f"archive-{uuid.uuid4()}"
        scheme, _, host = self.endpoint.partition("://")
        opened = fs.S3FileSystem(
            scheme=scheme, endpoint_override=host, region="us-east-1", allow_bucket_creation=True, **_KEYS
        )
        opened.create_dir(name)
        return f"s3://{name}/herodotus?region=us-east-1&endpoint={quote(self.endpoint, safe='')}"

    def stop(self) -> None:
        self.process.stop()


_KEYS: Final = {"access_key": CREDENTIALS["AWS_ACCESS_KEY_ID"], "secret_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}
