"""The writes of a transaction to the locked row of a run: values, version and numbers together.

A separate module because two repositories write to that row, `runs` its values and `history` its
numbers, and each row version adds index entries and log. Under the row's lock nothing must be read
again: the values read with the lock are current.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import bindparam, update

from datarecs_application.errors import StoreBusyError
from datarecs_core.values import RunId
from datarecs_postgres.session import Session
from datarecs_postgres.tables.runs import RUN

_WRITE = update(RUN).where(
    RUN.c.tenant_id == bindparam("of_tenant"), RUN.c.run_id == bindparam("of_run")
)
"""Sets the named columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of one or more facts of a run: positions, feed numbers and time of the insert."""

    sequences: range
    rvs: tuple[int, ...]
    time: datetime


@dataclass(slots=True, kw_only=True)
class LockedRow:
    """The values of the row, and the pending writes of this transaction."""

    version: int
    sequence: int
    rv: int
    time: datetime
    """Database time of the read: later than all times in the row."""
    write: dict[str, object] = field(default_factory=dict)


class RunWrites:
    """Rows of `run` under this transaction's lock."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows: dict[RunId, LockedRow] = {}

    def locked(self, run_id: RunId, row: LockedRow) -> None:
        """Store the row; if it is read again, with the values written since."""
        self._rows[run_id] = row

    def save(self, run_id: RunId, columns: Mapping[str, object]) -> None:
        """Write the columns and raise the version; the run is locked."""
        row = self._rows[run_id]
        row.version += 1
        self._write(run_id, row, {**columns, "row_version": row.version})

    def number(self, run_id: RunId, rvs: tuple[int, ...]) -> Numbers | None:
        """A position for each feed number; None if the row is not known.

        Raises:
            StoreBusyError: a transaction with higher feed numbers has written to the run; a
            repeated
                transaction draws newer numbers, so rv and sequence have the same order.
        """
        row = self._rows.get(run_id)
        if row is None:
            return None
        if row.rv >= rvs[0]:
            raise StoreBusyError(
                cause=f"run {run_id} was written with newer feed numbers meanwhile"
            )
        first, row.sequence, row.rv = row.sequence + 1, row.sequence + len(rvs), rvs[-1]
        self._write(run_id, row, {"last_sequence": row.sequence, "feed_rv": row.rv})
        return Numbers(sequences=range(first, row.sequence + 1), rvs=rvs, time=row.time)

    def _write(self, run_id: RunId, row: LockedRow, columns: Mapping[str, object]) -> None:
        if self._session.waits(row.write):
            row.write.update(columns)
            return
        row.write = {**columns, "of_tenant": self._session.tenant_id, "of_run": run_id}
        self._session.later(_WRITE, row.write)
