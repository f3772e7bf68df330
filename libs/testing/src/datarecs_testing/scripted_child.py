"""A child in process that follows a script: ChildProcess without a program, for fast tests.

A separate module because the supervisor is tested with a thousand runs at a time; a script is a
plain function that reads and sends frames, writes files, and returns an exit code.
"""

import json
import signal
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NoReturn, Protocol

from datarecs_application.ports.supervising import MAX_CHILD_FRAME_BYTES, ChildEnd
from datarecs_runtime.frames import BrokenFrameError, parse


class ChildSide(Protocol):
    """What a script sees of its supervisor."""

    def receive(self) -> dict[str, object] | None:
        """The next frame; None when the supervisor is gone."""

    def send(self, frame: Mapping[str, object]) -> None: ...

    def send_raw(self, document: bytes) -> None:
        """Bytes that may be no frame at all."""

    def ignore_terminate(self) -> None:
        """From here on SIGTERM has no effect."""

    def end_by(self, number: int) -> NoReturn:
        """End as if another process had sent the signal."""


Script = Callable[[Mapping[str, object], ChildSide], int]
"""(plan, the supervisor) -> exit code. An exception is exit code 1."""


class ScriptedChild:
    """One script on one thread. SIGTERM and SIGKILL reach it when it reads or sends a frame."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._inbox: deque[bytes] = deque()
        self._outbox: deque[dict[str, object]] = deque()
        self._changed = threading.Condition()
        self._signal: int | None = None
        self._ignores_terminate = False
        self._killed_by_us = False
        self._broken: str | None = None
        self._end: ChildEnd | None = None

    def start(self, plan: bytes) -> None:
        threading.Thread(target=self._run, args=(parse(plan),), daemon=True).start()

    def send(self, frame: bytes) -> bool:
        with self._changed:
            if self._end is not None:
                return False
            self._inbox.append(frame)
            self._changed.notify_all()
            return True

    def frames(self, timeout: timedelta) -> Mapping[str, object] | None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._outbox or self._end is not None, timeout.total_seconds()
            )
            return self._outbox.popleft() if self._outbox else None

    def terminate(self) -> None:
        with self._changed:
            self._killed_by_us |= self._end is None
            if not self._ignores_terminate:
                self._hit_by(signal.SIGTERM)

    def kill(self) -> None:
        with self._changed:
            self._killed_by_us |= self._end is None
            self._hit_by(signal.SIGKILL)

    def ended(self) -> ChildEnd | None:
        with self._changed:
            return self._end

    def memory_bytes(self) -> int:
        return 1 if self.ended() is None else 0

    def receive(self) -> dict[str, object] | None:
        """The script's side: see ChildSide."""
        with self._changed:
            self._changed.wait_for(lambda: self._inbox or self._signal is not None)
            self._stop_if_hit()
            return parse(self._inbox.popleft())

    def say(self, frame: Mapping[str, object]) -> None:
        """The script's side: `ChildSide.send`."""
        self.send_raw(json.dumps(frame, default=str).encode())

    def send_raw(self, document: bytes) -> None:
        """The script's side: see ChildSide."""
        with self._changed:
            self._stop_if_hit()
            try:
                if len(document) > MAX_CHILD_FRAME_BYTES:
                    raise BrokenFrameError(f"a frame of {len(document)} bytes")  # noqa: TRY301  as the pipe's reader does
                self._outbox.append(parse(document))
            except BrokenFrameError as fault:
                self._broken = str(fault)
                self._killed_by_us = True
                self._hit_by(signal.SIGKILL)
                self._stop_if_hit()
            self._changed.notify_all()

    def ignore_terminate(self) -> None:
        """The script's side: see ChildSide."""
        with self._changed:
            self._ignores_terminate = True

    def end_by(self, number: int) -> NoReturn:
        """The script's side: see ChildSide."""
        with self._changed:
            self._hit_by(number)
        raise _Hit

    def _hit_by(self, number: int) -> None:
        self._signal = number
        self._changed.notify_all()

    def _stop_if_hit(self) -> None:
        if self._signal is not None:
            raise _Hit

    def _run(self, plan: Mapping[str, object]) -> None:
        try:
            code, number = self._script(plan, _ScriptSide(self)), None
        except _Hit:
            code, number = None, self._signal
        except Exception:  # noqa: BLE001  the entry of a process, as it were
            code, number = 1, None
        with self._changed:
            self._end = ChildEnd(
                exit_code=code,
                signal=number,
                killed_by_us=self._killed_by_us,
                broken_frame=self._broken,
            )
            self._changed.notify_all()


class _Hit(BaseException):
    """Ends a script where a signal would end a program."""


class _ScriptSide:
    def __init__(self, child: ScriptedChild) -> None:
        self.receive, self.send = child.receive, child.say
        self.send_raw, self.ignore_terminate = child.send_raw, child.ignore_terminate
        self.end_by = child.end_by
