from datetime import datetime, timedelta

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.outside import Wake
from datarecs_cli.stack.reachable import when_reachable
from datarecs_core.errors.process import SettingsError


class SteppingClock:
    """Time passes only while someone waits."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        raise NotImplementedError

    def monotonic(self) -> float:
        return self.passed

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        assert until is None
        self.passed += duration.total_seconds()
        return False


class Server:
    """Reachable from some second on."""

    def __init__(self, clock: SteppingClock, *, from_second: float) -> None:
        self.clock, self.from_second = clock, from_second

    def answer(self) -> str:
        if self.clock.passed < self.from_second:
            raise StoreUnavailableError(cause="connection refused")
        return "done"


def test_a_command_waits_for_its_server_and_prints_why() -> None:
    clock, said = SteppingClock(), list[str]()
    server = Server(clock, from_second=3)
    assert when_reachable(server.answer, wait_s=10, say=said.append, clock=clock) == "done"
    assert said == ["waiting: the platform database is not available: connection refused"] * 3


@pytest.mark.parametrize("wait_s", [0, 5])
def test_it_fails_with_the_reason_after_the_wait(wait_s: int) -> None:
    clock, said = SteppingClock(), list[str]()
    server = Server(clock, from_second=100)
    with pytest.raises(StoreUnavailableError):
        when_reachable(server.answer, wait_s=wait_s, say=said.append, clock=clock)
    assert len(said) == clock.passed == wait_s


def test_other_failures_are_final_at_once() -> None:
    def refuse() -> None:
        raise SettingsError(("DATARECS_X: wrong",))

    clock = SteppingClock()
    with pytest.raises(SettingsError):
        when_reachable(refuse, wait_s=10, say=print, clock=clock)
    assert clock.passed == 0
