"""Figures of the catalogue's storage: PostgreSQL with fsync on, and blobs in files.

A point read takes an object of many by its id, with and without its blob. Many writers raise one
pointer and must lose no increment. Records of files are stored create-only, as a capture does.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from time import perf_counter
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import Tables
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Bump
from datarecs_core.catalog.records import Account, Catalog, Namespace, Table
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import CAPTURE
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.builders import A_TENANT
from datarecs_testing.catalogue import a_catalog, a_namespace, a_table, an_account, file_stats
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.measured_servers import Servers, commits_per_second, servers
from datarecs_testing.threads import at_once

TABLES, READS = 200, 2_000
WRITERS, INCREMENTS = 48, 200
GROUP = 128
"""Files of a group, which one transaction records."""
Report = Mapping[str, object]


def catalogue(records: int) -> Report:
    """Point reads, increments of one pointer, and so many records of files."""
    with servers(kafka=False) as running, ExitStack() as held:
        database = running.database()
        account = _account(running, database, held)
        tables = _tables(account)
        return {
            "empty_commits_per_second": round(commits_per_second(database)),
            "point_read_ms": _reads(lambda table: _read_pointer(account, table), tables),
            "point_read_with_blob_ms": _reads(lambda table: _read_table(account, table), tables),
            "increments": _increments(account),
            "file_records": _file_records(account, tables[0], records),
        }


def _account(running: Servers, database: PreparedDatabase, held: ExitStack) -> CatalogueAccount:
    made = Database(database.url(CAPTURE), limits=Limits(pool_size=WRITERS))
    unit = PostgresUnitOfWork(held.enter_context(closing(made)), UuidV7Ids())
    folder = Path(running.folder) / "blobs"
    return CatalogueAccount(
        tenant=A_TENANT,
        pointers=PointerStore(unit=unit, tenant=A_TENANT),
        blobs=open_blob_stores(folder.as_uri()).of(A_TENANT),
        clock=SystemClock(),
    )


def _tables(account: CatalogueAccount) -> list[Table]:
    Entities(account, Account).create(an_account())
    catalog = Entities(account, Catalog).create(a_catalog()).record
    namespace = Entities(account, Namespace).create(a_namespace(catalog.id)).record
    made = [a_table(namespace, name=f"t{number}") for number in range(TABLES)]
    return [Tables(account).create(table).record for table in made]


def _read_pointer(account: CatalogueAccount, table: UUID) -> None:
    if account.pointers.get(layout.table_by_id(A_TENANT, table)) is None:
        raise RuntimeError("a table is missing")


def _read_table(account: CatalogueAccount, table: UUID) -> None:
    if Tables(account).get(table) is None:
        raise RuntimeError("a table is missing")


def _reads(read: Callable[[UUID], None], tables: list[Table]) -> Report:
    """Median and 95th percentile of one client, in milliseconds."""
    times = []
    for number in range(READS):
        began = perf_counter()
        read(tables[number % len(tables)].id)
        times.append((perf_counter() - began) * 1000)
    times.sort()
    return {"p50": round(times[READS // 2], 2), "p95": round(times[READS * 95 // 100], 2)}


def _increments(account: CatalogueAccount) -> Report:
    """Writers that raise one marker, as those of siblings do; each time in a transaction."""
    key = layout.idempotency(A_TENANT, "bench", "counter")

    def raise_version() -> None:
        for _ in range(INCREMENTS):
            account.pointers.batch([Bump(key=key)])

    began = perf_counter()
    at_once([raise_version] * WRITERS)
    seconds = perf_counter() - began
    counter = account.pointers.get(key)
    version = 0 if counter is None else counter.version
    if version != WRITERS * INCREMENTS:
        raise RuntimeError(f"{WRITERS * INCREMENTS - version} increments were lost")
    return {"version": version, "seconds": round(seconds, 1)}


def _file_records(account: CatalogueAccount, table: Table, records: int) -> Report:
    """Records a second, one group after another, and the seconds of one group."""
    times = []
    for first in range(0, records, GROUP):
        last = min(first + GROUP, records)
        group = [file_stats(table, 1, f"part-{number}") for number in range(first, last)]
        began = perf_counter()
        stored = Statistics(account).put_files(group)
        times.append(perf_counter() - began)
        if stored != len(group):
            raise RuntimeError("a record was not stored")
    times.sort()
    return {
        "records": records,
        "per_second": round(records / sum(times)),
        "group_seconds_p50": round(times[len(times) // 2], 3),
    }
