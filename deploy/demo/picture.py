"""The picture in the README: screens of a recorded demo, rendered by the plugin's own code.

Owns: the screens of the picture, the recorded answers, the picture. Does not own: rendering (`herodotus_cli`).

`python -m deploy.demo.picture record URL` requests the answers from a running demo's decisions service and stores them.
`python -m deploy.demo.picture draw` (`make picture`) draws them. A test ensures that equal answers give an equal file.
"""

from __future__ import annotations

import json
import shlex
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from herodotus_cli.command_line import run
from herodotus_cli.environment import Environment
from herodotus_serving.threads import serve_in_thread

Json = dict[str, Any]

DOCS: Final = Path(__file__).parents[2] / "docs"
ANSWERS: Final = DOCS / "picture.json"
PICTURE: Final = DOCS / "picture.svg"
SCREENS: Final = (("pod", "postgres-0", "-n", "shop"), ("pod", "payments-0", "-n", "shop", "--node", "worker-8"))
WIDTH: Final = 100  # columns
IDENTITY: Final = "herodotus-scheduler-0"  # like that of a pod in a cluster
THEME: Final = TerminalTheme(
    (13, 17, 23),
    (214, 219, 226),
    [
        *((72, 79, 88), (255, 123, 114), (86, 211, 100), (227, 179, 65)),
        *((121, 192, 255), (210, 168, 255), (86, 212, 221), (214, 219, 226)),
    ],
)
# Rich's template without its web font and window frame, so that a viewer fetches nothing.
SVG_TEMPLATE: Final = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>kubectl herodotus</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: \
{char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def record(url: str) -> Json:
    """Return the service's answers to the requests of the screens, by path, and the present time.

    The result has the keys `answers` and `at`. `url` is the base URL of the decisions service.
    """
    answers: dict[str, Json] = {}

    def get(path: str) -> Json:
        with urllib.request.urlopen(f"{url}{path}", timeout=10) as response:
            answers[path] = anonymize(json.load(response))
        return answers[path]

    now = datetime.now().astimezone()
    _render_screens(get, now)
    return {"at": now.isoformat(timespec="seconds"), "answers": answers}


def anonymize(explanation: Json) -> Json:
    """Return the answer without the scheduler's identity, which begins with the host name."""
    return explanation | {"attempt": explanation["attempt"] | {"scheduler": IDENTITY}}


def draw(recorded: Json) -> str:
    """Return the picture as SVG."""
    answers: dict[str, Json] = recorded["answers"]
    text = _render_screens(answers.__getitem__, datetime.fromisoformat(recorded["at"]))
    console = Console(width=WIDTH, record=True, file=StringIO(), legacy_windows=False, _environ={})
    console.print(Text.from_ansi(text.rstrip()), "", sep="\n", soft_wrap=True)
    svg = console.export_svg(title="kubectl herodotus", theme=THEME, code_format=SVG_TEMPLATE, unique_id="herodotus")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def _render_screens(get: Callable[[str], Json], now: datetime) -> str:
    """Return the output of each command in SCREENS as a terminal shows it, below its command line.

    `get` returns the document at a path of the decisions service. Ages are relative to `now`. Raises SystemExit if a
    command fails.
    """
    out = _Terminal()
    with _serve_answers(get) as url:
        for screen in SCREENS:
            out.write(f"\x1b[32m$\x1b[0m \x1b[1mkubectl herodotus {shlex.join(screen)}\x1b[0m\n")
            if code := run(screen, Environment({"HERODOTUS_ENDPOINT": url}, out, lambda: now, lambda: WIDTH)):
                raise SystemExit(code)
            out.write("\n")
    return out.getvalue()


@contextmanager
def _serve_answers(get: Callable[[str], Json]) -> Iterator[str]:
    """Run an HTTP server on loopback that responds to GET with `get(path)` as JSON; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(get(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


def main(arguments: list[str]) -> int:
    """Record the answers of a service, or draw the picture from recorded answers; return the exit code.

    `arguments` are `record URL` or `draw`. For any others the exit code is 2.
    """
    match arguments:
        case ["record", url]:
            ANSWERS.write_text(json.dumps(record(url.rstrip("/")), indent=1) + "\n")
        case ["draw"]:
            PICTURE.write_text(draw(json.loads(ANSWERS.read_text())))
        case _:
            print(f"usage: python -m deploy.demo.picture record URL | draw ({PICTURE})", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
