"""Marks on event fields for what a Python type cannot say: the least number, the known words.

The codec checks and the schemas print them; they stand in `Annotated`, beside the field, so that an
event is defined in one place. Unmarked, an integer lies in 0…2^53-1 and a text has at most 2,000
characters.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The smallest integer of this field, inclusive."""

    value: int


@dataclass(frozen=True, slots=True)
class Known:
    """Documented values of an open enum: readers keep a word they do not know as text."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PerSource:
    """A map whose keys are `source_<n>`, n the position in the job's `sources`."""
