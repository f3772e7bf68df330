"""Repeats a command of an operator until its server accepts connections.

For one-shot containers and jobs, which may start before the database and the broker.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.outside import Clock
from datarecs_core.errors.messaging import LogUnavailableError

PAUSE = timedelta(seconds=1)
R = TypeVar("R")


def when_reachable(
    act: Callable[[], R], *, wait_s: float, say: Callable[[str], None], clock: Clock
) -> R:
    """Call `act`, which must be safe to repeat, until its server is reachable; return its result.

    Args:
        act: the command.
        wait_s: seconds after which a failure is final; 0: one try.
        say: prints why it waits.
        clock: of the waits.

    Raises:
        StoreUnavailableError, LogUnavailableError: of the last try.
    """
    deadline = clock.monotonic() + wait_s
    while True:
        try:
            return act()
        except (StoreUnavailableError, LogUnavailableError) as cause:
            if clock.monotonic() + PAUSE.total_seconds() > deadline:
                raise
            say(f"waiting: {cause}")
        clock.wait(PAUSE)
