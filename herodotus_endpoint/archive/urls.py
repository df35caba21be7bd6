"""URLs of archives: a directory, or `s3://BUCKET/PREFIX?region=REGION&endpoint=URL`.

Owns: which URLs are supported. Does not own: reading and writing (`location`). Imports none of the packages that the
archive needs.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from herodotus_endpoint.archive import ArchiveError

_OPTIONS: Final = ("region", "endpoint")
_EXPECTED: Final = "s3://BUCKET/PREFIX?region=REGION&endpoint=URL and directories are supported"


class ArchiveUrl(NamedTuple):
    """The place that a URL names: a directory, or a prefix of a bucket if `directory` is None.

    `name` is the URL without its parameters. `root` is the path of the archive in its file system. `region` is None and
    `endpoint` is "" if the URL does not name them.
    """

    name: str
    root: str
    directory: Path | None = None
    region: str | None = None
    endpoint: str = ""

    @classmethod
    def parse(cls, url: str) -> ArchiveUrl:
        """Return the place that `url` names. Raises ArchiveError if it names none that is supported."""
        try:
            parts = urlsplit(url)
            options = {
                name: values[-1] for name, values in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()
            }
        except ValueError as e:
            raise ArchiveError(f"archive {url!r} is no URL") from e
        name, path = url.partition("?")[0], unquote(parts.path)
        match parts.scheme:
            case "s3" if parts.netloc and not set(options) - set(_OPTIONS):
                root = str(PurePosixPath(parts.netloc, path.strip("/")))
                return cls(name, root, None, options.get("region"), options.get("endpoint", ""))
            case "" | "file" if path and not parts.netloc and not parts.query:
                directory = Path(path).absolute()
                return cls(name, str(directory), directory)
            case _:
                raise ArchiveError(f"archive {url!r}: {_EXPECTED}")
