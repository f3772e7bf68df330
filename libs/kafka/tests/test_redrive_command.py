"""`datarecs-<service> redrive`: arguments, output and exit codes."""

import pytest

from datarecs_application.errors import RunExistsError, StoreUnavailableError
from datarecs_application.ports.state import Transaction
from datarecs_core.values import RunId
from datarecs_events.codec import Received
from datarecs_kafka.redrive import RedriveWish
from datarecs_kafka.redrive_command import redrive, wish_of
from datarecs_testing.consuming import World


@pytest.fixture
def world() -> World:
    """With one dead letter of a handler that was at fault."""
    made = World()
    made.publish()

    def fail(tx: Transaction, received: Received) -> None:
        del tx, received
        raise RunExistsError(run_id=RunId(made.ids.new()))

    made.consume(fail)
    assert made.reasons() == ["RUN_EXISTS"]
    return made


@pytest.mark.case("L20")
def test_a_dead_letter_is_handled_by_the_repaired_service(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for handled in (1, 0):
        assert redrive([object(), world.consumer()], ()) == 0
        assert capsys.readouterr().out.startswith(f"handled {handled}, failed again 0")
    assert len(world.handled) == 1


def test_what_is_not_meant_stays(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert redrive([world.consumer()], ["--reason", "BAD_JSON"]) == 0
    assert "not selected 1" in capsys.readouterr().out
    assert world.handled == []


def test_a_letter_that_fails_again_is_reported_by_the_exit_code(world: World) -> None:
    def fail(tx: Transaction, received: Received) -> None:
        del tx, received
        raise RunExistsError(run_id=RunId(world.ids.new()))

    assert redrive([world.consumer(fail)], ()) == 1


def test_a_database_that_is_away_cuts_it_off_and_loses_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(tx: Transaction, received: Received) -> None:
        del tx, received
        raise StoreUnavailableError(cause="gone")

    assert redrive([world.consumer(away)], ()) == 75
    assert "run it again" in capsys.readouterr().err
    assert redrive([world.consumer()], ()) == 0
    assert len(world.handled) == 1


def test_every_option_is_a_wish() -> None:
    assert wish_of(["--reason", "R", "--id", "i", "--limit", "3", "--discard"]) == RedriveWish(
        reason="R", event_id="i", limit=3, discard=True
    )
