"""The options of a csv source, and the rule that skips lines.

Separate from the reader because the job schema and `datarecs init` use the same names.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from datarecs_connectors.recoding import Encoding
from datarecs_core.comparison.values.value_formats import DateFormat

OneCharacter = Annotated[str, Field(min_length=1, max_length=1)]
MAX_SKIPPED_FIRST, MAX_SKIPPED_LAST = 1_000, 100


class SkipOptions(BaseModel):
    """Lines that contain no row. A line inside a quoted field is never skipped."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: Annotated[int, Field(ge=0, le=MAX_SKIPPED_FIRST)] = 0
    """Number of lines before the header, with any content."""
    last: Annotated[int, Field(ge=0, le=MAX_SKIPPED_LAST)] = 0
    """Number of records at the end, without blank lines; a quoted record may span lines."""
    prefixes: Sequence[str] = ()
    """Skip lines that begin with one of these prefixes, with or without a quote before it."""

    @property
    def is_empty(self) -> bool:
        return not (self.first or self.last or self.prefixes)


class CsvOptions(BaseModel):
    """`options` of a csv source."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    delimiter: OneCharacter | None = None
    """None: detected from the first lines of the first file."""
    quote: OneCharacter = '"'
    escape: OneCharacter = '"'
    header: bool = True
    encoding: Encoding = Encoding.UTF_8
    null: str = ""
    null_words: Sequence[str] = ()
    multiline: bool = False
    decimal: Literal[".", ","] = "."
    thousands: str = ""
    date_format: str = ""
    timestamp_format: str = ""
    formats: Annotated[Mapping[str, str], Field(default_factory=dict)]
    skip: SkipOptions = SkipOptions()
    declared: Annotated[dict[str, str], Field(alias="schema", default_factory=dict)]
    infer: Literal["strict"] = "strict"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.thousands == self.decimal:
            raise ValueError("decimal and thousands are the same mark")
        for text in (self.date_format, self.timestamp_format, *self.formats.values()):
            if text:
                DateFormat.of(text)
        return self
