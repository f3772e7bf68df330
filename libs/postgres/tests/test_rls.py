"""Rights in the real database: exactly those of `rls.py`, and refusals proven by their roles."""

from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import (
    CheckViolation,
    ForeignKeyViolation,
    InsufficientPrivilege,
    InvalidTextRepresentation,
)

from datarecs_events.catalogue import EVENT_TYPES_BY_SERVICE, DataRecsEventType, Service
from datarecs_postgres.function_rights import FUNCTIONS
from datarecs_postgres.policies import FunctionAccess
from datarecs_postgres.rls import TABLES, main
from datarecs_postgres.roles import (
    API,
    CONTROLLER,
    MAIL,
    OWNER,
    READ,
    RELAY,
    RESOURCES,
    SERVICE_OF,
    SERVICES,
    UNPRIVILEGED,
    WEBHOOK,
    WORKER_RUN,
)
from datarecs_postgres.schema_check import schema_faults
from datarecs_testing.builders import A_TENANT, B_TENANT, an_api_key, an_id
from datarecs_testing.conformance.resources import stored
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.deliveries import a_mail

pytestmark = pytest.mark.integration

TENANT_TABLES = [access.table for access in TABLES if access.tenant]
READABLE = [
    (access.table, grant.role)
    for access in TABLES
    if access.tenant
    for grant in access.grants
    if grant.privilege == "SELECT" and not grant.columns and grant.role != RELAY
]


def tenant(connection: psycopg.Connection[tuple[object, ...]], value: object) -> None:
    connection.execute("SELECT set_config('app.tenant_id', %s, false)", (str(value),))


def filled(stores: Stores) -> None:
    """A row of each kind for both tenants."""
    for owner in (A_TENANT, B_TENANT):
        run = stores.queued(tenant_id=owner)
        resource = stored(stores, tenant_id=owner)
        with stores.controller.unit.begin(owner) as tx:
            tx.timers.put(run.run_id, "deadline", tx.now - timedelta(hours=1))
            tx.inbox.first_time("run-controller", "/datarecs/core-api", run.run_id)  # type: ignore[arg-type]  # any id
        with stores.api.unit.begin(owner) as tx:
            tx.secrets.put(resource.uid, "signing", "k1", b"sealed")
            tx.api_keys.add(an_api_key(tenant_id=owner))
            tx.retention.sweep_soon(resource.uid)


class TestSchema:
    @pytest.mark.case("X07")
    @pytest.mark.case("X96")
    def test_the_database_grants_exactly_what_the_page_says(
        self, database: PreparedDatabase
    ) -> None:
        assert schema_faults(database.url(READ)) == []

    @pytest.mark.case("X07")
    @pytest.mark.parametrize(
        ("planted", "named"),
        [
            (
                "CREATE TABLE datarecs.extra (tenant_id uuid PRIMARY KEY)",
                ["table extra is not in rls.py", "table extra has no row-level security"],
            ),
            (
                "ALTER TABLE datarecs.run NO FORCE ROW LEVEL SECURITY",
                ["table run does not force row-level security"],
            ),
            (
                "ALTER TABLE datarecs.run DISABLE ROW LEVEL SECURITY",
                ["table run has no row-level security"],
            ),
            (
                "DROP POLICY tenant_api ON datarecs.run",
                ["policy tenant_api on run is missing or differs"],
            ),
            (
                "CREATE POLICY all_of_it ON datarecs.run TO datarecs_api USING (true)",
                ["policy all_of_it on run differs from rls.py"],
            ),
            (
                "ALTER POLICY tenant_api ON datarecs.run USING (true)",
                ["policy tenant_api on run differs from rls.py"],
            ),
            (
                "GRANT UPDATE (status) ON datarecs.run TO datarecs_api",
                ["UPDATE on run.status for datarecs_api differs from rls.py"],
            ),
            (
                "GRANT SELECT ON datarecs.run TO PUBLIC",
                ["SELECT on run for PUBLIC differs from rls.py"],
            ),
            (
                "REVOKE SELECT ON datarecs.run FROM datarecs_mail",
                ["SELECT on run for datarecs_mail is missing or differs"],
            ),
            (
                "CREATE UNIQUE INDEX by_name ON datarecs.resource (name)",
                ["unique index by_name of resource does not include the tenant"],
            ),
            (
                "CREATE FUNCTION datarecs.peek() RETURNS int SECURITY DEFINER RETURN 1",
                [
                    "function peek is open to PUBLIC",
                    "definer function peek does not pin its search_path",
                    "function peek is not in rls.py",
                ],
            ),
            (
                "GRANT EXECUTE ON FUNCTION datarecs.claim_runs TO datarecs_mail",
                ["function claim_runs is granted to datarecs_controller, datarecs_mail"],
            ),
            (
                "ALTER FUNCTION datarecs.claim_runs RESET search_path",
                ["definer function claim_runs does not pin its search_path"],
            ),
            (
                "ALTER FUNCTION datarecs.claim_runs SECURITY INVOKER",
                ["function claim_runs runs with other rights than in rls.py"],
            ),
            ("DROP FUNCTION datarecs.feed_after", ["function feed_after is missing"]),
            (
                "DROP TABLE datarecs.inbox",
                ["table inbox is missing"],
            ),
        ],
    )
    def test_every_planted_fault_is_named(
        self, private_database: PreparedDatabase, planted: LiteralString, named: list[str]
    ) -> None:
        private_database.query(planted)
        assert set(named) <= set(schema_faults(private_database.admin_url))

    def test_partitions_carry_no_grant(self, database: PreparedDatabase) -> None:
        granted = database.query(
            "SELECT relname FROM pg_class WHERE relnamespace = 'datarecs'::regnamespace"
            " AND relispartition AND relacl IS NOT NULL AND relkind = 'r'"
        )
        assert granted == []

    def test_nobody_but_the_roles_may_connect(self, database: PreparedDatabase) -> None:
        rows = database.query(
            "SELECT has_database_privilege('public', current_database(), 'CONNECT')"
        )
        assert rows == [(False,)]

    def test_every_login_is_bound_by_row_security(self, database: PreparedDatabase) -> None:
        rows = database.query(
            "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)"
            " AND (rolsuper OR rolbypassrls OR rolcreaterole OR pg_has_role(oid, %s, 'MEMBER'))",
            (list(UNPRIVILEGED), OWNER),
        )
        assert rows == []

    def test_the_page_prints_the_statements_of_a_migration(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["inbox", "claim_runs"]) == 0
        printed = capsys.readouterr().out
        assert "CREATE POLICY tenant_mail ON datarecs.inbox TO datarecs_mail" in printed
        assert "REVOKE ALL ON FUNCTION datarecs.claim_runs(integer) FROM PUBLIC;" in printed


class TestTenancy:
    @pytest.mark.case("X05")
    @pytest.mark.parametrize("value", [None, ""])
    def test_without_a_tenant_no_row_of_any_table_is_seen(
        self, stores: Stores, database: PreparedDatabase, value: str | None
    ) -> None:
        filled(stores)
        seen = {}
        for table, role in READABLE:
            with database.connect(role) as connection:
                if value is not None:
                    tenant(connection, value)
                count = sql.SQL("SELECT count(*) FROM datarecs.{}").format(sql.Identifier(table))
                seen[table, role] = connection.execute(count).fetchone()
        assert set(seen.values()) == {(0,)}

    @pytest.mark.case("X05")
    def test_what_is_no_tenant_id_is_an_error_and_no_row(self, database: PreparedDatabase) -> None:
        with database.connect(API) as connection:
            tenant(connection, "not a uuid")
            with pytest.raises(InvalidTextRepresentation):
                connection.execute("SELECT count(*) FROM datarecs.run")

    def test_with_a_tenant_only_its_rows_are_seen(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        filled(stores)
        for table, role in READABLE:
            with database.connect(role) as connection:
                tenant(connection, A_TENANT)
                owners = sql.SQL("SELECT DISTINCT tenant_id FROM datarecs.{}")
                rows = connection.execute(owners.format(sql.Identifier(table))).fetchall()
            assert rows in ([], [(A_TENANT,)]), (table, role)

    @pytest.mark.case("X06")
    def test_a_row_of_b_is_neither_inserted_nor_made_by_a(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.triggered()
        with database.connect(API) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(InsufficientPrivilege):
                connection.execute(
                    "INSERT INTO datarecs.run_timer (tenant_id, run_id, reason, due_at)"
                    " VALUES (%s, %s, 'x', now())",
                    (B_TENANT, run.run_id),
                )
        with database.connect(WEBHOOK) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(InsufficientPrivilege):
                connection.execute(
                    "INSERT INTO datarecs.inbox (tenant_id, consumer, source, event_id)"
                    " VALUES (%s, 'c', 's', %s)",
                    (B_TENANT, an_id()),
                )

    @pytest.mark.case("X06")
    def test_a_reference_does_not_cross_tenants(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        theirs = stores.triggered(tenant_id=B_TENANT)
        with database.connect(API) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(ForeignKeyViolation):
                connection.execute(
                    "INSERT INTO datarecs.run_timer (tenant_id, run_id, reason, due_at)"
                    " VALUES (%s, %s, 'x', now())",
                    (A_TENANT, theirs.run_id),
                )

    def test_the_tenant_is_gone_with_its_transaction(self, database: PreparedDatabase) -> None:
        with database.connect(API) as connection:
            with connection.transaction():
                connection.execute("SELECT set_config('app.tenant_id', 'x', true)")
            left = connection.execute("SELECT current_setting('app.tenant_id', true)").fetchone()
        assert left == ("",)


class TestGrants:
    @pytest.mark.case("L47")
    @pytest.mark.parametrize("role", [API, WORKER_RUN, MAIL, WEBHOOK, READ])
    def test_only_the_controller_writes_a_status(
        self, stores: Stores, database: PreparedDatabase, role: str
    ) -> None:
        run = stores.triggered()
        with database.connect(role) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(InsufficientPrivilege):
                connection.execute(
                    "UPDATE datarecs.run SET status = 'COMPLETED' WHERE run_id = %s", (run.run_id,)
                )

    @pytest.mark.case("L47")
    @pytest.mark.case("X70")
    @pytest.mark.parametrize("role", SERVICES)
    def test_a_service_puts_its_types_into_the_outbox_and_no_others(
        self, database: PreparedDatabase, role: str
    ) -> None:
        types = EVENT_TYPES_BY_SERVICE[Service(SERVICE_OF[role])]
        passed = set()
        with database.connect(role) as connection:
            tenant(connection, A_TENANT)
            for event_type in DataRecsEventType:
                try:
                    self.insert(connection, event_type)
                except InsufficientPrivilege:
                    continue
                passed.add(event_type)
        assert passed == types
        services = database.query("SELECT DISTINCT service FROM datarecs.outbox")
        assert services == [(SERVICE_OF[role],)]

    def test_nobody_says_who_wrote_an_event(self, database: PreparedDatabase) -> None:
        with database.connect(API) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(InsufficientPrivilege):
                connection.execute(
                    "INSERT INTO datarecs.outbox (event_id, tenant_id, service, type, topic,"
                    " partition_key, shard, headers, data)"
                    " VALUES (%s, %s, 'run-controller', %s, 't', 'k', 0, '[]', '')",
                    (an_id(), A_TENANT, DataRecsEventType.RUN_TRIGGERED),
                )

    @pytest.mark.parametrize("role", [RELAY, READ])
    def test_relay_and_readers_insert_nothing(self, database: PreparedDatabase, role: str) -> None:
        with database.connect(role) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(InsufficientPrivilege):
                self.insert(connection, DataRecsEventType.RUN_TRIGGERED)

    def test_the_relay_sees_the_outbox_and_no_other_table_of_a_tenant(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        filled(stores)
        readable = []
        with database.connect(RELAY) as connection:
            for table in TENANT_TABLES:
                count = sql.SQL("SELECT count(*) FROM datarecs.{}").format(sql.Identifier(table))
                try:
                    connection.execute(count)
                except InsufficientPrivilege:
                    continue
                readable.append(table)
        assert readable == ["outbox"]

    @pytest.mark.case("R07")
    def test_a_users_role_writes_no_status_of_a_resource(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        resource = stored(stores)
        with database.connect(API) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(InsufficientPrivilege):
                connection.execute(
                    "UPDATE datarecs.resource SET status = '{}' WHERE uid = %s", (resource.uid,)
                )

    @pytest.mark.case("R58")
    def test_retention_removes_no_open_run_and_no_open_mail(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run, mail = stores.queued(), a_mail()
        with stores.mail.unit.begin(A_TENANT) as tx:
            tx.mails.add(mail)
        with database.connect(RESOURCES) as connection:
            tenant(connection, A_TENANT)
            runs = connection.execute(
                "DELETE FROM datarecs.run WHERE run_id = %s", (run.run_id,)
            ).rowcount
            mails = connection.execute(
                "DELETE FROM datarecs.email_delivery WHERE delivery_id = %s", (mail.delivery_id,)
            ).rowcount
        assert (runs, mails) == (0, 0)

    @pytest.mark.parametrize("column", ["recipient", "mime"])
    def test_retention_reads_no_content_of_mails(
        self, database: PreparedDatabase, column: str
    ) -> None:
        with database.connect(RESOURCES) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(InsufficientPrivilege):
                connection.execute(
                    sql.SQL("SELECT {} FROM datarecs.email_delivery").format(sql.Identifier(column))
                )

    def test_core_api_stores_a_secret_and_cannot_read_it(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        resource = stored(stores)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.secrets.put(resource.uid, "signing", "k1", b"sealed")
        with database.connect(API) as connection:
            tenant(connection, A_TENANT)
            label = connection.execute("SELECT key_id FROM datarecs.sealed_secret").fetchall()
            with pytest.raises(InsufficientPrivilege):
                connection.execute("SELECT sealed FROM datarecs.sealed_secret")
        assert label == [("k1",)]

    @pytest.mark.parametrize("role", UNPRIVILEGED)
    @pytest.mark.parametrize(
        "statement",
        ["UPDATE datarecs.audit_event SET actor = 'x'", "DELETE FROM datarecs.audit_event"],
    )
    def test_nobody_changes_the_audit(
        self, database: PreparedDatabase, role: str, statement: LiteralString
    ) -> None:
        with (
            database.connect(role) as connection,
            pytest.raises(InsufficientPrivilege),
        ):
            connection.execute(statement)

    def test_a_service_makes_no_tables(self, database: PreparedDatabase) -> None:
        for role in UNPRIVILEGED:
            with (
                database.connect(role) as connection,
                pytest.raises(InsufficientPrivilege),
            ):
                connection.execute("CREATE TABLE datarecs.mine (id int)")

    def test_a_status_and_its_result_agree(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.triggered()
        with database.connect(CONTROLLER) as connection:
            tenant(connection, A_TENANT)
            with pytest.raises(CheckViolation):
                connection.execute(
                    "UPDATE datarecs.run SET status = 'COMPLETED' WHERE run_id = %s", (run.run_id,)
                )

    @staticmethod
    def insert(
        connection: psycopg.Connection[tuple[object, ...]], event_type: DataRecsEventType
    ) -> None:
        connection.execute(
            "INSERT INTO datarecs.outbox"
            " (event_id, tenant_id, type, topic, partition_key, shard, headers, data)"
            " VALUES (%s, %s, %s, 't', 'k', 0, '[]', '')",
            (an_id(), A_TENANT, event_type.value),
        )


CALLS: dict[str, LiteralString] = {
    "claim_runs": "SELECT tenant_id, run_id FROM datarecs.claim_runs(10)",
    "due_timers": "SELECT tenant_id, run_id, reason FROM datarecs.due_timers(10)",
    "due_tenants": "SELECT tenant_id, items FROM datarecs.due_tenants('run_leases')",
    "lease_run": "SELECT * FROM datarecs.lease_run('worker-1', '60 s')",
    "feed_after": "SELECT tenant_id, rv FROM datarecs.feed_after('run', 0, 10)",
    "resolve_api_key": "SELECT tenant_id FROM datarecs.resolve_api_key('x')",
    "resolve_session": "SELECT tenant_id FROM datarecs.resolve_session(sha256(''::bytea))",
    "maintain_partitions": "SELECT * FROM datarecs.maintain_partitions()",
    "divide_outbox": "SELECT datarecs.divide_outbox(16)",
    "outbox_shards": "SELECT datarecs.outbox_shards()",
    "run_backlog": "SELECT * FROM datarecs.run_backlog()",
    "claim_deliveries": "SELECT * FROM datarecs.claim_deliveries(10)",
    "claim_mails": "SELECT * FROM datarecs.claim_mails(10)",
    "claim_schedules": "SELECT * FROM datarecs.claim_schedules(10)",
    "claim_sweeps": "SELECT * FROM datarecs.claim_sweeps(5)",
    "claim_resources": "SELECT * FROM datarecs.claim_resources('{}', 10)",
    "adopt_resources": "SELECT datarecs.adopt_resources('{}')",
    "resource_backlog": "SELECT * FROM datarecs.resource_backlog()",
    "decide_schedules_again": "SELECT datarecs.decide_schedules_again('2026b')",
    "report_stats": "SELECT datarecs.report_stats(gen_random_uuid(), '{}')",
    "read_stats": "SELECT * FROM datarecs.read_stats()",
    "lease_check": "SELECT * FROM datarecs.lease_check('120 s')",
    "claim_work": "SELECT * FROM datarecs.claim_work('w', '{}', '{}', '{}', '{}', '60 s', 1, NULL)",
    "capture_tenants": "SELECT * FROM datarecs.capture_tenants('old')",
    "claim_sink_tasks": "SELECT * FROM datarecs.claim_sink_tasks('w', '30 s', 4)",
    "halted_sink_tasks": "SELECT datarecs.halted_sink_tasks()",
    "keep_outbox": "SELECT datarecs.keep_outbox(30)",
    "unheard_events": "SELECT * FROM datarecs.unheard_events('t', '{}', now(), now(), 0, 10)",
    "event_memory": "SELECT * FROM datarecs.event_memory()",
}
"""How each of the doors is called."""


@pytest.mark.case("X96")
class TestDefinerFunctions:
    @pytest.mark.parametrize("access", [one for one in FUNCTIONS if one.definer])
    def test_others_are_refused(self, database: PreparedDatabase, access: FunctionAccess) -> None:
        for role in sorted(set(UNPRIVILEGED) - set(access.roles)):
            with (
                database.connect(role) as connection,
                pytest.raises(InsufficientPrivilege),
            ):
                connection.execute(CALLS[access.name])

    def test_the_granted_role_gets_ids_of_both_tenants_and_still_sees_no_row(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        filled(stores)
        with database.connect(CONTROLLER) as connection:
            timers = connection.execute(CALLS["due_timers"]).fetchall()
            rows = connection.execute("SELECT count(*) FROM datarecs.run").fetchone()
        assert {row[0] for row in timers} == {A_TENANT, B_TENANT}
        assert rows == (0,)

    def test_runs_to_reconcile_of_both_tenants_are_claimed(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        stores.triggered()
        stores.triggered(tenant_id=B_TENANT)
        with database.connect(CONTROLLER) as connection:
            claimed = connection.execute(CALLS["claim_runs"]).fetchall()
            rows = connection.execute("SELECT count(*) FROM datarecs.run").fetchone()
        assert {row[0] for row in claimed} == {A_TENANT, B_TENANT}
        assert rows == (0,)

    def test_the_feed_returns_tenants_and_numbers(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        filled(stores)
        with database.connect(API) as connection:
            feed = connection.execute(CALLS["feed_after"]).fetchall()
            rows = connection.execute("SELECT count(*) FROM datarecs.run_event").fetchone()
        assert {row[0] for row in feed} == {A_TENANT, B_TENANT}
        assert rows == (0,)

    def test_expired_leases_of_both_tenants_are_counted(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        stores.queued()
        stores.queued(tenant_id=B_TENANT)
        for number in range(2):
            stores.worker.finder.lease_run(f"worker-{number}")
        stores.pass_time(timedelta(minutes=2))
        with database.connect(CONTROLLER) as connection:
            due = connection.execute(CALLS["due_tenants"]).fetchall()
        assert sorted(due) == [(A_TENANT, 1), (B_TENANT, 1)]

    def test_a_lease_is_granted_across_tenants_and_shows_no_row(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.queued(tenant_id=B_TENANT)
        with database.connect(WORKER_RUN) as connection:
            leased = connection.execute(CALLS["lease_run"]).fetchall()
            rows = connection.execute("SELECT count(*) FROM datarecs.run").fetchone()
        assert [row[:2] for row in leased] == [(B_TENANT, run.run_id)]
        assert rows == (0,)
