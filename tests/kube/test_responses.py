"""Where an answer ends, whatever pieces it comes in."""

from __future__ import annotations

import pytest

from herodotus_kube.responses import MAX_HEAD_BYTES, ApiResponse, NoResponseError, ResponseParser

LENGTH = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\nRetry-After:  1 \r\n\r\nbody"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
CLOSING = b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
AFTER_ANOTHER = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH

WHOLE = [
    pytest.param(
        LENGTH, ApiResponse(201, "Created", {"content-length": "4", "retry-after": "1"}, b"body", False), id="length"
    ),
    pytest.param(CHUNKS, ApiResponse(200, "OK", {"transfer-encoding": "chunked"}, b"abcde", False), id="chunks"),
    pytest.param(EMPTY, ApiResponse(204, "No Content", {}, b"", False), id="nothing"),
    pytest.param(
        CLOSING,
        ApiResponse(429, "Too Many Requests", {"connection": "close", "content-length": "0"}, b"", True),
        id="the last one",
    ),
    pytest.param(
        AFTER_ANOTHER,
        ApiResponse(201, "Created", {"content-length": "4", "retry-after": "1"}, b"body", False),
        id="after a first word",
    ),
]


@pytest.mark.parametrize(("data", "expected"), WHOLE)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_answer_is_whole_with_its_last_byte_and_not_before(data: bytes, expected: ApiResponse, size: int) -> None:
    reader = ResponseParser()
    for _ in range(2):  # a connection carries one after the other
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert [reader.feed(piece) for piece in pieces] == [None] * (len(pieces) - 1) + [expected]


def test_without_a_length_the_connections_end_ends_it() -> None:
    reader = ResponseParser()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nab") is None
    assert reader.feed(b"c") is None
    assert reader.finish() == ApiResponse(200, "OK", {}, b"abc", True)


@pytest.mark.parametrize("data", [b"", LENGTH[:30], LENGTH[:-1], CHUNKS[:-1]], ids=repr)
def test_truncated_response_is_an_error(data: bytes) -> None:
    reader = ResponseParser()
    assert reader.feed(data) is None
    with pytest.raises(NoResponseError, match="closed the connection"):
        reader.finish()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * (MAX_HEAD_BYTES + 1),
    ],
    ids=lambda data: repr(data[:20]),
)
def test_request_that_is_not_http_is_refused(data: bytes) -> None:
    with pytest.raises(NoResponseError):
        ResponseParser().feed(data)
