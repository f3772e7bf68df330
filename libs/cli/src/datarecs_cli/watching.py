"""Waiting for a run's end as a person or a pipeline does: progress, heartbeat, Ctrl-C, time limit.

The first Ctrl-C only leaves the run alone; a second one within three seconds asks it to stop and
waits for what becomes of it. Source: spec experience 3.4.
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
"""Between lines of a log in which nothing else happens."""
FRAME = timedelta(seconds=0.5)
"""Between two looks of the moving line, and at most between Ctrl-C and its effect."""
SECOND_CTRL_C = timedelta(seconds=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """Where the progress of a run is shown, and in which words."""

    screen: Screen
    words: Words
    sources: tuple[str, ...] = ()
    """Names of the job's sources, in its order."""
    happened: Callable[[Json], None] | None = None
    """Gets every event of the history; progress lines are left out then."""

    @classmethod
    def of(
        cls, invocation: Invocation, environment: Mapping[str, str], words: Words
    ) -> "ProgressView":
        return cls(screen=Screen.of(invocation, environment), words=words)


def wait_for_end(
    api: Api, run_id: str, view: ProgressView, *, limit_s: float | None = None, after: int = 0
) -> Json:
    """Show the run from its beginning, or from behind an event; the row at its end.

    Raises:
        KeyboardInterrupt: the user has left; the run goes on.
        WaitedTooLongError: the limit has passed; the run goes on.
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
    """Ask the run to stop; None when it had ended before."""
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
        """How long to wait for news before looking at the clock."""
        if self._limit_s is None:
            return FRAME
        left_s = self._began + self._limit_s - self._clock.monotonic()
        if left_s <= 0:
            raise WaitedTooLongError(what=f"run {self._run_id}", seconds=self._limit_s)
        return min(FRAME, timedelta(seconds=left_s))

    def wants_cancel(self) -> bool:
        """After an interrupt: whether another follows soon. A third one always leaves."""
        if self._interrupted:
            return False
        self._interrupted = True
        try:
            self._view.screen.say(
                f"run continues; watch it with: datarecs watch {self._run_id}"
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
