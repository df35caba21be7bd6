"""Parses an expression into its tree. Macros are expanded as soon as they are recognized.

Source: the grammar of the CEL language definition, with the limits of cel-go v0.26. The wording of syntax errors
follows the API server for the common ones; a text with several errors is reported with the first one only.
"""

from __future__ import annotations

import math
from typing import Final, NoReturn, TypeVar

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
from scheduler.engine.cel.errors import Problems
from scheduler.engine.cel.lexer import END_TEXT, Token, TokenKind, tokenize, unquote_bytes, unquote_string
from scheduler.engine.cel.macros import MacroError, expand
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
_LITERALS: Final = {
    TokenKind.DOUBLE: "NUM_FLOAT",
    TokenKind.INT: "NUM_INT",
    TokenKind.UINT: "NUM_UINT",
    TokenKind.STRING: "STRING",
    TokenKind.BYTES: "BYTES",
    TokenKind.NAME: "IDENTIFIER",
}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_NUMBERS_WITH_SIGN: Final = (TokenKind.INT, TokenKind.DOUBLE)
_START: Final = ("'['", "'{'", "'('", "'.'", "'-'", "'!'", "'true'", "'false'", "'null'", *_LITERALS.values())
_AFTER_MINUS: Final = frozenset(_START) - {"'!'"}
_START_OR_END: Final = (*_START[:3], "')'", *_START[3:])  # of an argument, or the end of arguments
_SHOWN_ESCAPED: Final = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


class _SyntaxError(Exception):
    """The first syntax error; parsing stops there."""


def parse(source: str) -> Expression:
    """Return the tree of an expression. Raise CelError with the API server's message if the text is no expression."""
    problems = Problems(source)
    parser = _Parser(tokenize(source, problems), problems)
    try:
        node = parser.parse_whole()
    except _SyntaxError:
        node = Literal(0, None)
    problems.raise_if_any()
    return node


class _Parser:
    """A recursive descent over the tokens, with the limits of upstream's parser."""

    def __init__(self, tokens: list[Token], problems: Problems) -> None:
        self._tokens = tokens
        self._position = 0
        self._problems = problems
        self._nested = 0  # expressions around the present one
        self._parentheses = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        """Return the next token and advance past it; at the end of the text, return the END token each time."""
        token = self._next
        if token.kind is not TokenKind.END:
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

    def _no_alternative(self, first: Token) -> NoReturn:
        """Raise the syntax error that no rule of the grammar matches the tokens from `first` to the next token."""
        last = self._next
        if last.kind is TokenKind.SIGN and last.text in _CONSTANTS:
            self._fail(f"Syntax error: mismatched input '{last.text}' expecting IDENTIFIER")
        first_to_last = self._tokens[self._tokens.index(first) : self._position + 1]
        text = first.text + "".join(token.hidden + token.text for token in first_to_last[1:])
        text = text.removesuffix(END_TEXT).translate(_SHOWN_ESCAPED)
        self._fail(f"Syntax error: no viable alternative at input '{text}'")

    def _unexpected(self, *expected: str) -> None:
        """Report that the next token is none of the expected ones, and skip it if the token after it is one of them.

        Otherwise raise _SyntaxError.
        """
        token = self._next
        shown = expected[0] if len(expected) == 1 else "{" + ", ".join(expected) + "}"
        skips = self._position + 1 < len(self._tokens) and _class_of(self._tokens[self._position + 1]) in expected
        kind = "extraneous" if skips else "mismatched"
        self._problems.add(token.offset, f"Syntax error: {kind} input '{token.text}' expecting {shown}")
        if not skips:
            raise _SyntaxError
        self._position += 1

    def _expect(self, text: str, *also: str) -> Token:
        """Consume the expected token; `also` are tokens that the error message lists as alternatives."""
        if not self._at(text):
            self._unexpected(f"'{text}'", *also)
            if not self._at(text):
                raise _SyntaxError
        return self._take()

    def parse_whole(self) -> Expression:
        node = self._expression()
        if self._next.kind is not TokenKind.END:
            self._unexpected("<EOF>")
        if node.depth > MAX_DEPTH:
            self._problems.add(-1, "max recursion depth exceeded")
        return node

    def _expression(self) -> Expression:
        self._nested += 1
        if self._nested > MAX_DEPTH:
            self._problems.add(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")
            raise _SyntaxError
        node = self._logical()
        if self._at("?"):
            offset = self._take().offset
            chosen = self._logical()
            self._expect(":")
            otherwise = self._expression()
            node = _operation(offset, "_?_:_", [node, chosen, otherwise])
        self._nested -= 1
        return node

    def _logical(self) -> Expression:
        """Parse an expression of || and && over relations."""
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
        node = self._sum()
        while self._at(*_RELATIONS):
            operator = self._take()
            node = _operation(operator.offset, _OPERATORS[operator.text], [node, self._sum()])
        return node

    def _sum(self) -> Expression:
        node = self._product()
        while self._at(*_SUMS):
            operator = self._take()
            node = _operation(operator.offset, _OPERATORS[operator.text], [node, self._product()])
        return node

    def _product(self) -> Expression:
        node = self._unary()
        while self._at(*_PRODUCTS):
            operator = self._take()
            node = _operation(operator.offset, _OPERATORS[operator.text], [node, self._unary()])
        return node

    def _unary(self) -> Expression:
        token = self._next
        if token.kind is not TokenKind.SIGN or token.text not in ("!", "-"):
            return self._member()
        signs = 0
        while self._at(token.text):
            if token.text == "-" and signs == 0 and self._negative_literal_follows():
                return self._member()
            sign = self._take()
            signs += 1
            if token.text == "-" and _class_of(self._next) not in _AFTER_MINUS:
                self._no_alternative(sign)
        node = self._member()
        if signs % 2 == 0:
            return node
        return _nest(Call(token.offset, "!_" if token.text == "!" else "-_", None, [node]), node)

    def _negative_literal_follows(self) -> bool:
        return self._tokens[self._position + 1].kind in _NUMBERS_WITH_SIGN

    def _member(self) -> Expression:
        node = self._primary()
        while self._at(".", "["):
            sign = self._take()
            node = self._index(node, sign) if sign.text == "[" else self._selection(node, sign)
        return node

    def _index(self, target: Expression, bracket: Token) -> Expression:
        function = "_[?_]" if self._take_if("?") else "_[_]"
        position = self._expression()
        self._expect("]")
        return _operation(bracket.offset, function, [target, position])

    def _selection(self, target: Expression, dot: Token) -> Expression:
        optional = self._take_if("?")
        if self._next.kind not in (TokenKind.NAME, TokenKind.QUOTED_NAME):
            if not optional:
                self._no_alternative(dot)
            self._unexpected("IDENTIFIER", "ESC_IDENTIFIER")
        name = self._take()
        if name.kind is TokenKind.QUOTED_NAME:
            self._problems.add(name.offset, "unsupported syntax: '`'")
        if optional:
            return _operation(dot.offset, "_?._", [target, Literal(name.offset, name.text)])
        if not self._at("("):
            return _nest(Select(dot.offset, target, name.text), target, levels=1)
        offset, arguments = self._arguments()
        return self._call(offset, name.text, target, arguments)

    def _arguments(self) -> tuple[int, list[Expression]]:
        offset = self._take().offset
        arguments: list[Expression] = []
        if not self._at(")"):
            if _class_of(self._next) not in _START:
                self._unexpected(*_START_OR_END)
            arguments.append(self._expression())
            while self._take_if(","):
                arguments.append(self._expression())
        self._expect(")", "','")
        return offset, arguments

    def _call(self, offset: int, function: str, target: Expression | None, arguments: list[Expression]) -> Expression:
        parts = arguments if target is None else [target, *arguments]
        levels = 0 if target is None else 1
        depth = max((part.depth for part in parts), default=0) + levels
        try:
            expanded = expand(offset, function, target, arguments)
        except MacroError as error:
            self._problems.add(error.offset, error.message)
            expanded = Ident(offset, "<error>")
        node = Call(offset, function, target, arguments) if expanded is None else expanded
        node.depth = depth
        return node

    def _primary(self) -> Expression:
        token = self._next
        if token.kind is TokenKind.NAME:
            return self._name(token, "")
        if token.kind in _LITERALS:
            return self._literal()
        if token.kind is TokenKind.SIGN and token.text in _CONSTANTS:
            return Literal(self._take().offset, _CONSTANTS[token.text])
        if token.text == "-":
            self._take()
            if self._next.kind not in _NUMBERS_WITH_SIGN:
                self._no_alternative(token)
            return self._literal(minus=token)
        if token.text == ".":
            self._take()
            if self._next.kind is not TokenKind.NAME:
                self._no_alternative(token)
            return self._name(self._next, ".")
        if token.text == "(":
            return self._parenthesis()
        if token.text == "[":
            return self._list()
        if token.text == "{":
            return self._map()
        self._unexpected(*_START)
        return self._unary()

    def _parenthesis(self) -> Expression:
        self._take()
        self._parentheses += 1
        node = self._expression()
        self._parentheses -= 1
        if self._next.kind is TokenKind.END and not self._parentheses and self._nested == 1:
            self._fail("Syntax error: missing ')' at '<EOF>'")
        self._expect(")")
        return node

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
        """Return the dotted name if the next tokens are a name and `{`, else None; consume nothing."""
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
                self._unexpected("'}'", "','", "'?'", "IDENTIFIER", "ESC_IDENTIFIER")
            self._take()
            self._expect(":")
            values.append(self._expression())
            if not self._take_if(","):
                break
        self._expect("}", "','")
        return _nest(StructLiteral(offset, name, values), *values)

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
                if self._at(","):
                    self._unexpected("']'")
        self._expect("]", "','")
        return _nest(ListLiteral(offset, elements, frozenset(optional)), *elements)

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
        self._expect("}", "','")
        return _nest(MapLiteral(offset, entries), *(part for entry in entries for part in (entry.key, entry.value)))

    def _literal(self, minus: Token | None = None) -> Expression:
        """Parse a number, string or bytes literal; `minus` is the token of a number's sign, if there is one.

        An invalid literal is added to the problems.
        """
        token = self._take()
        offset = (minus or token).offset
        if token.kind is TokenKind.INT:
            number = int(text[2:], 16) if (text := token.text).startswith("0x") else _decimal(text)
            number = -number if minus else number
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
            double = -float(token.text) if minus else float(token.text)
            if math.isinf(double):
                self._problems.add(offset, "invalid double literal")
            return Literal(offset, double)
        try:
            decoded = unquote_string(token.text) if token.kind is TokenKind.STRING else unquote_bytes(token.text)
        except ValueError as error:
            self._problems.add(offset, str(error))
            decoded = ""
        return Literal(offset, decoded)


def _decimal(digits: str) -> int:
    """Return a decimal number. Digits after the 30th are dropped, because such a number exceeds 64 bits anyway."""
    digits = digits.lstrip("0") or "0"
    return int(digits[:30])


def _class_of(token: Token) -> str:
    """Return the name of a token's kind as error messages show it: `<EOF>`, a kind of literal, or the quoted text."""
    if token.kind is TokenKind.END:
        return "<EOF>"
    return _LITERALS.get(token.kind, f"'{token.text}'")


_Nested = TypeVar("_Nested", bound=Expression)


def _nest(node: _Nested, *parts: Expression, levels: int = 0) -> _Nested:
    """Set the depth of a node to that of its deepest part plus `levels`, and return the node."""
    node.depth = max((part.depth for part in parts), default=0) + levels
    return node


def _operation(offset: int, function: str, operands: list[Expression]) -> Call:
    return _nest(Call(offset, function, None, operands), *operands, levels=1)


def _balanced(function: str, terms: list[tuple[int, Expression]]) -> Expression:
    """Return a balanced tree of calls of a binary `function` on the terms.

    Each term is an operand with the offset of the operator before it.
    """
    if len(terms) == 1:
        return terms[0][1]
    middle = len(terms) // 2
    halves = [_balanced(function, terms[:middle]), _balanced(function, terms[middle:])]
    return _nest(Call(terms[middle][0], function, None, halves), *halves)
