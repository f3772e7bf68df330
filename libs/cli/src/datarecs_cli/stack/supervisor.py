"""Parts kept running: readiness, restart with back-off, the five-deaths rule, orderly stop.

It owns processes and nothing else: what to run and in which order is the caller's. One thread, the
one that started it, because the leash of a part is tied to the thread that started the part.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from threading import Event
from time import monotonic

from datarecs_cli.stack.failures import PartKeepsDyingError, PartNotReadyError
from datarecs_cli.stack.logs import rotate
from datarecs_cli.stack.part import Part, size_of, tail
from datarecs_cli.stack.process import Identity, Running, start
from datarecs_cli.stack.progress import Progress
from datarecs_cli.stack.restarts import Restart, RestartPolicy

BUSY_PAUSE_S = 0.05
IDLE_PAUSE_S = 0.5
ROTATE_EVERY_S = 10.0
POSTPONED_S = 1.0
PATIENCE_S = 30.0
"""How long a part lets its start be postponed; then it starts all the same."""


@dataclass(slots=True)
class _Kept:
    """One part and what is known of it now."""

    part: Part
    _: KW_ONLY
    running: Running | None = None
    is_ready: bool = False
    was_ready: bool = False
    """Ready at least once: before that a late part stops the start-up."""
    deaths: list[float] = field(default_factory=list)
    restarts: int = 0
    progress: Progress = field(default_factory=Progress)
    log_from: int = 0
    """Where the log began when this supervisor first started the part."""
    start_at: float = 0.0
    """Monotonic time of the next start, while it does not run."""
    wanted_since: float = 0.0


class Supervisor:
    """Starts groups of parts, keeps them running, stops them in reverse order."""

    def __init__(
        self,
        *,
        changed: Callable[[Mapping[str, Identity]], None] = lambda _parts: None,
        restarting: Callable[[Restart], None] = lambda _restart: None,
        policy: RestartPolicy | None = None,
    ) -> None:
        """Make a supervisor that runs nothing yet.

        Args:
            changed: called after every start and end; writes processes down for `status`, `down`.
            restarting: called when a part died and is going to be started again.
            policy: of restarts.
        """
        self._changed, self._restarting = changed, restarting
        self._policy = policy or RestartPolicy()
        self._groups: list[dict[str, _Kept]] = []
        self._stop_wanted = Event()
        self._rotated_at = monotonic()

    def start(self, parts: Sequence[Part], *, beside: bool = False) -> None:
        """Start a group; its parts are stopped together, before every earlier group.

        Args:
            parts: what to start.
            beside: they join the group started last.
        """
        if not beside:
            self._groups.append({})
        group = {
            part.name: _Kept(part, wanted_since=monotonic(), log_from=size_of(part.command.log))
            for part in parts
        }
        self._groups[-1] |= group
        for kept in group.values():
            self._launch(kept)

    def until_ready(self, *names: str) -> None:
        """Keep everything running until these parts, without names all, have answered once.

        Raises:
            PartNotReadyError: a part did not answer within its limit.
            PartKeepsDyingError: a part died too often.
        """
        awaited = [kept for kept in self._all() if not names or kept.part.name in names]
        while not all(kept.is_ready for kept in awaited):
            self._tick()
            self._stop_wanted.wait(BUSY_PAUSE_S)
            if self._stop_wanted.is_set():
                raise KeyboardInterrupt

    def watch(self) -> None:
        """Keep everything running until `ask_stop`.

        Raises:
            PartKeepsDyingError: a part died too often.
        """
        while not self._stop_wanted.is_set():
            self._tick()
            settled = all(kept.is_ready for kept in self._all())
            self._stop_wanted.wait(IDLE_PAUSE_S if settled else BUSY_PAUSE_S)

    def ask_stop(self) -> None:
        """From a signal handler or another thread; safe to repeat."""
        self._stop_wanted.set()

    def running(self) -> dict[str, Identity]:
        """Who runs now, in the order of their start."""
        return {
            kept.part.name: kept.running.identity
            for kept in self._all()
            if kept.running is not None
        }

    def stop(self) -> tuple[str, ...]:
        """Stop the last group first; the names that had to be killed. Safe to repeat."""
        killed: list[str] = []
        try:
            for group in reversed(self._groups):
                killed += _stop_together(group.values())
        finally:  # a second Ctrl-C, or an error: nothing may stay
            for kept in self._all():
                if kept.running is not None:
                    kept.running.kill_group()
            self._groups.clear()
        return tuple(killed)

    def _all(self) -> list[_Kept]:
        return [kept for group in self._groups for kept in group.values()]

    def _launch(self, kept: _Kept) -> None:
        patient = monotonic() < kept.wanted_since + PATIENCE_S
        if patient and not kept.part.may_start():
            kept.start_at = monotonic() + POSTPONED_S
            return
        kept.running = start(kept.part.command)
        kept.is_ready = False
        kept.progress = Progress()
        self._changed(self.running())

    def _tick(self) -> None:
        now = monotonic()
        for kept in self._all():
            if kept.running is None:
                if now >= kept.start_at:
                    self._launch(kept)
            elif kept.running.exit_code() is not None:
                self._bury(kept, kept.running)
            elif not kept.is_ready:
                self._ask(kept, kept.running)
        if now >= self._rotated_at + ROTATE_EVERY_S:
            self._rotated_at = now
            self._rotate_logs()

    def _rotate_logs(self) -> None:
        for kept in self._all():
            if rotate(kept.part.command.log):
                kept.log_from = 0

    def _ask(self, kept: _Kept, running: Running) -> None:
        """A part that was ready once may take its time: killing it again would not help it."""
        reason, limit_s = kept.part.probe(), kept.part.ready_limit_s
        if reason is None:
            kept.is_ready = kept.was_ready = True
            return
        kept.progress.note(
            size_of(kept.part.command.log), reason, worked_s=running.worked_s, now=monotonic()
        )
        if kept.progress.is_over(limit_s, now=monotonic()) and not kept.was_ready:
            raise PartNotReadyError(
                part=kept.part.name,
                limit_s=limit_s,
                reason=reason,
                log_tail=tail(kept.part.command.log, since=kept.log_from),
            )

    def _bury(self, kept: _Kept, running: Running) -> None:
        running.kill_group()
        kept.running, kept.is_ready = None, False
        kept.deaths = [*kept.deaths[-9:], monotonic()]
        pause_s = self._policy.pause_s(kept.deaths)
        if pause_s is None:
            raise PartKeepsDyingError(
                part=kept.part.name,
                died_with=running.exit_code() or 0,
                log=kept.part.command.log,
                log_tail=tail(kept.part.command.log, since=kept.log_from),
            )
        kept.start_at = kept.wanted_since = kept.deaths[-1] + pause_s
        kept.restarts += 1
        self._restarting(
            Restart(
                part=kept.part.name,
                number=kept.restarts,
                exit_code=running.exit_code() or 0,
                pause_s=pause_s,
            )
        )
        self._changed(self.running())


def _stop_together(group: Collection[_Kept]) -> list[str]:
    """Signal all, wait for all until each one's limit; the names that had to be killed."""
    asked = monotonic()
    for kept in group:
        if kept.running is not None:
            kept.running.send(kept.part.stop_signal)
    killed = []
    for kept in group:
        if kept.running is None:
            continue
        left_s = max(asked + kept.part.stop_limit_s - monotonic(), 0.0)
        if kept.running.wait(left_s) is None:
            killed.append(kept.part.name)
        kept.running.kill_group()
    return killed
