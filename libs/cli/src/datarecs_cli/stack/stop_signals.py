"""Ctrl-C, SIGTERM and SIGHUP of the commands that run a platform."""

import signal
from types import FrameType

from datarecs_cli.stack.supervisor import Supervisor


class StopSignals:
    """Requests the stop of a supervisor when a signal arrives; the first one is remembered.

    Ctrl-C also raises KeyboardInterrupt, which ends a download or a wait at once. The request
    stays when a library swallows that exception, as some do while they are imported.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        """Handle the signals from now on. Call it in the main thread.

        A command that was started with Ctrl-C ignored, as by a script's `&`, goes on ignoring it.
        """
        self.first: signal.Signals | None = None
        self._supervisor = supervisor
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGHUP, self._stop)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._interrupt)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)
        self._supervisor.request_stop()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._stop(number, frame)
        raise KeyboardInterrupt
