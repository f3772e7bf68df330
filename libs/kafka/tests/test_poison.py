import pytest

from datarecs_kafka.poison import PoisonGauge


@pytest.mark.case("L19")
def test_ten_in_a_row_are_borne_and_the_eleventh_stops() -> None:
    gauge = PoisonGauge()
    for _ in range(10):
        gauge.poisoned("HANDLER_FAILED")
    assert gauge.verdict() is None
    gauge.poisoned("HANDLER_FAILED")
    assert gauge.verdict() == "11 dead letters in a row"


def test_a_good_record_starts_the_row_again() -> None:
    gauge = PoisonGauge()
    for _ in range(4):
        for _ in range(10):
            gauge.poisoned("HANDLER_FAILED")
        gauge.good()
    assert gauge.verdict() is None


def test_more_than_five_percent_of_the_last_thousand_stop_too() -> None:
    gauge = PoisonGauge()
    for number in range(1_000):
        if number % 20 == 0:
            gauge.poisoned("HANDLER_FAILED")
        else:
            gauge.good()
    assert gauge.verdict() is None
    for _ in range(2):
        gauge.poisoned("HANDLER_FAILED")
    assert gauge.verdict() == "51 dead letters among the last 1000 records"


def test_what_lies_further_back_is_forgotten() -> None:
    gauge = PoisonGauge()
    for _ in range(5):
        for _ in range(10):
            gauge.poisoned("HANDLER_FAILED")
        gauge.good()
    for _ in range(1_000):
        gauge.good()
    gauge.poisoned("HANDLER_FAILED")
    assert gauge.verdict() is None


@pytest.mark.parametrize("reason", ["UNKNOWN_RUN", "ATTEMPT_AHEAD", "RUN_NOT_FINISHED"])
def test_events_that_a_restored_database_does_not_know_never_stop_it(reason: str) -> None:
    gauge = PoisonGauge()
    for _ in range(10):
        gauge.poisoned("HANDLER_FAILED")
    for _ in range(2_000):
        gauge.poisoned(reason)
    assert gauge.verdict() is None
    gauge.poisoned("HANDLER_FAILED")
    assert gauge.verdict() == "11 dead letters in a row"
