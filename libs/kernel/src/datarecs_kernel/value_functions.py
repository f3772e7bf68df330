"""Functions of DuckDB that prepare values in Python, one per column, batch by batch.

DuckDB calls them in any of its threads with Arrow arrays; results of repeated values are cached.
"""

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from datarecs_kernel.base_columns import duckdb_type
from datarecs_kernel.database import Connection
from datarecs_kernel.forms import Form
from datarecs_kernel.prepared_values import AMBIGUOUS, ColumnInput, ColumnPreparation


def create_value_function(connection: Connection, name: str, column: ColumnInput) -> None:
    """A function of a value and the payload of an INVALID value that returns `structure_of`."""
    preparation = ColumnPreparation(column)
    labels = [label for label, _ in column.columns]

    def prepare(values: pa.ChunkedArray, payloads: pa.ChunkedArray) -> pa.Array:
        made = preparation.prepared(values.combine_chunks(), payloads.combine_chunks())
        return pa.StructArray.from_arrays([made[label] for label in labels], labels)

    connection.create_function(
        name,
        prepare,
        [duckdb.sqltype(_kind(column.base)), duckdb.sqltype("BLOB")],
        duckdb.sqltype(structure_of(column)),
        type=ARROW,
        null_handling=SPECIAL,
        # Else DuckDB would call it again for each member of the structure, and for each test.
        side_effects=True,
    )


def structure_of(column: ColumnInput) -> str:
    """The result type of the function in SQL: the columns of the field, and `dst`."""
    members = [f"{label} {duckdb_type(kind)}" for label, kind in column.field.columns]
    return f"STRUCT({', '.join([*members, f'{AMBIGUOUS} INTEGER'])})"


def _kind(base: Form) -> str:
    return duckdb_type(base.sql_type)
