"""Runs the parts: readiness, restart with back-off, the limit of five ends, orderly stop.

It manages only processes; the caller decides what to run and in which order. It uses only the
thread that started it, because the leash of a part is tied to the thread that started the part.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from threading import Event
from time import monotonic

from datarecs_cli.stack.failures import CrashLoopError, PartNotReadyError
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
"""Longest postponement of a start; then the part starts anyway."""


@dataclass(slots=True)
class _PartState:
    """One part and its current state."""

    part: Part
    _: KW_ONLY
    running: Running | None = None
    is_ready: bool = False
    was_ready: bool = False
    """Ready at least once; before that, a late part stops the start of the platform."""
    deaths: list[float] = field(default_factory=list)
    restarts: int = 0
    progress: Progress = field(default_factory=Progress)
    log_from: int = 0
    """Position in the log when this supervisor first started the part."""
    start_at: float = 0.0
    """Monotonic time of the next start if it does not run."""
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
        """Create a supervisor without running parts.

        Args:
            changed: called after every start and end; stores processes for `status` and `down`.
            restarting: called when a part ended and will be started again.
            policy: the policy of restarts.
        """
        self._changed, self._restarting = changed, restarting
        self._policy = policy or RestartPolicy()
        self._groups: list[dict[str, _PartState]] = []
        self._stop_wanted = Event()
        self._rotated_at = monotonic()

    def start(self, parts: Sequence[Part], *, beside: bool = False) -> None:
        """Start a group; its parts are stopped together, before every earlier group.

        Args:
            parts: the parts to start.
            beside: the parts join the group started last.
        """
        if not beside:
            self._groups.append({})
        group = {
            part.name: _PartState(
                part, wanted_since=monotonic(), log_from=size_of(part.command.log)
            )
            for part in parts
        }
        self._groups[-1] |= group
        for state in group.values():
            self._launch(state)

    def until_ready(self, *names: str) -> None:
        """Run until these parts, by default all, have answered once.

        Raises:
            PartNotReadyError: a part did not answer within its limit.
            CrashLoopError: a part ended too often.
        """
        awaited = [state for state in self._all() if not names or state.part.name in names]
        while not all(state.is_ready for state in awaited):
            self._tick()
            self._stop_wanted.wait(BUSY_PAUSE_S)
            if self._stop_wanted.is_set():
                raise KeyboardInterrupt

    def watch(self) -> None:
        """Run until `request_stop`.

        Raises:
            CrashLoopError: a part ended too often.
        """
        while not self._stop_wanted.is_set():
            self._tick()
            settled = all(state.is_ready for state in self._all())
            self._stop_wanted.wait(IDLE_PAUSE_S if settled else BUSY_PAUSE_S)

    def request_stop(self) -> None:
        """Request a stop from a signal handler or another thread; safe to repeat."""
        self._stop_wanted.set()

    def running(self) -> dict[str, Identity]:
        """The running parts, in the order of their start."""
        return {
            state.part.name: state.running.identity
            for state in self._all()
            if state.running is not None
        }

    def stop(self) -> tuple[str, ...]:
        """Stop the last group first; returns the names of killed parts. Safe to repeat."""
        killed: list[str] = []
        try:
            for group in reversed(self._groups):
                killed += _stop_together(group.values())
        finally:  # on a second Ctrl-C or an error, no process may remain
            for state in self._all():
                if state.running is not None:
                    state.running.kill_group()
            self._groups.clear()
        return tuple(killed)

    def _all(self) -> list[_PartState]:
        return [state for group in self._groups for state in group.values()]

    def _launch(self, state: _PartState) -> None:
        patient = monotonic() < state.wanted_since + PATIENCE_S
        if patient and not state.part.may_start():
            state.start_at = monotonic() + POSTPONED_S
            return
        state.running = start(state.part.command)
        state.is_ready = False
        state.progress = Progress()
        self._changed(self.running())

    def _tick(self) -> None:
        now = monotonic()
        for state in self._all():
            if state.running is None:
                if now >= state.start_at:
                    self._launch(state)
            elif state.running.exit_code() is not None:
                self._bury(state, state.running)
            elif not state.is_ready:
                self._probe(state, state.running)
        if now >= self._rotated_at + ROTATE_EVERY_S:
            self._rotated_at = now
            self._rotate_logs()

    def _rotate_logs(self) -> None:
        for state in self._all():
            if rotate(state.part.command.log):
                state.log_from = 0

    def _probe(self, state: _PartState, running: Running) -> None:
        """A part that was ready once has no limit, because killing it again would not help."""
        reason, limit_s = state.part.probe(), state.part.ready_limit_s
        if reason is None:
            state.is_ready = state.was_ready = True
            return
        state.progress.note(
            size_of(state.part.command.log), reason, worked_s=running.worked_s, now=monotonic()
        )
        if state.progress.is_over(limit_s, now=monotonic()) and not state.was_ready:
            raise PartNotReadyError(
                part=state.part.name,
                limit_s=limit_s,
                reason=reason,
                log=state.part.command.log,
                log_tail=tail(state.part.command.log, since=state.log_from),
            )

    def _bury(self, state: _PartState, running: Running) -> None:
        running.kill_group()
        state.running, state.is_ready = None, False
        state.deaths = [*state.deaths[-9:], monotonic()]
        pause_s = self._policy.pause_s(state.deaths)
        if pause_s is None:
            raise CrashLoopError(
                part=state.part.name,
                died_with=running.exit_code() or 0,
                log=state.part.command.log,
                log_tail=tail(state.part.command.log, since=state.log_from),
            )
        state.start_at = state.wanted_since = state.deaths[-1] + pause_s
        state.restarts += 1
        self._restarting(
            Restart(
                part=state.part.name,
                number=state.restarts,
                exit_code=running.exit_code() or 0,
                pause_s=pause_s,
            )
        )
        self._changed(self.running())


def _stop_together(group: Collection[_PartState]) -> list[str]:
    """Signal all, wait for all until their limits; returns the names of killed parts."""
    signalled_at = monotonic()
    for state in group:
        if state.running is not None:
            state.running.send(state.part.stop_signal)
    killed = []
    for state in group:
        if state.running is None:
            continue
        left_s = max(signalled_at + state.part.stop_limit_s - monotonic(), 0.0)
        if state.running.wait(left_s) is None:
            killed.append(state.part.name)
        state.running.kill_group()
    return killed
