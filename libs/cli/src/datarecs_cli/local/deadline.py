"""The time limit of a local comparison, over reading, waiting and comparing.

Only this module interrupts other code. A signal interrupts every wait in the main thread, so an
alarm ends a read of a slow source, a pause before a recheck and a query; Ctrl-C, SIGTERM and SIGHUP
work the same way. Under `nohup`, which ignores SIGHUP, it stays ignored.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from datarecs_cli.exit_codes import HungUpError, TerminatedError
from datarecs_cli.local.faults import DeadlineExceededError

_AGAIN_S = 10.0
"""Time until the next alarm, in case code handled this one as an error and continued."""
_AT_ONCE_S = 0.001
_TERMINATING = {signal.SIGTERM: TerminatedError, signal.SIGHUP: HungUpError}
_ENDING = (signal.SIGALRM, signal.SIGINT, *_TERMINATING)


class _StoppedError(KeyboardInterrupt):
    """Passes through handlers of errors; code that handles Ctrl-C, as psycopg, cancels first."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP inside raise an error, so that open resources are closed.

    Main thread only.

    Raises:
        TerminatedError: the process received SIGTERM.
        HungUpError: the process received SIGHUP.
    """

    def end(number: int, _frame: object) -> None:
        raise _TERMINATING[signal.Signals(number)]

    with _handlers(_TERMINATING, end):
        yield


@contextmanager
def ends_after(limit: timedelta, *, abandon: Callable[[], None]) -> Iterator[None]:
    """Limit the time of the block in the main thread; other threads receive no signals, no limit.

    Args:
        limit: more than zero.
        abandon: called before the error is raised, between any two steps of the block; it ends
            work that would delay the error.

    Raises:
        DeadlineExceededError: the block did not end in time.
        KeyboardInterrupt: Ctrl-C.
        TerminatedError: SIGTERM or SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals: list[int] = []

    def stop(number: int, _frame: object) -> None:
        signals.append(number)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        abandon()
        raise _StoppedError

    with _handled_by(stop):
        try:
            signal.setitimer(signal.ITIMER_REAL, limit.total_seconds())
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException as error:
            # Libraries turn it into other errors.
            if not signals:
                raise
            raise _error_of(signals[0], limit) from error
        if signals:  # the exception was lost: Python drops exceptions in finalizers
            raise _error_of(signals[0], limit)


@contextmanager
def _handled_by(stop: Callable[[int, object], None]) -> Iterator[None]:
    """Handle the signals in the block; an alarm of the caller, as in tests, continues after it."""
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, 0)
    began_s = time.monotonic()
    try:
        with _handlers(_ENDING, stop):
            yield
    finally:
        if left_s:
            left_s = max(left_s - (time.monotonic() - began_s), _AT_ONCE_S)
            signal.setitimer(signal.ITIMER_REAL, left_s, interval_s)


@contextmanager
def _handlers(
    numbers: Iterable[signal.Signals], handler: Callable[[int, object], None]
) -> Iterator[None]:
    """Handle the signals in the block, except an ignored SIGHUP."""
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [number for number in numbers if number is not signal.SIGHUP or not is_nohup]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _error_of(number: int, limit: timedelta) -> BaseException:
    match number:
        case signal.SIGINT:
            return KeyboardInterrupt()
        case signal.SIGTERM:
            return TerminatedError()
        case signal.SIGHUP:
            return HungUpError()
        case _:
            return DeadlineExceededError(limit)
