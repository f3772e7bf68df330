"""`options` of a kafka source, validated strictly."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Decode(StrEnum):
    JSON = "json"
    """One object per record; its members are columns."""
    AVRO = "avro"
    """One record per record, by a schema of the registry; its fields are columns."""
    TEXT = "text"
    """UTF-8, in the one column `value`."""
    BYTES = "bytes"
    """The one column `value`."""


class Fold(StrEnum):
    NONE = "none"
    LATEST_BY_KEY = "latest_by_key"
    """Of each key only the last record."""
    LATEST_BY_ID = "latest_by_id"
    """The same by the id columns of the table that a sink writes, instead of the record's key."""


class Tombstones(StrEnum):
    """What becomes of records without a value, after the fold."""

    KEEP = "keep"
    """Rows with NULL in every column of the value."""
    DELETE = "delete"
    """No rows."""


class TopicOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    decode: Decode = Decode.JSON
    fold: Fold = Fold.NONE
    tombstones: Tombstones = Tombstones.KEEP
    id_columns: tuple[str, ...] = ()
    """Of the fold latest_by_id; empty: the identifier fields of the table."""
    case_insensitive: bool = False
    """A field is the column of its name in another case, as the sink of the table has it."""
    declared: Annotated[dict[str, str], Field(alias="schema", default_factory=dict)]
    infer: Literal["strict", "none"] = "strict"
    """none, which no job declares: the declared columns and no others."""
    fields: Annotated[dict[str, str], Field(default_factory=dict)]
    """Names of fields with their columns, which no job declares: those of a table."""

    @property
    def fault(self) -> str | None:
        """What does not fit together, and what to do."""
        is_table = self.infer == "none"
        by_id = self.fold is Fold.LATEST_BY_ID
        if by_id and not is_table:
            return (
                "options.fold latest_by_id is for a topic up to the table of a sink; write "
                "snapshot: {to: watermark}, or fold: latest_by_key"
            )
        if self.case_insensitive and not is_table:
            return (
                "options.case_insensitive is for a topic up to the table of a sink; write "
                "snapshot: {to: watermark}"
            )
        if self.id_columns and not by_id:
            return "options.id_columns belongs to fold: latest_by_id"
        if by_id and not self.id_columns:
            return (
                "options.fold latest_by_id has no key: the table has no identifier fields; write "
                "options.id_columns as the sink has them"
            )
        unknown = [name for name in self.id_columns if name not in self.declared]
        if unknown:
            return (
                f"options.id_columns: the table has no column {unknown[0]!r} that can be a key; "
                f"it has {', '.join(self.declared)}"
            )
        return None
