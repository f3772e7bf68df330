"""From text to the tree: tokens, precedence and refusals.

Text is in single quotes, where `''` is one quote and a backslash is a plain character; names
are bare, in double quotes or in backticks. Comments, several statements, subqueries and functions
that are not in the table are refused with their position.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from datarecs_core.comparison.expressions.functions import ENTRIES, FUNCTIONS
from datarecs_core.comparison.expressions.tree import (
    Call,
    ExpressionError,
    Literal,
    Name,
    Node,
    Parameter,
)
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, number, text
from datarecs_core.comparison.values.forms import read_date, read_moment
from datarecs_core.errors.faults import did_you_mean
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, parse_type

MAX_DEPTH = 50
"""Levels of brackets, calls and signs."""
_TOKEN = re.compile(
    r"""(?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?![\w.]))
      | '(?P<text>(?:[^']|'')*)'
      | "(?P<double>(?:[^"]|"")+)"
      | `(?P<back>(?:[^`]|``)+)`
      | (?P<word>[^\W\d]\w*)
      | :(?P<parameter>[A-Za-z_]\w*)
      | (?P<comment>--|/\*)
      | (?P<sign>\|\||<=|>=|<>|!=|==|[=<>(),+*-])
      | (?P<refused>::|[;/%\[\]{}.$\\|&^~!?\#@:'"`])
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANKS = re.compile(r"\s*")
_RESERVED = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "BETWEEN",
        "LIKE",
        "NULL",
        "TRUE",
        "FALSE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "AS",
        "FROM",
    ]
)
_SUBQUERY = frozenset({"SELECT", "WITH", "EXISTS"})
_SIGNS: Mapping[str, str] = {"==": "=", "!=": "<>"}
_COMPARED = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})
_CASTS = frozenset({"CAST", "TRY_CAST"})
_PARTS = frozenset({"YEAR", "MONTH", "DAY"})
_BROKEN = frozenset({";", "'", '"', "`", "[", "]", "{", "}", "?", "!"})
"""Signs that no SQL expression has, or that are not closed."""
_HINTS: Mapping[str, str] = {
    "/": "multiply by the reciprocal, for instance `amount * 0.01`",
    "::": "write CAST(value AS type)",
    ";": "write one expression",
    "'": "close the quote; a quote inside a text is written twice",
    '"': "close the quote",
    "`": "close the backtick",
    ".": "a name that holds a point is written in double quotes",
}


class _Token(NamedTuple):
    kind: str
    written: str
    at: int
    end: int

    @property
    def word(self) -> str:
        """A keyword or sign in upper case; empty for names in quotes and literals."""
        return self.written.upper() if self.kind in {"word", "sign"} else ""


def parse_expression(sql: str) -> Node:
    """Read one scalar expression.

    Raises:
        ExpressionError: the language does not have it.
    """
    reader = _Reader(tokens=_tokens(sql), length=len(sql))
    node = reader.expression()
    rest = reader.peek()
    if rest is not None:
        raise ExpressionError(f"{_shown(rest)} does not belong here", rest.at)
    return node


def _tokens(sql: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = _after_blanks(sql, 0)
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None:
            raise ExpressionError("a character that is not allowed in expressions", at)
        kind = str(match.lastgroup)
        token = _Token(kind, match[kind], at, match.end())
        if kind == "comment":
            raise ExpressionError("a comment", at, forbidden=True, hint="leave it out")
        if kind == "refused":
            raise ExpressionError(
                f"the sign {token.written} is not in the language",
                at,
                forbidden=token.written not in _BROKEN,
                hint=_HINTS.get(token.written),
            )
        tokens.append(token)
        at = _after_blanks(sql, match.end())
    return tokens


def _after_blanks(sql: str, at: int) -> int:
    match = _BLANKS.match(sql, at)
    return at if match is None else match.end()


def _shown(token: _Token) -> str:
    return "a text" if token.kind == "text" else repr(token.written)


@dataclass(slots=True)
class _Reader:
    """Recursive descent; every method reads one level of precedence, weakest first."""

    tokens: list[_Token]
    length: int
    position: int = 0
    depth: int = 0

    def peek(self, ahead: int = 0) -> _Token | None:
        at = self.position + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def next(self) -> _Token:
        token = self.peek()
        if token is None:
            raise ExpressionError("the expression ends too early", self.length)
        self.position += 1
        return token

    def take(self, *words: str) -> _Token | None:
        """The next keyword or sign when it is one of these."""
        token = self.peek()
        if token is None or token.word not in words:
            return None
        self.position += 1
        return token

    def expect(self, word: str) -> _Token:
        token = self.take(word)
        if token is None:
            after = self.peek()
            raise ExpressionError(f"{word} is missing", self.length if after is None else after.at)
        return token

    def expression(self) -> Node:
        return self.joined("or", "OR", self.conjunction)

    def conjunction(self) -> Node:
        return self.joined("and", "AND", self.negation)

    def joined(self, entry: str, word: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        first = None
        while (token := self.take(word)) is not None:
            first = first or token
            parts.append(part())
        return parts[0] if first is None else _call(entry, tuple(parts), first.at)

    def negation(self) -> Node:
        token = self.take("NOT")
        if token is None:
            return self.predicate()
        return self.deeper(token, lambda: _call("not", (self.negation(),), token.at))

    def deeper(self, token: _Token, read: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"more than {MAX_DEPTH} levels", token.at)
        node = read()
        self.depth -= 1
        return node

    def predicate(self) -> Node:
        operand = self.sum()
        while (token := self.take("IS")) is not None:
            negated = self.take("NOT") is not None
            self.expect("NULL")
            operand = _negated(_call("is_null", (operand,), token.at), token, is_negated=negated)
        denial = self.take("NOT")
        test = self.take("IN", "BETWEEN", "LIKE")
        if test is None:
            if denial is not None:
                raise ExpressionError("IN, BETWEEN or LIKE is missing after NOT", denial.at)
            return self.comparison(operand)
        node = self.tested(test, operand)
        return _negated(node, test, is_negated=denial is not None)

    def tested(self, test: _Token, operand: Node) -> Node:
        if test.word == "IN":
            self.expect("(")
            return _call("in", (operand, *self.arguments()), test.at)
        if test.word == "BETWEEN":
            low = self.sum()
            self.expect("AND")
            return _call("between", (operand, low, self.sum()), test.at)
        return _call("like", (operand, self.sum()), test.at)

    def comparison(self, operand: Node) -> Node:
        sign = self.take(*_COMPARED)
        if sign is None:
            return operand
        return _call(_SIGNS.get(sign.word, sign.word), (operand, self.sum()), sign.at)

    def sum(self) -> Node:
        node = self.product()
        while (sign := self.take("+", "-", "||")) is not None:
            node = _call(sign.word, (node, self.product()), sign.at)
        return node

    def product(self) -> Node:
        node = self.signed()
        while (sign := self.take("*")) is not None:
            node = _call("*", (node, self.signed()), sign.at)
        return node

    def signed(self) -> Node:
        sign = self.take("-", "+")
        if sign is None:
            return self.primary()
        return self.deeper(sign, lambda: _signed(sign, self.signed()))

    def primary(self) -> Node:
        token = self.next()
        match token.kind:
            case "number":
                return _number(token)
            case "text":
                return Literal(text(token.written.replace("''", "'")), token.at)
            case "double" | "back":
                quote = '"' if token.kind == "double" else "`"
                return Name(token.written.replace(quote * 2, quote), token.at, token.end)
            case "parameter":
                return Parameter(token.written, token.at)
            case "word":
                return self.word(token)
        if token.word != "(":
            raise ExpressionError(f"{_shown(token)} does not belong here", token.at)
        return self.deeper(token, self.bracketed)

    def bracketed(self) -> Node:
        node = self.expression()
        self.expect(")")
        return node

    def word(self, token: _Token) -> Node:
        following = self.peek()
        if token.word in _SUBQUERY:
            raise ExpressionError(
                "a subquery", token.at, forbidden=True, hint="put it into the source's `query`"
            )
        if token.word in {"NULL", "TRUE", "FALSE"}:
            truth = Value(Tag.BOOL, token.word == "TRUE")
            return Literal(NULL if token.word == "NULL" else truth, token.at)
        if token.word == "CASE":
            return self.deeper(token, lambda: self.case(token))
        if token.word in _RESERVED:
            raise ExpressionError(f"{token.written!r} does not belong here", token.at)
        if following is not None and following.kind == "text":
            return self.moment(token)
        if following is not None and following.word == "(":
            return self.deeper(token, lambda: self.function(token))
        return Name(token.written, token.at, token.end)

    def moment(self, token: _Token) -> Node:
        if token.word not in {"DATE", "TIMESTAMP", "TIMESTAMPTZ"}:
            raise ExpressionError(
                f"a text after {token.written!r} is not in the language",
                token.at,
                forbidden=True,
                hint="only DATE and TIMESTAMP may precede a text",
            )
        written = self.next().written
        value = read_date(written) if token.word == "DATE" else read_moment(written)
        if value is None or (token.word == "TIMESTAMPTZ" and value.tag is not Tag.INSTANT):
            form = "YYYY-MM-DD" if token.word == "DATE" else "YYYY-MM-DD HH:MM:SS"
            raise ExpressionError(f"{token.word} needs a text of the form {form}", token.at)
        return Literal(value, token.at)

    def case(self, token: _Token) -> Node:
        subject = None
        following = self.peek()
        if following is not None and following.word != "WHEN":
            subject = self.expression()
        parts: list[Node] = []
        while (when := self.take("WHEN")) is not None:
            condition = self.expression()
            if subject is not None:
                condition = _call("=", (subject, condition), when.at)
            self.expect("THEN")
            parts += [condition, self.expression()]
        if not parts:
            raise ExpressionError("WHEN is missing", token.at)
        otherwise = self.expression() if self.take("ELSE") else Literal(NULL, token.at)
        self.expect("END")
        return _call("case", (*parts, otherwise), token.at)

    def function(self, token: _Token) -> Node:
        self.expect("(")
        if token.word in _CASTS:
            return self.cast(token)
        if token.word == "EXTRACT":
            return self.extract(token)
        name = FUNCTIONS.get(token.word.lower())
        if name is None:
            raise ExpressionError(
                f"the function {token.written} is not in the language",
                token.at,
                forbidden=True,
                hint=did_you_mean(token.written.lower(), FUNCTIONS)
                or "docs/expressions.md lists the functions",
            )
        empty = self.take(")") is not None
        return _call(name, () if empty else self.arguments(), token.at)

    def arguments(self) -> tuple[Node, ...]:
        """Up to the closing bracket; one at least."""
        nodes = [self.expression()]
        while self.take(","):
            nodes.append(self.expression())
        self.expect(")")
        return tuple(nodes)

    def cast(self, token: _Token) -> Node:
        if token.word != "CAST":
            raise ExpressionError(
                f"{token.written} is not in the language",
                token.at,
                forbidden=True,
                hint="the source's `cast` makes unreadable values INVALID",
            )
        operand = self.expression()
        self.expect("AS")
        kind = self.next()
        written = kind.written
        if self.take("("):
            digits = [self.next().written]
            while self.take(","):
                digits.append(self.next().written)
            self.expect(")")
            written = f"{written}({','.join(digits)})"
        self.expect(")")
        try:
            target = parse_type(written.lower())
        except ValueError as cause:
            raise ExpressionError(str(cause), kind.at) from cause
        return _call("cast", (operand,), token.at, target)

    def extract(self, token: _Token) -> Node:
        part = self.next()
        if part.word not in _PARTS:
            raise ExpressionError(
                f"EXTRACT of {_shown(part)} is not in the language",
                part.at,
                forbidden=True,
                hint="it takes YEAR, MONTH or DAY",
            )
        self.expect("FROM")
        operand = self.expression()
        self.expect(")")
        return _call(part.word.lower(), (operand,), token.at)


def _negated(node: Node, token: _Token, *, is_negated: bool) -> Node:
    return _call("not", (node,), token.at) if is_negated else node


def _number(token: _Token) -> Node:
    value = Decimal(token.written)
    digits = len(token.written.replace(".", "").lstrip("0"))
    if digits > MAX_DIGITS:
        raise ExpressionError(f"a number of more than {MAX_DIGITS} digits", token.at)
    return Literal(number(value), token.at)


def _signed(sign: _Token, operand: Node) -> Node:
    if sign.word == "+":
        return operand
    content = operand.value.content if isinstance(operand, Literal) else None
    if (
        isinstance(operand, Literal)
        and isinstance(content, Decimal)
        and operand.value.tag is Tag.NUMBER
    ):
        return Literal(number(content.copy_negate()), sign.at)
    return _call("neg", (operand,), sign.at)


def _call(
    name: str, arguments: tuple[Node, ...], at: int, target: CanonicalType | None = None
) -> Call:
    """A call with the number of arguments and the literals of the table."""
    entry, shown = ENTRIES[name], name.upper()
    least, most = entry.count
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = (
            str(least)
            if least == most
            else f"{least} or more"
            if most is None
            else f"{least} or {most}"
        )
        raise ExpressionError(f"{shown} takes {wanted} arguments", at)
    for position, check in entry.literals.items():
        argument = arguments[position] if position < len(arguments) else None
        if argument is None or isinstance(argument, Parameter):
            continue
        complaint = check(argument.value if isinstance(argument, Literal) else None)
        if complaint is not None:
            raise ExpressionError(f"{shown}: {complaint}", argument.at, forbidden=True)
    height = 1 + max((each.height for each in arguments if isinstance(each, Call)), default=0)
    if height > MAX_DEPTH:
        raise ExpressionError(f"more than {MAX_DEPTH} levels", at)
    return Call(name, arguments, at, target, height)
