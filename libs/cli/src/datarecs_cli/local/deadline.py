"""The time that a local comparison may take, however it is spent: reading, waiting or comparing.

Its own module because it alone interrupts what others do. Whatever waits in the main thread waits
for a signal, too, so an alarm ends a read of a slow source, a pause before a second look and a
query alike; Ctrl-C and SIGTERM go the same way.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from datarecs_cli.exit_codes import TerminatedError
from datarecs_cli.local.faults import DeadlineExceededError

_AGAIN_S = 10.0
"""Until the next alarm, for who took this one for an error of his own and went on."""
_ENDING = (signal.SIGALRM, signal.SIGINT, signal.SIGTERM)


class _StoppedError(KeyboardInterrupt):
    """Goes through whoever handles errors; who knows of Ctrl-C, as psycopg does, cancels first."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM inside raises TerminatedError, so that what was opened is closed; main thread only.

    Raises:
        TerminatedError: somebody asked the process to end.
    """

    def end(_number: int, _frame: object) -> None:
        raise TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def ends_after(limit: timedelta, *, abandon: Callable[[], None]) -> Iterator[None]:
    """What is done inside ends by then; main thread only.

    Args:
        limit: more than zero.
        abandon: called first of all, between any two steps of what is done inside: ends what would
            hold its way out up.

    Raises:
        DeadlineExceededError: it did not end by itself.
        KeyboardInterrupt: Ctrl-C.
        TerminatedError: SIGTERM.
    """
    signals: list[int] = []

    def stop(number: int, _frame: object) -> None:
        signals.append(number)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        abandon()
        raise _StoppedError

    before = {number: signal.signal(number, stop) for number in _ENDING}
    try:
        signal.setitimer(signal.ITIMER_REAL, limit.total_seconds())
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        # Libraries make errors of their own of it.
        if not signals:
            raise
        raise _error_of(signals[0], limit) from error
    else:
        if signals:  # and lost on its way: Python drops what a finalizer raises
            raise _error_of(signals[0], limit)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _error_of(number: int, limit: timedelta) -> BaseException:
    match number:
        case signal.SIGINT:
            return KeyboardInterrupt()
        case signal.SIGTERM:
            return TerminatedError()
        case _:
            return DeadlineExceededError(limit)
