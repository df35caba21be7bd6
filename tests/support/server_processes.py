"""Requests to a server in a process of its own."""

import json
import subprocess
from http.client import HTTPConnection
from typing import Any

from herodotus_record import codec


def listening_port(process: "subprocess.Popen[str]", host: str = "127.0.0.1") -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"listening on http://{host}:"), process.communicate()
    return int(line.split(":")[2].split(" ")[0])


def send_request(at: int, path: str, body: bytes | None = None) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", at, timeout=60)
    try:
        connection.request("POST" if body else "GET", path, body, {"Content-Type": codec.CONTENT_TYPE} if body else {})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text[:1] == b"{" else text.decode()
    finally:
        connection.close()
