"""Parses an expression into its tree. Macros are expanded as soon as they are recognized.

Source: the grammar of the CEL language definition, with the limits of cel-go v0.26. The wording of syntax errors
follows the API server for the common ones; a text with several errors is reported with the first one only.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NoReturn

from scheduler.engine.cel.ast import (
    Call,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Select,
    StructLiteral,
)
from scheduler.engine.cel.errors import CelError
from scheduler.engine.cel.lexer import Token, TokenKind, tokenize, unquote_bytes, unquote_string
from scheduler.engine.cel.macros import MacroError, expand
from scheduler.engine.cel.messages import Problems
from scheduler.engine.cel.values import INT64_MAX, INT64_MIN, UINT64_MAX, Uint

MAX_DEPTH: Final = 250  # of each rule of the grammar, as upstream
RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"package", "namespace", "null", "return", "true", "var", "void", "while"}
)
_RELATIONS: Final = frozenset({"<", "<=", ">=", ">", "==", "!=", "in"})
_SUMS: Final = frozenset({"+", "-"})
_PRODUCTS: Final = frozenset({"*", "/", "%"})
_OPERATORS: Final = {sign: f"_{sign}_" for sign in _RELATIONS | _SUMS | _PRODUCTS} | {"in": "@in"}
_EXPRESSION_START: Final = (
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
)


class _SyntaxError(Exception):
    """The first syntax error; parsing stops there."""


def parse(source: str) -> Expression:
    """Return the tree of an expression. Raise CelError with the API server's words for a text that is none."""
    problems = Problems(source)
    tokens = tokenize(source, problems)
    problems.raise_if_any()
    parser = _Parser(tokens, problems)
    try:
        node = parser.parse_whole()
    except _SyntaxError:
        node = None
    problems.raise_if_any()
    assert node is not None
    return node


class _Parser:
    """A recursive descent over the tokens, with the depth of each rule counted as upstream's parser counts it."""

    def __init__(self, tokens: list[Token], problems: Problems) -> None:
        self._tokens = tokens
        self._position = 0
        self._problems = problems
        self._depth: Counter[str] = Counter()

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._next
        self._position += 1
        return token

    def _at(self, *texts: str) -> bool:
        token = self._next
        return token.kind is TokenKind.SIGN and token.text in texts

    def _take_if(self, text: str) -> bool:
        if self._at(text):
            self._position += 1
            return True
        return False

    def _fail(self, message: str, token: Token | None = None) -> NoReturn:
        self._problems.add((token or self._next).offset, message)
        raise _SyntaxError

    def _unexpected(self, expected: str) -> NoReturn:
        token = self._next
        kind = "extraneous" if expected == "<EOF>" and token.kind is not TokenKind.SIGN else "mismatched"
        self._fail(f"Syntax error: {kind} input '{token.text}' expecting {expected}")

    def _expect(self, text: str, expected: str = "") -> Token:
        if not self._at(text):
            self._unexpected(expected or f"'{text}'")
        return self._take()

    def _enter(self, rule: str) -> None:
        self._depth[rule] += 1
        if self._depth[rule] > MAX_DEPTH:
            raise CelError(f"compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}")

    def _leave(self, rule: str, levels: int = 1) -> None:
        self._depth[rule] -= levels

    def parse_whole(self) -> Expression:
        node = self._expression()
        if self._next.kind is not TokenKind.END:
            self._unexpected("<EOF>")
        return node

    def _expression(self) -> Expression:
        self._enter("expression")
        node = self._logical()
        if self._at("?"):
            offset = self._take().offset
            chosen = self._logical()
            self._expect(":")
            otherwise = self._expression()
            node = Call(offset, "_?_:_", None, [node, chosen, otherwise])
        self._leave("expression")
        return node

    def _logical(self) -> Expression:
        """Parse operands of || that are operands of && that are relations."""
        alternatives: list[tuple[int, Expression]] = []
        offset_or = -1
        while True:
            terms: list[tuple[int, Expression]] = []
            offset_and = -1
            while True:
                terms.append((offset_and, self._relation()))
                if not self._at("&&"):
                    break
                offset_and = self._take().offset
            alternatives.append((offset_or, _balanced("_&&_", terms)))
            if not self._at("||"):
                return _balanced("_||_", alternatives)
            offset_or = self._take().offset

    def _relation(self) -> Expression:
        self._enter("relation")
        levels = 1
        node = self._sum()
        while self._at(*_RELATIONS):
            self._enter("relation")
            levels += 1
            operator = self._take()
            node = Call(operator.offset, _OPERATORS[operator.text], None, [node, self._sum()])
        self._leave("relation", levels)
        return node

    def _sum(self) -> Expression:
        """Parse sums of products."""
        self._enter("calc")
        levels = 1
        total: Expression | None = None
        plus: Token | None = None
        while True:
            node = self._unary()
            while self._at(*_PRODUCTS):
                self._enter("calc")
                levels += 1
                operator = self._take()
                node = Call(operator.offset, _OPERATORS[operator.text], None, [node, self._unary()])
            total = node if total is None or plus is None else Call(plus.offset, f"_{plus.text}_", None, [total, node])
            if not self._at(*_SUMS):
                break
            self._enter("calc")
            levels += 1
            plus = self._take()
        self._leave("calc", levels)
        return total

    def _unary(self) -> Expression:
        token = self._next
        if token.kind is not TokenKind.SIGN or token.text not in ("!", "-"):
            return self._member()
        signs = 0
        while self._at(token.text):
            if token.text == "-" and signs == 0 and self._negative_literal_follows():
                return self._member()
            self._take()
            signs += 1
        node = self._member()
        if signs % 2 == 0:
            return node
        return Call(token.offset, "!_" if token.text == "!" else "-_", None, [node])

    def _negative_literal_follows(self) -> bool:
        return self._tokens[self._position + 1].kind in (TokenKind.INT, TokenKind.DOUBLE)

    def _member(self) -> Expression:
        self._enter("member")
        levels = 1
        node = self._primary()
        while self._at(".", "["):
            self._enter("member")
            levels += 1
            sign = self._take()
            node = self._index(node, sign) if sign.text == "[" else self._selection(node, sign)
        self._leave("member", levels)
        return node

    def _index(self, target: Expression, bracket: Token) -> Expression:
        function = "_[?_]" if self._take_if("?") else "_[_]"
        position = self._expression()
        self._expect("]")
        return Call(bracket.offset, function, None, [target, position])

    def _selection(self, target: Expression, dot: Token) -> Expression:
        optional = self._take_if("?")
        if self._next.kind is not TokenKind.NAME:
            if self._next.text in ("true", "false", "null"):
                self._unexpected("IDENTIFIER")
            self._fail(f"Syntax error: no viable alternative at input '.{self._next.text}'")
        name = self._take()
        if optional:
            return Call(dot.offset, "_?._", None, [target, Literal(name.offset, name.text)])
        if not self._at("("):
            return Select(dot.offset, target, name.text)
        offset, arguments = self._arguments()
        return self._call(offset, name.text, target, arguments)

    def _arguments(self) -> tuple[int, list[Expression]]:
        offset = self._take().offset
        arguments: list[Expression] = []
        if not self._at(")"):
            arguments.append(self._expression())
            while self._take_if(","):
                arguments.append(self._expression())
        self._expect(")")
        return offset, arguments

    def _call(self, offset: int, function: str, target: Expression | None, arguments: list[Expression]) -> Expression:
        try:
            expanded = expand(offset, function, target, arguments)
        except MacroError as error:
            self._problems.add(error.offset, error.message)
            return Ident(offset, "<error>")
        return Call(offset, function, target, arguments) if expanded is None else expanded

    def _primary(self) -> Expression:
        token = self._next
        if token.kind is TokenKind.NAME:
            return self._name(token, "")
        if token.kind is not TokenKind.SIGN:
            return self._literal()
        if token.text == ".":
            self._take()
            if self._next.kind is not TokenKind.NAME:
                self._unexpected("IDENTIFIER")
            return self._name(self._next, ".")
        if token.text == "(":
            self._take()
            node = self._expression()
            self._expect(")")
            return node
        if token.text == "[":
            return self._list()
        if token.text == "{":
            return self._map()
        if token.text in ("true", "false", "null", "-"):
            return self._literal()
        return self._unexpected("{" + _EXPRESSION_START + "}")

    def _name(self, token: Token, dot: str) -> Expression:
        struct = self._struct_name()
        if struct is not None:
            return self._struct(dot + struct)
        self._take()
        if token.text in RESERVED:
            self._problems.add(token.offset, f"reserved identifier: {token.text}")
        if not self._at("("):
            return Ident(token.offset, dot + token.text)
        offset, arguments = self._arguments()
        return self._call(offset, dot + token.text, None, arguments)

    def _struct_name(self) -> str | None:
        """Return the name before a `{`, if the next tokens are one, without taking them."""
        position = self._position
        parts = []
        while self._tokens[position].kind is TokenKind.NAME:
            parts.append(self._tokens[position].text)
            position += 1
            if self._tokens[position].text == "{":
                return ".".join(parts)
            if self._tokens[position].text != ".":
                return None
            position += 1
        return None

    def _struct(self, name: str) -> Expression:
        while not self._at("{"):
            self._take()
        offset = self._take().offset
        values: list[Expression] = []
        while not self._at("}"):
            self._take_if("?")
            if self._next.kind is not TokenKind.NAME:
                self._unexpected("{'?', '}', ',', IDENTIFIER, ESC_IDENTIFIER}")
            self._take()
            self._expect(":")
            values.append(self._expression())
            if not self._take_if(","):
                break
        self._expect("}")
        return StructLiteral(offset, name, values)

    def _list(self) -> Expression:
        offset = self._take().offset
        elements: list[Expression] = []
        optional = set()
        if not (self._at(",") and self._tokens[self._position + 1].text == "]" and self._take_if(",")):
            while not self._at("]"):
                if self._take_if("?"):
                    optional.add(len(elements))
                elements.append(self._expression())
                if not self._take_if(","):
                    break
        self._expect("]")
        return ListLiteral(offset, elements, frozenset(optional))

    def _map(self) -> Expression:
        offset = self._take().offset
        entries: list[MapEntry] = []
        if not (self._at(",") and self._tokens[self._position + 1].text == "}" and self._take_if(",")):
            while not self._at("}"):
                optional = self._take_if("?")
                key = self._expression()
                colon = self._expect(":")
                entries.append(MapEntry(colon.offset, key, self._expression(), optional))
                if not self._take_if(","):
                    break
        self._expect("}")
        return MapLiteral(offset, entries)

    def _literal(self) -> Expression:
        token = self._take()
        sign = ""
        offset = token.offset
        if token.text == "-" and token.kind is TokenKind.SIGN:
            sign = "-"
            token = self._take()
        if token.kind is TokenKind.SIGN:
            return Literal(offset, {"true": True, "false": False, "null": None}[token.text])
        if token.kind is TokenKind.INT:
            number = int(text[2:], 16) if (text := token.text).startswith("0x") else _decimal(text)
            number = -number if sign else number
            if not INT64_MIN <= number <= INT64_MAX:
                self._problems.add(offset, "invalid int literal")
            return Literal(offset, number)
        if token.kind is TokenKind.UINT:
            text = token.text[:-1]
            number = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
            if number > UINT64_MAX:
                self._problems.add(offset, "invalid uint literal")
            return Literal(offset, Uint(number))
        if token.kind is TokenKind.DOUBLE:
            double = float(sign + token.text)
            if double in (float("inf"), float("-inf")):
                self._problems.add(offset, "invalid double literal")
            return Literal(offset, double)
        if token.kind is TokenKind.END:
            self._position -= 1
            self._unexpected("{" + _EXPRESSION_START + "}")
        try:
            decoded = unquote_string(token.text) if token.kind is TokenKind.STRING else unquote_bytes(token.text)
        except ValueError as error:
            self._problems.add(offset, str(error))
            decoded = ""
        return Literal(offset, decoded)


def _decimal(digits: str) -> int:
    """Return a decimal number; one with too many digits for 64 bits is cut, because it is invalid anyway."""
    digits = digits.lstrip("0") or "0"
    return int(digits[:30])


def _balanced(function: str, terms: list[tuple[int, Expression]]) -> Expression:
    """Join operands as a balanced tree; each has the offset of the operator before it."""
    if len(terms) == 1:
        return terms[0][1]
    middle = len(terms) // 2
    left, right = terms[:middle], terms[middle:]
    return Call(right[0][0], function, None, [_balanced(function, left), _balanced(function, right)])
