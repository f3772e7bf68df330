import threading
from datetime import UTC, timedelta

from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_bytes, random_fraction


def test_the_machines_time_is_aware_utc_and_its_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()


def test_a_wait_ends_by_its_latch_or_by_its_length() -> None:
    clock, latch = SystemClock(), Latch()
    assert clock.wait(timedelta(milliseconds=1), until=latch) is False
    assert clock.wait(timedelta(milliseconds=-5)) is False
    latch.set()
    assert clock.wait(timedelta(days=1), until=latch) is True


def test_ids_are_uuids_of_version_7_that_grow_in_every_thread() -> None:
    ids = UuidV7Ids()
    made: list[list[object]] = [[], []]
    threads = [
        threading.Thread(target=lambda issued=issued: issued.extend(ids.new() for _ in range(5000)))
        for issued in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(issued == sorted(issued, key=str) for issued in made)
    assert len({str(one) for issued in made for one in issued}) == 10_000
    assert ids.new().version == 7


def test_randomness_has_the_requested_length_and_range() -> None:
    assert len(random_bytes(32)) == 32
    assert random_bytes(16) != random_bytes(16)
    assert all(0 <= random_fraction() < 1 for _ in range(100))
