"""What a person has decided about a table that was rolled back, dropped or created again.

Data alone, stored in the checkpoint: a coordinator that replays the control topic decides the
same as the one that carried the decision out.
"""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class WaitingRecords(StrEnum):
    """What becomes of records that the table does not hold."""

    COMMIT = "commit"
    """They are committed to the table that is there now."""
    LEAVE_OUT = "leave_out"
    """They are in no table, for good."""


class DecisionState(StrEnum):
    OPEN = "open"
    """The next coordinator carries it out."""
    DONE = "done"
    REFUSED = "refused"
    """Nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDecision:
    """The newest decision about a table of the sink."""

    catalog: str
    namespace: tuple[str, ...]
    name: str
    records: WaitingRecords
    since: int = 0
    """Control offset below which the lost table had every record."""
    state: DecisionState = DecisionState.OPEN
    message: str = ""
    """What was done, or why it was refused."""

    @property
    def place(self) -> tuple[str, tuple[str, ...], str]:
        return (self.catalog, self.namespace, self.name)

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedTable:
    """A table that is lost, and what becomes of its files that no snapshot has."""

    uuid: UUID
    into: UUID | None = None
    """The table that takes them; None: they are left out."""
    since: int = 0
    """Files of messages below this control offset were in the lost table."""
