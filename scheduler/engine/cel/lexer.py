"""Splits an expression into tokens, and decodes its literals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from scheduler.engine.cel.errors import Problems


class TokenKind(Enum):
    """What a token is. An operator or keyword is recognized by its text."""

    END = auto()
    SIGN = auto()
    NAME = auto()
    QUOTED_NAME = auto()
    INT = auto()
    UINT = auto()
    DOUBLE = auto()
    STRING = auto()
    BYTES = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token with its text and the offset of its first character.

    `hidden` is the white space and the comments between it and the token before it.
    """

    kind: TokenKind
    text: str
    offset: int
    hidden: str = ""


END_TEXT: Final = "<EOF>"
KEYWORDS: Final = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""
_STRING = (
    r'[rR](?:"""[\s\S]*?"""|' + r"'''[\s\S]*?'''" + r'|"[^"\n\r]*"' + r"|'[^'\n\r]*')"
    r'|"""(?:' + _ESCAPE + r'|[^\\])*?"""'
    r"|'''(?:" + _ESCAPE + r"|[^\\])*?'''"
    r'|"(?:' + _ESCAPE + r'|[^\\"\n\r])*"'
    r"|'(?:" + _ESCAPE + r"|[^\\'\n\r])*'"
)
_TOKEN: Final = re.compile(
    r"(?P<skip>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)"
    r"|(?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
)
_KINDS: Final = {
    "bytes": TokenKind.BYTES,
    "string": TokenKind.STRING,
    "double": TokenKind.DOUBLE,
    "uint": TokenKind.UINT,
    "int": TokenKind.INT,
    "name": TokenKind.NAME,
    "quoted": TokenKind.QUOTED_NAME,
    "sign": TokenKind.SIGN,
}


def tokenize(source: str, problems: Problems) -> list[Token]:
    """Return the tokens of an expression, followed by an END token.

    Characters that no token can start with are added to `problems`.
    """
    tokens = []
    position = 0
    hidden = ""
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            text = _unrecognized(source, position)
            problems.add(position, f"Syntax error: token recognition error at: '{text}'")
            position += len(text)
            continue
        kind = match.lastgroup
        assert kind is not None
        text = match[0]
        if kind == "skip":
            hidden += text
        else:
            token_kind = TokenKind.SIGN if text in KEYWORDS else _KINDS[kind]
            tokens.append(Token(token_kind, text, position, hidden))
            hidden = ""
        position = match.end()
    tokens.append(Token(TokenKind.END, END_TEXT, len(source), hidden))
    return tokens


_STARTED: Final = re.compile(
    rf"""[&|=].?|"(?:{_ESCAPE}|[^\\"\n\r])*\\?.?|'(?:{_ESCAPE}|[^\\'\n\r])*\\?.?|.""", re.DOTALL
)


def _unrecognized(source: str, position: int) -> str:
    """Return the text that the error message shows: the longest start of a token, and the character that ends it."""
    match = _STARTED.match(source, position)
    assert match is not None
    return match[0]


_SIMPLE_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE_PATTERN: Final = re.compile(
    r"\\(?:[xX](?P<hex>..)|u(?P<short>.{4})|U(?P<long>.{8})|(?P<octal>[0-3][0-7]{2})|(?P<one>.))", re.DOTALL
)
_SURROGATES: Final = range(0xD800, 0xE000)
_LAST_CODE_POINT: Final = 0x10FFFF


def unquote_string(text: str) -> str:
    """Return the value of a string literal. Raise ValueError for an escape that is no code point."""
    content, raw = _content(text)
    if raw:
        return content

    def decode(match: re.Match[str]) -> str:
        if (one := match["one"]) is not None:
            return _SIMPLE_ESCAPES.get(one, one)
        octal = match["octal"]
        digits = octal or match["hex"] or match["short"] or match["long"]
        number = int(digits, 8 if octal else 16)
        if number in _SURROGATES or number > _LAST_CODE_POINT:
            raise ValueError("invalid unicode code point")
        return chr(number)

    return _ESCAPE_PATTERN.sub(decode, content)


def unquote_bytes(text: str) -> bytes:
    """Return the value of a bytes literal. Raise ValueError for an escape that bytes literals do not have."""
    content, raw = _content(text[1:])
    if raw:
        return content.encode()
    parts = []
    position = 0
    for match in _ESCAPE_PATTERN.finditer(content):
        parts.append(content[position : match.start()].encode())
        position = match.end()
        if (one := match["one"]) is not None:
            parts.append(_SIMPLE_ESCAPES.get(one, one).encode())
        elif match["octal"] or match["hex"]:
            octal = match["octal"]
            parts.append(bytes([int(octal or match["hex"], 8 if octal else 16) & 0xFF]))
        else:
            raise ValueError("unable to unescape string")
    parts.append(content[position:].encode())
    return b"".join(parts)


def _content(text: str) -> tuple[str, bool]:
    """Return the text between the quotes of a literal, and whether the literal is raw (prefix `r` or `R`)."""
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    return text[quotes:-quotes], raw
