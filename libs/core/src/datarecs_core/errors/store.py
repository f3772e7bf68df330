"""DR58: why the platform database does not execute a statement.

A separate family because two adapters (PostgreSQL and its twin in memory) raise the same codes
and every loop uses them to decide whether to wait, repeat or stop.
"""

from collections.abc import Sequence

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class StoreCode(ErrorCode):
    STORE_UNAVAILABLE = Entry(
        docs_id="DR5801",
        meaning="The platform database cannot be reached, or it failed in a transaction.",
        causes="Server down or restarting, network cut, wrong password, no connection left.",
        remedy="Read the cause in the message; check DATARECS_DATABASE__URL and the server's log."
        " Work resumes automatically; nothing is lost.",
        retryable=True,
    )
    STORE_BUSY = Entry(
        docs_id="DR5802",
        meaning="Another transaction blocked this one; nothing was written.",
        causes="Deadlock, a lock held too long, a statement over its time limit, or a feed number"
        " that another writer of the same run has passed.",
        remedy="It is repeated automatically. If it persists, look for long transactions in the"
        " database.",
        retryable=True,
    )
    RUN_EXISTS = Entry(
        docs_id="DR5803",
        meaning="A run with this id, or for this schedule and time, exists already.",
        causes="The same trigger was executed twice.",
        remedy="Read the existing run.",
    )
    FEED_NOT_DRAWN = Entry(
        docs_id="DR5804",
        meaning="A transaction wrote to a change feed without reserved feed numbers.",
        causes="A defect: the `feed` passed to `begin` was too small, or a number was reserved"
        " after a write or a row lock.",
        remedy="Report it with the trace id; nothing was written.",
    )
    UNSAFE_LOGIN = Entry(
        docs_id="DR5805",
        meaning="The service's database login bypasses row-level security.",
        causes="The login is a superuser, has BYPASSRLS, or is a member of the schema's owner.",
        remedy="Use the role that `datarecs admin bootstrap-db` created for the service.",
    )
    TENANT_EXISTS = Entry(
        docs_id="DR5806",
        meaning="A tenant of this name exists already.",
        causes="`datarecs admin tenant create` with a name in use.",
        remedy="Choose another name; a lost admin key is replaced by a new key of that tenant.",
    )
    ROLES_MISSING = Entry(
        docs_id="DR5807",
        meaning="The database roles that the tables are granted to do not exist.",
        causes="The database was not prepared, or another server is meant.",
        remedy="Run `datarecs admin bootstrap-db` with an administrator's URL, then migrate.",
    )
    MIGRATION_BLOCKED = Entry(
        docs_id="DR5808",
        meaning="A migration did not get the lock on a table; nothing was changed.",
        causes="A long transaction holds the table, for instance a backup or a forgotten session.",
        remedy="Find it in pg_stat_activity, end it, and migrate again.",
        retryable=True,
    )
    SERVER_TOO_OLD = Entry(
        docs_id="DR5809",
        meaning="The database server is older than PostgreSQL 15.",
        causes="An old installation.",
        remedy="Use PostgreSQL 15 or newer.",
    )
    SERVICES_RUNNING = Entry(
        docs_id="DR5810",
        meaning="Services that must be stopped first are connected to the database or the broker;"
        " nothing was changed.",
        causes="`datarecs admin recover` was started while services run, or `datarecs admin"
        " migrate` would remove what a running service of an older release uses.",
        remedy="Stop the services that the message names (under an orchestrator scale them to"
        " zero, else it starts them again), or upgrade them, and repeat the command.",
    )


class ServicesRunningError(DatarecsError):
    """Services that must be stopped first are connected; nothing was changed."""

    code = StoreCode.SERVICES_RUNNING

    def __init__(self, *, running: Sequence[str], purpose: str) -> None:
        super().__init__(f"{purpose}, but these still run: {'; '.join(running)}")
        self.running, self.purpose = tuple(running), purpose
