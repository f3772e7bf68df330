"""The MetaData, the column types, and the declaration of a column.

The tables here describe the schema at head for statements, for the generated page and for the test
that compares them with the database; the DDL is in `migrations/sql`, frozen.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Integer, MetaData, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB, base
from sqlalchemy.types import TypeEngine, UserDefinedType

SCHEMA = "datarecs"

METADATA = MetaData(
    schema=SCHEMA,
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    },
)


class Xid8(UserDefinedType[str]):
    """A transaction id with its epoch; compared inside the database, never read into Python."""

    cache_ok = True

    def get_col_spec(self, **_kw: object) -> str:
        return "xid8"


base.ischema_names["xid8"] = Xid8

UUID = Uuid()
TEXT = Text()
COUNT = Integer()
"""Type of attempts, priorities, seconds."""
NUMBER = BigInteger()
"""Type of versions, epochs, sequences, feed numbers."""
INSTANT = DateTime(timezone=True)
"""Type of times, by the database's clock."""
JSON = JSONB(none_as_null=True)


def column(
    name: str, kind: TypeEngine[Any], doc: str, *, null: bool = False, default: str | None = None
) -> Column[Any]:
    """A column with its meaning; `default` is SQL."""
    return Column(
        name,
        kind,
        nullable=null,
        server_default=None if default is None else text(default),
        autoincrement=False,
        doc=doc,
    )


def tenant_column() -> Column[Any]:
    """First column, and first part of every key, of a tenant's table."""
    return column("tenant_id", UUID, "owner of the row")
