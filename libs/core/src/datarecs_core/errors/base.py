"""The root exception, the shape of a catalogue entry, and the four run-level codes.

A family of codes is an enum in a separate module (`spec`, `connection`, `run`, `api`, `platform`,
`security`); the member's name is the wire name, its value the catalogue entry.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum


class RunErrorCode(StrEnum):
    """The only codes of a run on the wire, highest precedence first (D19)."""

    TIMED_OUT = "TIMED_OUT"
    CRASHED = "CRASHED"
    QUERY_FAILED = "QUERY_FAILED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One catalogue entry: what `datarecs errors CODE` and `docs/errors.md` print."""

    docs_id: str
    """`DR` and four digits; never reused."""
    meaning: str
    causes: str
    remedy: str
    retryable: bool = False
    run_code: RunErrorCode | None = None
    """For detail codes: the run-level code they travel under."""


class ErrorCode(Enum):
    """Base of the families; has no members itself."""

    @property
    def entry(self) -> Entry:
        value = self.value
        if not isinstance(value, Entry):
            raise TypeError(f"{self!r} has no catalogue entry")
        return value

    @property
    def docs_id(self) -> str:
        return self.entry.docs_id


class DatarecsError(Exception):
    """Root of all exceptions that the product defines.

    A subclass sets `code`, keeps its facts as attributes and builds its message, which names
    what, where, why and the fix, and holds no secret and no measured value.
    """

    code: ErrorCode
    fix: str = ""
    """What to do; empty: the remedy of the code."""

    @property
    def retryable(self) -> bool:
        return self.code.entry.retryable
