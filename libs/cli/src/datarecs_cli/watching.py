"""Waits for the end of a run, with progress, heartbeat lines, Ctrl-C and a time limit.

The first Ctrl-C ends the waiting and the run continues; a second one within three seconds requests
its cancellation and waits for its end. Source: spec experience 3.4.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from datarecs_cli.client import Api, ApiRequest, Json, path_of
from datarecs_cli.follow import Ended, Happened, Pump, Seen, follow
from datarecs_cli.invocation import Invocation
from datarecs_cli.narration import Narrator
from datarecs_cli.output import Words
from datarecs_cli.refusals import RefusedError, WaitedTooLongError
from datarecs_cli.screen import Screen
from datarecs_core.errors.api import ApiCode
from datarecs_runtime.clock import UuidV7Ids

HEARTBEAT = timedelta(seconds=10)
"""Time between log lines when nothing else happens."""
FRAME = timedelta(seconds=0.5)
"""Time between two updates of the moving line, and the most between Ctrl-C and its effect."""
SECOND_CTRL_C = timedelta(seconds=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """The screen and the words for the progress of a run."""

    screen: Screen
    words: Words
    sources: tuple[str, ...] = ()
    """Names of the job's sources, in the order of the job."""
    happened: Callable[[Json], None] | None = None
    """Receives every event of the history; then no progress lines are printed."""

    @classmethod
    def of(
        cls, invocation: Invocation, environment: Mapping[str, str], words: Words
    ) -> "ProgressView":
        return cls(screen=Screen.of(invocation, environment), words=words)


def wait_for_end(
    api: Api, run_id: str, view: ProgressView, *, limit_s: float | None = None, after: int = 0
) -> Json:
    """Show the run from its beginning, or after an event, and return its final row.

    Raises:
        KeyboardInterrupt: the user stopped waiting; the run continues.
        WaitedTooLongError: the limit has passed; the run continues.
    """
    watch = _Watch(api, run_id, view, limit_s)
    pump = Pump(follow(api, run_id, after=after))
    try:
        while True:
            try:
                watch.until_ended(pump)
                return api.get("runs", run_id)
            except KeyboardInterrupt:
                if not watch.wants_cancel():
                    raise
                cancel(api, run_id, reason="interrupted twice at the command line")
                view.screen.say("cancel requested; waiting for the end")
    finally:
        view.screen.clear()
        pump.close()


def cancel(api: Api, run_id: str, *, reason: str | None = None) -> Json | None:
    """Request the cancellation of the run; None if it had already ended."""
    request = ApiRequest(
        method="POST",
        path=path_of("runs", run_id, "cancel"),
        headers={"Idempotency-Key": str(UuidV7Ids().new())},
        body={} if reason is None else {"reason": reason},
    )
    try:
        return api.send(request).json()
    except RefusedError as refused:
        if refused.code is ApiCode.RUN_ALREADY_TERMINAL:
            return None
        raise


class _Watch:
    def __init__(self, api: Api, run_id: str, view: ProgressView, limit_s: float | None) -> None:
        self._api, self._run_id, self._view = api, run_id, view
        self._clock = api.clock
        self._narrator = Narrator(view.words, sources=view.sources)
        self._began = self._said = self._clock.monotonic()
        self._limit_s = limit_s
        self._interrupted = False

    def until_ended(self, pump: Pump) -> None:
        while True:
            seen = pump.next(self._patience())
            if isinstance(seen, Ended):
                return
            if seen is not None:
                self._show(seen)
            self._show_life()

    def _patience(self) -> timedelta:
        """Time to wait for an event before the next check of the clock."""
        if self._limit_s is None:
            return FRAME
        left_s = self._began + self._limit_s - self._clock.monotonic()
        if left_s <= 0:
            raise WaitedTooLongError(what=f"run {self._run_id}", seconds=self._limit_s)
        return min(FRAME, timedelta(seconds=left_s))

    def wants_cancel(self) -> bool:
        """Whether a second interrupt follows soon. A third one always ends the waiting."""
        if self._interrupted:
            return False
        self._interrupted = True
        try:
            self._view.screen.say(
                f"the run continues; follow it with: datarecs watch {self._run_id}"
                "  (Ctrl-C again within 3 s cancels it)"
            )
            self._clock.wait(SECOND_CTRL_C)
        except KeyboardInterrupt:
            return True
        return False

    def _show(self, seen: Seen) -> None:
        screen, narrator = self._view.screen, self._narrator
        if self._view.happened is not None and isinstance(seen, Happened):
            self._view.happened(seen.entry)
            return
        for line in narrator.finished(seen) if screen.moves else narrator.lines(seen):
            screen.say(line)
            self._said = self._clock.monotonic()

    def _show_life(self) -> None:
        now, narrator = self._clock.monotonic(), self._narrator
        passed = timedelta(seconds=int(now - self._began))
        line = f"{self._view.words.running} {narrator.status} {passed} {narrator.doing}"
        self._view.screen.draw(line.rstrip())
        if not self._view.screen.moves and now - self._said >= HEARTBEAT.total_seconds():
            self._said = now
            self._view.screen.say(line.rstrip())
