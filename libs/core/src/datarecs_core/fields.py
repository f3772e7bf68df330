"""Marks on event fields for what a Python type cannot express: the minimum, the known words.

The codec checks and the schemas print them; they are in `Annotated`, beside the field, so that an
event is defined in one place. Without a mark, an integer is in 0…2^53-1 and a text has at most
2,000 characters.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The smallest integer of this field, inclusive."""

    value: int


@dataclass(frozen=True, slots=True)
class Known:
    """Documented values of an open enum: readers store an unknown word as text."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PerSource:
    """A map with keys `source_<n>`, n the position in the job's `sources`."""
