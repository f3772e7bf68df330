"""The end of a process whose broker does not answer."""

from datetime import timedelta
from threading import Event

from datarecs_kafka.watchdog import CALL_LIMIT, Watchdog


def test_a_call_over_the_limit_is_named() -> None:
    expired, names = Event(), list[str]()

    def expire(call: str) -> None:
        names.append(call)
        expired.set()

    watchdog = Watchdog(limit=timedelta(milliseconds=1), expire=expire)
    with watchdog.watch("a transaction"):
        assert expired.wait(10)
    assert names == ["a transaction"]


def test_a_call_within_the_limit_is_not() -> None:
    names = list[str]()
    watchdog = Watchdog(limit=timedelta(milliseconds=20), expire=names.append)
    with watchdog.watch("a transaction"):
        pass
    assert not Event().wait(0.1)
    assert names == []


def test_the_limit_is_that_of_the_acceptance_case() -> None:
    assert timedelta(seconds=35) > CALL_LIMIT
