"""The text that a database runs, written only from the typed tree.

Numbers carry their digits, texts compare by code points, instants are timestamps in UTC without a
zone until the very end. A cast of a text goes through a pattern, so that each database refuses the
same texts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from datarecs_core.comparison.expressions.entry import Dialect
from datarecs_core.comparison.expressions.functions import ENTRIES
from datarecs_core.comparison.expressions.signatures import Typed, digits_of, met_type
from datarecs_core.comparison.expressions.tree import Call, ExpressionError, Literal, Name
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import CanonicalType, TypeKind, decimal

MAX_TEXT = 1_000_000
"""Letters of a written expression."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES: Mapping[TypeKind, tuple[str, str]] = {
    TypeKind.BOOL: ("BOOLEAN", "boolean"),
    TypeKind.INT: ("BIGINT", "bigint"),
    TypeKind.FLOAT64: ("DOUBLE", "double precision"),
    TypeKind.FLOAT32: ("DOUBLE", "double precision"),
    TypeKind.TEXT: ("VARCHAR", "text"),
    TypeKind.UUID: ("VARCHAR", "uuid"),
    TypeKind.BINARY: ("BLOB", "bytea"),
    TypeKind.JSON: ("VARCHAR", "json"),
    TypeKind.TIME: ("TIME", "time"),
    TypeKind.DATE: ("DATE", "date"),
    TypeKind.INSTANT: ("TIMESTAMP", "timestamp"),
    TypeKind.LOCAL_TIMESTAMP: ("TIMESTAMP", "timestamp"),
}
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_FORMS: Mapping[TypeKind, str] = {
    TypeKind.INT: "-?(0|[1-9][0-9]{0,18})",
    TypeKind.DATE: f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}",
    TypeKind.BOOL: "(true|false)",
}
_NO_VALUE = "invalid"
_ARITHMETIC = frozenset({"+", "-", "*"})

Columns = Callable[[str], str]
"""The text of a column, of the type that the expression was typed with."""


def expression_sql(expression: Typed, dialect: Dialect, columns: Columns) -> str:
    """The expression in brackets.

    Args:
        expression: typed over the columns of one source.
        dialect: of the text.
        columns: quotes a column and converts it to the form of its type: integers of 64 bits,
            instants as timestamps in UTC, texts that compare by their bytes.

    Raises:
        ExpressionError: the text would be too long.
    """
    return _Writing(dialect, columns).text(expression)


def sql_type(kind: CanonicalType, dialect: Dialect) -> str:
    """The name of a type; of decimals with their digits, where they are declared."""
    if kind.kind is TypeKind.DECIMAL:
        name = "DECIMAL" if dialect is Dialect.DUCKDB else "numeric"
        return name if kind.scale is None else f"{name}({kind.precision},{kind.scale})"
    duckdb, postgres = _NAMES[kind.kind]
    return duckdb if dialect is Dialect.DUCKDB else postgres


@dataclass(frozen=True, slots=True)
class _Writing:
    dialect: Dialect
    columns: Columns

    def text(self, part: Typed) -> str:
        node = part.node
        if isinstance(node, Name):
            return self.columns(node.name)
        if isinstance(node, Literal):
            return self.literal(node.value, part.type)
        if not isinstance(node, Call):
            raise TypeError("parameters are written in before")
        written = self.call(part, node)
        if len(written) > MAX_TEXT:
            raise ExpressionError("the expression is too long", node.at)
        return written

    def call(self, part: Typed, node: Call) -> str:
        if node.entry == "cast":
            return self.cast(part.arguments[0], part.type)
        entry = ENTRIES[node.entry]
        arguments = self.arguments(part, node)
        written = entry.written(self.dialect, arguments)
        is_number = part.type is not None and part.type.kind in {TypeKind.INT, TypeKind.DECIMAL}
        if is_number and not entry.meets and node.entry != "case":
            return self.as_type(written, part.type)
        return written

    def arguments(self, part: Typed, node: Call) -> list[str]:
        entry = ENTRIES[node.entry]
        if entry.meets:
            met = met_type(part.arguments)
            return [self.met(each, met) for each in part.arguments]
        if node.entry == "case":
            last = len(part.arguments) - 1
            return [
                self.met(each, part.type) if at % 2 or at == last else self.text(each)
                for at, each in enumerate(part.arguments)
            ]
        if node.entry in _ARITHMETIC:
            return [
                self.operand(each, part.type, is_product=node.entry == "*")
                for each in part.arguments
            ]
        return [
            self.counted(each) if at in entry.literals else self.text(each)
            for at, each in enumerate(part.arguments)
        ]

    def operand(self, part: Typed, result: CanonicalType | None, *, is_product: bool) -> str:
        """Of + - *: in the digits of the result, since DuckDB uses those of the operands."""
        kind, digits = part.type, digits_of(part)
        if kind is None or result is None:
            return self.text(part)
        if result.kind is TypeKind.DATE and kind.kind is TypeKind.INT:
            return f"CAST({self.text(part)} AS INTEGER)"
        if result.kind is not TypeKind.DECIMAL or result.precision is None or digits is None:
            return self.text(part)
        scale = digits.scale if is_product else result.scale or 0
        wide = decimal(result.precision, min(scale, result.precision))
        if isinstance(part.node, Literal):
            return self.literal(part.node.value, wide)
        return self.as_type(self.text(part), wide)

    def counted(self, part: Typed) -> str:
        """A literal that a function takes as it is: a plain whole number, or a text."""
        value = part.node.value if isinstance(part.node, Literal) else None
        if value is not None and isinstance(value.content, Decimal):
            return decimal_text(value.content)
        return self.text(part)

    def met(self, part: Typed, kind: CanonicalType | None) -> str:
        """In the type of the other operand."""
        if kind is None or part.type == kind:
            return self.text(part)
        if kind.is_float and isinstance(part.node, Literal) and part.type is not None:
            return self.as_type(_quoted(decimal_text(Decimal(str(part.node.value.content)))), kind)
        return self.as_type(self.text(part), kind)

    def as_type(self, written: str, kind: CanonicalType | None) -> str:
        return written if kind is None else f"CAST({written} AS {sql_type(kind, self.dialect)})"

    def literal(self, value: Value, kind: CanonicalType | None) -> str:
        match value.tag, value.content:
            case Tag.NUMBER, Decimal() as content:
                return self.as_type(_quoted(decimal_text(content)), kind)
            case Tag.TEXT, str() as content:
                return self.plain_text(content)
            case Tag.BOOL, bool() as content:
                return "TRUE" if content else "FALSE"
            case Tag.DATE, Decimal() as days:
                day = date(1970, 1, 1) + timedelta(days=int(days))
                return f"DATE '{day.isoformat()}'"
            case ((Tag.INSTANT | Tag.LOCAL), Decimal() as micros):
                moment = _EPOCH + timedelta(microseconds=int(micros))
                written = moment.replace(tzinfo=None).isoformat(" ")
                return f"TIMESTAMP '{written}'"
        return "NULL"

    def plain_text(self, content: str) -> str:
        if self.dialect is Dialect.DUCKDB:
            return _quoted(content)
        if "\\" in content:
            return "E" + _quoted(content.replace("\\", "\\\\")) + '::text COLLATE "C"'
        return f'{_quoted(content)}::text COLLATE "C"'

    def cast(self, part: Typed, target: CanonicalType | None) -> str:
        written = self.text(part)
        source = part.type
        if source is None or target is None or source == target:
            return self.as_type(written, target)
        if source.kind is TypeKind.TEXT:
            return self.as_type(self.formed(written, target), target)
        if source.is_float:
            return self.as_type(self.of_float(written), target)
        if target.kind is TypeKind.INT and self.dialect is Dialect.DUCKDB:
            digits = f"DECIMAL({38 if source.scale is None else _whole_digits(source)},0)"
            return self.as_type(f"CAST({written} AS {digits})", target)
        if target.kind is TypeKind.TEXT:
            return self.to_text(written, source)
        return self.as_type(written, target)

    def formed(self, written: str, target: CanonicalType) -> str:
        """The text where it has the form of the type; else one that no cast reads."""
        form = _FORMS.get(target.kind) or _decimal_form(target)
        if self.dialect is Dialect.DUCKDB:
            return f"regexp_extract({written}, '^{form}$')"
        return f"regexp_replace({written}, '^(?!{form}$).*$', '{_NO_VALUE}')"

    def of_float(self, written: str) -> str:
        """The shortest decimal of the float."""
        if self.dialect is Dialect.DUCKDB:
            return f"CAST({written} AS VARCHAR)"
        return f"CAST(replace(CAST({written} AS text), 'NaN', '{_NO_VALUE}') AS numeric)"

    def to_text(self, written: str, source: CanonicalType) -> str:
        if self.dialect is Dialect.POSTGRES:
            return f'CAST({written} AS text) COLLATE "C"'
        return (
            f"lower({written})" if source.kind is TypeKind.UUID else f"CAST({written} AS VARCHAR)"
        )


def _decimal_form(target: CanonicalType) -> str:
    scale = target.scale or 0
    fraction = f"([.][0-9]{{1,{scale}}})?" if scale else ""
    return f"-?(0|[1-9][0-9]{{0,37}}){fraction}"


def _whole_digits(source: CanonicalType) -> int:
    return min((source.precision or 38) - (source.scale or 0) + 1, 38)


def _quoted(content: str) -> str:
    return "'" + content.replace("'", "''") + "'"
