"""Connections, transactions and what becomes of a driver's error."""

import threading
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.state import Transaction
from datarecs_core.runs.model import Run, Wish
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.failures import UnsafeLoginError
from datarecs_postgres.migrate import downgrade
from datarecs_postgres.roles import API, CONTROLLER, LOGINS, MIGRATE, READ, UNPRIVILEGED
from datarecs_postgres.session import Woken, concerns
from datarecs_postgres.unit_of_work import PostgresTransaction, PostgresUnitOfWork
from datarecs_testing.builders import A_TENANT, B_TENANT, a_run
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.stores import Stores, carry_out, queued
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration


def cut(database: PreparedDatabase) -> None:
    """End every connection of core-api, as a failing network would; they have ended on return."""
    ended = database.query(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE usename = %s", (API,)
    )
    assert all(is_ended for (is_ended,) in ended)


class TestTenantScope:
    @pytest.mark.case("X05")
    def test_a_pooled_connection_retains_no_tenant(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        stores.triggered()
        with closing(Database(database.url(API), limits=Limits(pool_size=1))) as pool:
            with pool.transaction(A_TENANT) as session:
                seen = session.execute(text("SELECT count(*) FROM datarecs.run")).scalar()
            with pool.platform() as connection:
                left = connection.execute(text("SELECT count(*) FROM datarecs.run")).scalar()
            with pool.transaction(B_TENANT) as session:
                other = session.execute(text("SELECT count(*) FROM datarecs.run")).scalar()
        assert (seen, left, other) == (1, 0, 0)

    def test_limits_hold_inside_the_transaction_and_end_with_it(
        self, database: PreparedDatabase
    ) -> None:
        limits = Limits(
            pool_size=1,
            statement_timeout=timedelta(seconds=7),
            lock_timeout=timedelta(milliseconds=1500),
            idle_timeout=timedelta(seconds=9),
        )
        show = text(
            "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),"
            " current_setting('idle_in_transaction_session_timeout')"
        )
        with (
            closing(Database(database.url(API), limits=limits)) as pool,
            pool.transaction(A_TENANT) as session,
        ):
            inside = tuple(session.execute(show).one())
        assert inside == ("7s", "1500ms", "9s")

    def test_a_reading_transaction_writes_nothing(self, database: PreparedDatabase) -> None:
        with (
            closing(Database(database.url(API))) as pool,
            pytest.raises(Exception, match="read-only"),
        ):
            self.write(pool)

    @staticmethod
    def write(pool: Database) -> None:
        with pool.transaction(A_TENANT, read_only=True) as session:
            session.execute(text("UPDATE datarecs.run SET wish = 'STOP'"))

    def test_a_single_question_has_tenant_and_limits_for_itself_alone(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        stores.triggered()
        limits = Limits(pool_size=1, statement_timeout=timedelta(seconds=7))
        names = ("app.tenant_id", "statement_timeout", "transaction_read_only")
        shown = select(
            select(func.count()).select_from(text("datarecs.run")).scalar_subquery(),
            *(func.current_setting(name) for name in names),
        )
        with closing(Database(database.url(API), limits=limits)) as pool:
            seen = [tuple(pool.query(tenant, shown)[0]) for tenant in (A_TENANT, B_TENANT, None)]
            plain = tuple(pool.call(shown)[0])
            with pool._engine.connect() as bare:  # noqa: SLF001  what is left on the connection
                left = bare.execute(shown).one()
        assert seen == [
            (1, str(A_TENANT), "7s", "on"),
            (0, str(B_TENANT), "7s", "on"),
            (0, "", "7s", "on"),
        ]
        assert plain == (0, "", "7s", "off")
        assert tuple(left) == (0, "", "0", "off")

    def test_a_question_writes_nothing(self, database: PreparedDatabase) -> None:
        with (
            closing(Database(database.url(API))) as pool,
            pytest.raises(Exception, match="read-only"),
        ):
            pool.query(A_TENANT, text("UPDATE datarecs.run SET wish = 'STOP' RETURNING run_id"))

    def test_a_reading_transaction_sees_one_moment(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        with (
            closing(Database(database.url(API))) as pool,
            pool.transaction(A_TENANT, read_only=True) as session,
        ):
            before = session.execute(text("SELECT count(*) FROM datarecs.run")).scalar()
            stores.triggered()
            after = session.execute(text("SELECT count(*) FROM datarecs.run")).scalar()
        assert (before, after) == (0, 0)


class TestFailures:
    SLEEP, ONE = text("SELECT pg_sleep(5)"), text("SELECT 1")
    RUNS = text("SELECT count(*), current_setting('app.tenant_id') FROM datarecs.run")

    def test_an_unreachable_server_is_unavailable(self) -> None:
        unit = PostgresUnitOfWork(Database("postgresql://u:secret@127.0.0.1:1/d"), FixedIds())
        with pytest.raises(StoreUnavailableError) as failure:
            carry_out(unit, A_TENANT, lambda tx: tx.now)
        assert failure.value.retryable
        assert failure.value.__cause__ is not None
        assert "secret" not in str(failure.value)

    def test_a_cut_connection_is_unavailable_and_the_next_transaction_works(
        self, database: PreparedDatabase
    ) -> None:
        with closing(Database(database.url(API), limits=Limits(pool_size=1))) as pool:
            unit = PostgresUnitOfWork(pool, FixedIds())

            def cut_and_read(tx: Transaction) -> None:
                tx.runs.get(a_run().run_id)
                cut(database)
                tx.runs.get(a_run().run_id)

            with pytest.raises(StoreUnavailableError):
                carry_out(unit, A_TENANT, cut_and_read)
            assert carry_out(unit, A_TENANT, lambda tx: tx.runs.get(a_run().run_id)) is None

    def test_connections_that_died_while_nobody_used_them_are_replaced_unnoticed(
        self, database: PreparedDatabase
    ) -> None:
        with closing(Database(database.url(API), limits=Limits(pool_size=2))) as pool:
            unit = PostgresUnitOfWork(pool, FixedIds())
            for use in (
                lambda: carry_out(unit, A_TENANT, lambda tx: tx.tenant_id),
                lambda: pool.query(A_TENANT, select(func.current_setting("app.tenant_id")))[0][0],
                lambda: pool.call(text("SELECT 1"))[0][0],
            ):
                with pool.transaction(A_TENANT), pool.transaction(A_TENANT):
                    pass  # both connections are open, and idle
                cut(database)
                assert str(use()) in {str(A_TENANT), "1"}

    def test_a_commit_on_a_cut_connection_is_never_said_to_stand(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = a_run()

        def add_and_cut(tx: Transaction) -> None:
            tx.runs.add(run)
            cut(database)
            with suppress(DBAPIError):
                tx.runs.get(run.run_id)  # if this is ignored, the commit raises it again

        with (
            closing(Database(database.url(API))) as pool,
            pytest.raises(StoreUnavailableError),
        ):
            carry_out(PostgresUnitOfWork(pool, FixedIds()), A_TENANT, add_and_cut)
        assert stores.queries.run(A_TENANT, run.run_id) is None

    @pytest.mark.case("L09")
    def test_a_connection_cut_before_commit_leaves_nothing(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = a_run()

        def add_and_cut(tx: Transaction) -> None:
            tx.runs.add(run)
            cut(database)

        with (
            closing(Database(database.url(API), limits=Limits(pool_size=1))) as pool,
            pytest.raises(StoreUnavailableError),
        ):
            carry_out(PostgresUnitOfWork(pool, FixedIds()), A_TENANT, add_and_cut)
        assert stores.queries.run(A_TENANT, run.run_id) is None

    def test_a_used_up_pool_is_unavailable(
        self, database: PreparedDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with closing(Database(database.url(API), limits=Limits(pool_size=1))) as pool:
            monkeypatch.setattr(pool._engine.pool, "_timeout", 0.05)  # noqa: SLF001  no 5 s here
            unit = PostgresUnitOfWork(pool, FixedIds())
            with unit.begin(A_TENANT), pytest.raises(StoreUnavailableError, match="in use"):
                carry_out(unit, A_TENANT, lambda tx: tx.now)

    def test_a_statement_over_its_limit_is_busy(self, database: PreparedDatabase) -> None:
        limits = Limits(statement_timeout=timedelta(milliseconds=50))
        with closing(Database(database.url(API), limits=limits)) as pool:
            for query in (pool.call, pool.answer):
                with pytest.raises(StoreBusyError, match="too long"):
                    query(self.SLEEP, {})
            assert pool.answer(self.ONE, {}) == [(1,)]

    def test_what_is_queried_outside_tenants_sees_none_and_leaves_none(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        stores.triggered()
        with closing(Database(database.url(API), limits=Limits(pool_size=1))) as pool:
            with pool.transaction(A_TENANT) as session:
                inside = session.answer(self.RUNS, {}).fetchone()
            outside = pool.answer(self.RUNS, {})
        assert (inside, outside) == ((1, str(A_TENANT)), [(0, "")])

    def test_a_defect_passes_as_it_is(self, stores: Stores, database: PreparedDatabase) -> None:
        stores.triggered()
        broken = text("UPDATE datarecs.run SET wish = 'MAYBE'")
        with (
            closing(Database(database.url(API))) as pool,
            pytest.raises(IntegrityError),
            pool.transaction(A_TENANT) as session,
        ):
            session.execute(broken)


class TestBeginning:
    """BEGIN travels with the first question."""

    OPEN = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND xact_start IS NOT NULL"
    NOW, PID = text("SELECT now()"), text("SELECT pg_backend_pid()")

    def test_a_transaction_begins_with_the_first_question_and_reports_its_time(
        self, database: PreparedDatabase
    ) -> None:
        with closing(Database(database.url(READ))) as pool, pool.transaction(A_TENANT) as session:
            before = database.query(self.OPEN, (READ,))
            ((later,),) = database.query("SELECT clock_timestamp()")
            started = session.answer(self.NOW, {}).fetchone()
            begun = database.query(self.OPEN, (READ,))
        assert (before, begun) == ([(0,)], [(1,)])
        assert started == (session.now,)
        assert session.now > later

    def test_a_connection_that_dies_before_it_is_replaced_also_under_a_waiting_write(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.triggered()
        with closing(Database(database.url(API), limits=Limits(pool_size=1))) as pool:
            pids = []
            for _ in range(2):
                with pool.transaction(A_TENANT, feed=1) as session:
                    cut(database)
                    pids.append(session.answer(self.PID, {}).fetchone())
                    assert session.next_rv() > 0
            with pool.transaction(A_TENANT) as session:
                session.later(
                    TestWhatTravelsTogether.PUT,
                    {"tenant": A_TENANT, "run": run.run_id, "reason": "late"},
                )
                cut(database)
        assert len(set(pids)) == 2
        timers = database.query("SELECT count(*) FROM datarecs.run_timer WHERE reason = 'late'")
        assert timers == [(1,)]

    def test_one_that_could_not_begin_never_commits(self, database: PreparedDatabase) -> None:
        def query_and_continue(tx: Transaction) -> None:
            cut(database)
            database.query("ALTER ROLE datarecs_api NOLOGIN")
            with suppress(DBAPIError):
                tx.runs.get(a_run().run_id)
            database.query("ALTER ROLE datarecs_api LOGIN")

        with (
            closing(Database(database.url(API), limits=Limits(pool_size=1))) as pool,
            pytest.raises(StoreUnavailableError, match="not permitted"),
        ):
            carry_out(PostgresUnitOfWork(pool, FixedIds()), A_TENANT, query_and_continue)


class TestWhatTravelsTogether:
    """A write without a result is sent with the next query or with COMMIT."""

    PUT = text("INSERT INTO datarecs.run_timer VALUES (:tenant, :run, :reason, now())")

    def put(self, run: Run, reason: str) -> dict[str, object]:
        return {"tenant": run.tenant_id, "run": run.run_id, "reason": reason}

    def put_all(self, pool: Database, run: Run, *reasons: str) -> None:
        with pool.transaction(A_TENANT) as session:
            for reason in reasons:
                session.later(self.PUT, self.put(run, reason))

    def stop_and_query(self, pool: Database, run: Run) -> None:
        stop = text("UPDATE datarecs.run SET wish = 'STOP' WHERE run_id = :run")
        with pool.transaction(A_TENANT) as session:
            session.later(stop, {"run": run.run_id})
            session.answer(text("SELECT 1"), {})

    def timers(self, database: PreparedDatabase) -> set[str]:
        return {reason for (reason,) in database.query("SELECT reason FROM datarecs.run_timer")}

    def test_the_next_question_sees_it_from_any_caller(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run, count = stores.triggered(), text("SELECT count(*) FROM datarecs.run_timer")
        database.query("DELETE FROM datarecs.run_timer")
        with (
            closing(Database(database.url(CONTROLLER))) as pool,
            pool.transaction(A_TENANT) as session,
        ):
            session.later(self.PUT, self.put(run, "one"))
            first = session.answer(count, {}).fetchone()
            session.later(self.PUT, self.put(run, "two"))
            second = session.execute(count).scalar()
            session.later(self.PUT, self.put(run, "three"))
        assert (first, second) == ((1,), 2)
        assert self.timers(database) == {"one", "two", "three"}

    def test_values_and_numbers_of_a_run_are_one_write(self, stores: Stores) -> None:
        run = stores.triggered()
        written = text("SELECT n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = 'run'")
        with stores.controller.unit.begin(A_TENANT, feed=3) as tx:
            assert isinstance(tx, PostgresTransaction)
            before = tx.runs.for_update(run.run_id) or run
            tx.runs.save(replace(before, wish=Wish.STOP))
            tx.outbox.append(queued(before))
            tx.runs.save(replace(before, wish=Wish.STOP, last_progress_at=tx.now))
            count = tx.session.execute(written).scalar()
            tx.outbox.append(queued(before))
        after = stores.stored(run.run_id)
        assert count == 1
        assert after.row_version == before.row_version + 2
        assert after.last_sequence == before.last_sequence + 2
        first = before.last_sequence
        lines = stores.queries.run_events(A_TENANT, run.run_id, after=first, limit=10)
        assert [one.sequence for one in lines] == [first + 1, first + 2]

    def test_one_that_fails_fails_the_commit_and_nothing_stands(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.triggered()
        before = self.timers(database)
        with closing(Database(database.url(CONTROLLER), limits=Limits(pool_size=1))) as pool:
            with pytest.raises(DBAPIError, match="run_timer_pkey"):
                self.put_all(pool, run, "one", "one", "two")
            assert self.timers(database) == before
            assert len(pool.call(text("SELECT 1"))) == 1

    def test_one_that_meets_a_lock_is_busy_at_the_next_question(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.triggered()
        limits = Limits(lock_timeout=timedelta(milliseconds=50))
        with (
            closing(Database(database.url(CONTROLLER), limits=limits)) as pool,
            stores.controller.unit.begin(A_TENANT) as other,
        ):
            other.runs.for_update(run.run_id)
            with pytest.raises(StoreBusyError, match="lock"):
                self.stop_and_query(pool, run)

    def test_a_connection_cut_while_it_waits_is_unavailable(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        def put_and_cut(tx: Transaction) -> None:
            assert isinstance(tx, PostgresTransaction)
            tx.session.answer(text("SELECT 1"), {})
            tx.session.later(self.PUT, self.put(run, "cut"))
            cut(database)

        run = stores.triggered()
        with closing(Database(database.url(API))) as pool, pytest.raises(StoreUnavailableError):
            carry_out(PostgresUnitOfWork(pool, FixedIds()), A_TENANT, put_and_cut)
        assert "cut" not in self.timers(database)


class TestStart:
    @pytest.mark.parametrize("role", UNPRIVILEGED)
    def test_the_roles_of_services_are_safe(self, database: PreparedDatabase, role: str) -> None:
        with closing(Database(database.url(role))) as pool:
            pool.refuse_unsafe_login()

    def test_a_login_that_does_not_exist_yet_can_be_tried_again(
        self, database: PreparedDatabase
    ) -> None:
        url = database.url(API).replace(f"//{API}:", "//nobody_yet:")
        with (
            closing(Database(url)) as pool,
            pytest.raises(StoreUnavailableError, match="nobody_yet"),
        ):
            pool.refuse_unsafe_login()

    def test_a_superuser_is_refused(self, database: PreparedDatabase) -> None:
        with (
            closing(Database(database.admin_url)) as pool,
            pytest.raises(UnsafeLoginError) as failure,
        ):
            pool.refuse_unsafe_login()
        assert failure.value.because == "is a superuser"

    def test_a_member_of_the_owner_is_refused(self, database: PreparedDatabase) -> None:
        with (
            closing(Database(database.url(MIGRATE))) as pool,
            pytest.raises(UnsafeLoginError, match="may act as datarecs_owner"),
        ):
            pool.refuse_unsafe_login()

    def test_a_login_that_bypasses_row_security_is_refused(
        self, database: PreparedDatabase
    ) -> None:
        database.query("ALTER ROLE datarecs_read BYPASSRLS")
        try:
            with (
                closing(Database(database.url(READ))) as pool,
                pytest.raises(UnsafeLoginError, match="bypasses row-level security"),
            ):
                pool.refuse_unsafe_login()
        finally:
            database.query("ALTER ROLE datarecs_read NOBYPASSRLS")

    def test_every_login_can_check_whether_the_schema_is_ready(
        self, database: PreparedDatabase
    ) -> None:
        for role in set(LOGINS) - {MIGRATE}:
            with closing(Database(database.url(role))) as pool:
                assert pool.ready() is None

    def test_a_database_without_a_schema_is_not_ready(
        self, private_database: PreparedDatabase
    ) -> None:
        downgrade(private_database.url(MIGRATE), "base")
        with closing(Database(private_database.url(CONTROLLER))) as pool:
            assert "no schema yet" in (pool.ready() or "")

    def test_a_schema_behind_this_release_is_not_ready(
        self, private_database: PreparedDatabase
    ) -> None:
        private_database.query("DELETE FROM datarecs.schema_compat")
        with closing(Database(private_database.url(CONTROLLER))) as pool:
            assert "is missing; run" in (pool.ready() or "")
            with pytest.raises(StoreUnavailableError, match="is missing; run"):
                pool.require_schema()

    @pytest.mark.parametrize(("oldest", "ready"), [("0.1.0", True), ("99.0.0", False)])
    def test_a_schema_ahead_is_ready_while_it_carries_this_release(
        self, private_database: PreparedDatabase, oldest: str, ready: bool
    ) -> None:
        private_database.query("INSERT INTO datarecs.schema_compat VALUES ('9999', %s)", (oldest,))
        with closing(Database(private_database.url(CONTROLLER))) as pool:
            assert (pool.ready() is None) == ready


class TestNotifications:
    def test_a_quiet_database_notifies_nobody(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.triggered()
        with database.connect() as listener:
            listener.execute("LISTEN datarecs_run")
            listener.execute("LISTEN datarecs_wake")
            with closing(Database(database.url(CONTROLLER), notify=False)) as pool:
                unit = PostgresUnitOfWork(pool, FixedIds(50_000_000))
                with unit.begin(A_TENANT, feed=1) as tx:
                    tx.wake()
                    tx.runs.save(tx.runs.for_update(run.run_id) or run)
            assert list(listener.notifies(timeout=0.2)) == []

    def test_a_commit_reports_which_run_changed_and_wakes_once(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        with database.connect() as listener:
            listener.execute("LISTEN datarecs_run")
            listener.execute("LISTEN datarecs_wake")
            run = stores.triggered()
            notifications = [
                (one.channel, one.payload) for one in listener.notifies(timeout=1, stop_after=2)
            ]
        assert notifications == [
            ("datarecs_run", str(run.run_id)),
            ("datarecs_wake", "outbox work"),
        ]

    def test_a_wake_up_names_who_has_something_to_do(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.queued()
        with database.connect() as listener:
            listener.execute("LISTEN datarecs_wake")
            with stores.controller.unit.begin(A_TENANT) as tx:
                tx.runs.for_update(run.run_id)
                tx.leases.release(run.run_id, due_at=tx.now, consume=True)
            (notification,) = listener.notifies(timeout=1, stop_after=1)
        assert notification.payload == "leases"
        meant = {who for who in Woken if concerns(notification.payload, who)}
        assert meant == {Woken.LEASES}
        assert all(concerns("", who) for who in Woken)

    def test_a_rollback_reports_nothing(self, stores: Stores, database: PreparedDatabase) -> None:
        def fail(_: object) -> None:
            raise RuntimeError

        with database.connect() as listener:
            listener.execute("LISTEN datarecs_wake")
            with pytest.raises(RuntimeError):
                carry_out(stores.api.unit, A_TENANT, fail)
            assert list(listener.notifies(timeout=0.1)) == []

    def test_threads_share_a_database(self, database: PreparedDatabase) -> None:
        with closing(Database(database.url(API), limits=Limits(pool_size=2))) as pool:
            unit = PostgresUnitOfWork(pool, FixedIds())
            threads = [
                threading.Thread(target=carry_out, args=(unit, A_TENANT, lambda tx: tx.now))
                for _ in range(6)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
            assert not any(thread.is_alive() for thread in threads)
