"""Read records as the rows of a table that a sink writes: which field is which column, which key.

By the rules of the sink, with its code: a field goes to the column of its name, to the one that
the name mapping of the table gives it, and, where the sink ignores case, to that of its name in
another case.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from datarecs_connectors.json_values import Read
from datarecs_core.comparison.values.canonical import encode_tuple
from datarecs_core.comparison.values.translating import Invalid, canonical
from datarecs_core.jobs.types import CanonicalType

_TWICE = Invalid(b"")
"""The value of a column that two fields belong to: the sink writes no row of such a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """The columns of the fields of a record."""

    columns: frozenset[str]
    column_of: Callable[[str], str | None]
    """For the name of a field; None without a column, or with two."""

    @classmethod
    def of(cls, fields: Mapping[str, str], *, ignores_case: bool) -> "RecordFields":
        """For names of fields with the column of each."""
        # pyiceberg takes half a second to import: only the proof of a table needs it.
        from datarecs_connectors.sinking.columns import any_case, position_of  # noqa: PLC0415  see above
        from datarecs_connectors.sinking.values import MismatchError  # noqa: PLC0415  see above

        columns = list(dict.fromkeys(fields.values()))
        positions = {name: columns.index(column) for name, column in fields.items()}
        without_case = any_case(positions) if ignores_case else {}

        def column_of(name: str) -> str | None:
            try:
                position = position_of(name, positions, without_case)
            except MismatchError:
                return None  # a bad record for the sink, which has no row for it
            return None if position is None else columns[position]

        return cls(columns=frozenset(columns), column_of=column_of)

    def values(self, record: Mapping[str, object]) -> dict[str, object]:
        """By column; fields without one are left out, as the sink does."""
        values: dict[str, object] = {}
        for name, value in record.items():
            column = self.column_of(name)
            if column is not None:
                values[column] = _TWICE if column in values else value
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The key of a row: the values of its id columns, equal if the sink finds them equal."""

    source: str
    kinds: Mapping[str, CanonicalType]
    readers: Mapping[str, Read]
    """By id column."""

    def of(self, values: Mapping[str, object]) -> bytes | None:
        """None for values that are no key; the sink refuses their record."""
        plain = []
        for name, read in self.readers.items():
            value = values.get(name)
            made = None if value is None or value is _TWICE else read(value)
            if made is None or isinstance(made, Invalid):
                return None
            plain.append(canonical(made, self.kinds[name], self.source))
        return encode_tuple(plain)
