"""A database that was restored to an earlier time: what it knows, and how it becomes safe to use.

As the schema's owner, because an operator does it once for all tenants while no service runs. The
topics, the blobs and the mailboxes are of a later time than the database; what they have is
compared by `datarecs_cli.recovering`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Connection, Row, Uuid, bindparam

from datarecs_core.values import EventId, RunId, TenantId, aware
from datarecs_postgres.ownership import as_owner
from datarecs_postgres.sessions import refuse_running_services
from datarecs_postgres.statements import statement

EPOCHS = 1_000
"""Added to every epoch: more than the leases that one lease can have had in the lost future."""
FEED_NUMBERS = 1_000_000
"""Feed numbers left out, so that no number of the lost future is drawn again."""
RESENT = timedelta(minutes=15)
"""Events of this time before the restored one are sent again."""
REST = timedelta(hours=1)
"""How long a run is not leased whose end is in the topics: the end closes it."""
FENCES = ("fence_runs", "fence_webhooks", "fence_mails", "fence_shards")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredState:
    """What the restored database knows."""

    now: datetime
    """Time of the database."""
    newest: datetime | None
    """When its newest event was written; None without events."""
    handled: Mapping[str, datetime]
    """By group, when the event was written that the group handled last; absent for one without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What `recover` changed."""

    leases: int
    """Of runs, webhook deliveries, mails and relay shards."""
    events: int
    """That are sent again."""


class RestoredDatabase:
    """The actions of `datarecs admin recover`; every one is safe to repeat.

    Raises StoreUnavailableError, StoreBusyError and RolesMissingError as `as_owner` does.
    """

    def __init__(self, url: str) -> None:
        """`url` is the login datarecs_migrate."""
        self._url = url

    def refuse_services(self, *, purpose: str) -> None:
        """Raise ServicesRunningError while a service has a session."""
        with as_owner(self._url) as connection:
            refuse_running_services(connection, purpose=purpose)

    def state(self, groups: Collection[str]) -> RestoredState:
        with as_owner(self._url) as connection:
            row = connection.execute(statement("recovery", "newest_event")).one()
            handled = {group: _last_handled(connection, group) for group in groups}
        return RestoredState(
            now=aware(row.now),
            newest=None if row.newest is None else aware(row.newest),
            handled={group: moment for group, moment in handled.items() if moment is not None},
        )

    def known_events(self, events: Sequence[tuple[TenantId, EventId]]) -> set[EventId]:
        """The events that the outbox has."""
        wanted: dict[str, list[UUID]] = {
            "tenants": [one for one, _ in events],
            "events": [one for _, one in events],
        }
        return {EventId(row.event_id) for row in self._rows("known_events", wanted)}

    def known_runs(self, runs: Collection[RunId]) -> set[RunId]:
        """The runs that exist."""
        return {RunId(row.run_id) for row in self._rows("known_runs", {"runs": list(runs)})}

    def completed_runs(self) -> list[tuple[TenantId, RunId]]:
        """Runs with a result in the blob store, by tenant."""
        rows = self._rows("completed_runs", {})
        return [(TenantId(row.tenant_id), RunId(row.run_id)) for row in rows]

    def recover(self, *, until: datetime, ended: Collection[RunId], dry_run: bool) -> Recovered:
        """Fence every lease, send the last events again and leave out feed numbers; one commit.

        Args:
            until: the newest time that the database knows.
            ended: runs with an end in the topics that the database does not know.
            dry_run: roll back, and only return the numbers.
        """
        with self._transaction(dry_run=dry_run) as connection:
            fencing = statement("recovery", "fence_runs").bindparams(
                bindparam("ended", list(ended), type_=ARRAY(Uuid)), rest=REST, step=EPOCHS
            )
            leases = connection.execute(fencing).rowcount
            for name in FENCES[1:]:
                leases += connection.execute(statement("recovery", name), {"step": EPOCHS}).rowcount
            connection.execute(statement("recovery", "forget_relays"))
            events = connection.execute(
                statement("recovery", "reopen_events"), {"since": until - RESENT, "until": until}
            ).rowcount
            if not dry_run:  # a sequence does not roll back
                connection.execute(statement("recovery", "advance_feed"), {"step": FEED_NUMBERS})
        return Recovered(leases=leases, events=events)

    @contextmanager
    def _transaction(self, *, dry_run: bool) -> Iterator[Connection]:
        with as_owner(self._url) as connection:
            yield connection
            if dry_run:
                connection.rollback()

    def _rows(self, name: str, lists: Mapping[str, Sequence[UUID]]) -> Sequence[Row[Any]]:
        typed = [bindparam(key, value, type_=ARRAY(Uuid)) for key, value in lists.items()]
        with as_owner(self._url) as connection:
            return connection.execute(statement("recovery", name).bindparams(*typed)).all()


def _last_handled(connection: Connection, group: str) -> datetime | None:
    moment = connection.execute(statement("recovery", "last_handled"), {"group": group}).scalar()
    return None if moment is None else aware(moment)
