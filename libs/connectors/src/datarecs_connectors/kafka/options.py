"""`options` of a kafka source, validated strictly."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Decode(StrEnum):
    JSON = "json"
    """One object per record; its members are columns."""
    TEXT = "text"
    """UTF-8, in the one column `value`."""
    BYTES = "bytes"
    """The one column `value`."""


class Fold(StrEnum):
    NONE = "none"
    LATEST_BY_KEY = "latest_by_key"
    """Of each key only the last record."""


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
    declared: Annotated[dict[str, str], Field(alias="schema", default_factory=dict)]
    infer: Literal["strict", "none"] = "strict"
    """none, which no job declares: the declared columns and no others."""
