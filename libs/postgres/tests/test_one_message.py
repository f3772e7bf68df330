"""Statements that travel together leave together, and fail as one."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import TupleRow

from datarecs_postgres.one_message import OneMessage
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

Driver = psycopg.Connection[TupleRow]


@pytest.fixture
def driver(database: PreparedDatabase) -> Iterator[Driver]:
    with database.connect() as connection:
        yield connection


def held(database: PreparedDatabase) -> list[TupleRow]:
    return database.query("SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = 77")


def test_nothing_leaves_before_all_is_said(driver: Driver, database: PreparedDatabase) -> None:
    with OneMessage(driver):
        driver.execute("SELECT pg_advisory_lock(77, %s)", (1,))
        driver.execute("SELECT pg_advisory_lock(77, %s)", (2,))
        assert held(database) == []
    assert sorted(held(database)) == [(1,), (2,)]


def test_each_answer_is_there_behind_it_also_when_it_comes_to_be_prepared(driver: Driver) -> None:
    for number in range(12):
        with OneMessage(driver):
            one = driver.execute("SELECT %s::int", (number,))
            two = driver.execute("SELECT %s::text", (str(number),))
        assert (one.fetchall(), two.fetchall()) == ([(number,)], [(str(number),)])
    row = driver.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert row == (2,)


def test_the_first_failure_is_reported_and_nothing_of_it_stands(driver: Driver) -> None:
    driver.execute("CREATE TEMPORARY TABLE said (n int)")

    def say() -> None:
        with OneMessage(driver):
            driver.execute("INSERT INTO said VALUES (1)")
            driver.execute("SELECT 1 / 0")
            driver.execute("INSERT INTO said VALUES (2)")

    with pytest.raises(psycopg.errors.DivisionByZero):
        say()
    assert driver.execute("SELECT count(*) FROM said").fetchone() == (0,)


def test_what_is_larger_than_every_buffer_arrives_in_both_directions(driver: Driver) -> None:
    large = "x" * 8_000_000
    with OneMessage(driver):
        both = [driver.execute("SELECT %s::text", (large,)) for _ in range(2)]
    assert all(one.fetchone() == (large,) for one in both)
