"""A child with a source query that takes an hour: real process, connector and query.

Separate from the scripted children because orphans only exist with real processes and sessions. The
address of its database is in the first frame, not in an event.
"""

import sys
from collections.abc import Mapping

from datarecs_application.child_frames import READY, RUN
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.scan import Scan, ScanColumn
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.frames import take_over_stdio

QUERY = "SELECT 1 AS one FROM pg_sleep(3600)"
SOURCE = Source(name="slow", kind=SourceKind.POSTGRES, connection="c", query=QUERY)


def main() -> int:
    """Query, and wait to be ended: a stop frame is not read during the query."""
    channel = take_over_stdio()
    hello = channel.receive()
    if hello is None:
        return 0
    channel.send({"type": READY})
    while (frame := channel.receive()) is not None:
        if frame.get("type") == RUN:
            _run_query(hello)
    return 0


def _run_query(where: Mapping[str, object]) -> None:
    connection = Connection(
        type=ConnectionType.POSTGRES,
        config=PostgresConfig(
            host=str(where["host"]),
            port=int(str(where["port"])),
            database=str(where["database"]),
            user=str(where["user"]),
            sslmode=SslMode.DISABLE,
        ),
    )
    surroundings = Surroundings(
        roots=(),
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        now=SystemClock().now,
    )
    connector = open_connector(
        SOURCE, connection, {"password": str(where["password"])}, surroundings=surroundings
    )
    held = connector.pin(SOURCE)
    schema = connector.describe(SOURCE, held.pin)
    scan = Scan(
        source=SOURCE.name,
        index=0,
        kind=SOURCE.kind,
        connection=SOURCE.connection,
        query=SOURCE.query,
        columns=tuple(
            ScanColumn(name=column.name, physical=column.name, type=column.type)
            for column in schema.columns
        ),
        schema=schema,
        pin=held.pin,
        limits=SOURCE.limits,
    )
    for _ in connector.rows(scan):
        pass


if __name__ == "__main__":
    sys.exit(main())
