"""Conformance suite of ChildProcess: small scripts that every implementation can run.

A script is a list of steps inside the plan; `follow` is the interpreter that both a real program
and a scripted child run.
"""

import json
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from datarecs_application.ports.supervising import (
    MAX_CHILD_FRAME_BYTES,
    ChildEnd,
    ChildProcess,
)
from datarecs_testing.scripted_child import ChildSide

SOON = timedelta(seconds=20)
NOW = timedelta()


def follow(plan: Mapping[str, object], side: ChildSide) -> int:
    """Run the steps of the plan in order; the end of the plan is exit code 0."""
    for name, *values in cast("Sequence[Sequence[Any]]", plan.get("script", ())):
        if name == "exit":
            return int(values[0])
        _STEPS[name](side, *values)
    return 0


def _say_many(side: ChildSide, count: int) -> None:
    for number in range(count):
        side.send({"number": number})


def _listen_for_ever(side: ChildSide) -> None:
    while side.receive() is not None:
        pass


_STEPS: Mapping[str, Callable[..., None]] = {
    "say": lambda side, frame: side.send(frame),
    "say_many": _say_many,
    "say_raw": lambda side, text: side.send_raw(text.encode()),
    "say_long": lambda side, size: side.send_raw(b'{"text": "%s"}' % (b"x" * (size - 12))),
    "echo": lambda side: side.send({"echo": side.receive()}),
    "ignore_terminate": lambda side: side.ignore_terminate(),
    "listen_for_ever": _listen_for_ever,
}


class ChildProcessConformance:
    """Subclass it and provide the fixture `child`: one not yet started, that runs `follow`."""

    def start(self, child: ChildProcess, *script: Sequence[object], **more: object) -> None:
        child.start(json.dumps({"script": script, **more}).encode())

    def end_of(self, child: ChildProcess) -> ChildEnd:
        """Wait for the end; frames are not read."""
        tick = threading.Event()
        for _ in range(round(SOON.total_seconds() / 0.005)):
            end = child.ended()
            if end is not None:
                return end
            tick.wait(0.005)
        raise AssertionError("the child did not end")

    def read_frames(self, child: ChildProcess) -> list[Mapping[str, object]]:
        """All frames until the pipe is closed."""
        frames = []
        while (frame := child.frames(SOON)) is not None:
            frames.append(frame)
        return frames

    def test_frames_arrive_in_the_order_they_were_said(self, child: ChildProcess) -> None:
        self.start(child, *(["say", {"number": number}] for number in range(5)))
        assert self.read_frames(child) == [{"number": number} for number in range(5)]

    def test_a_plan_of_many_megabytes_reaches_the_child(self, child: ChildProcess) -> None:
        self.start(child, ["say", {"alive": True}], padding="x" * (4 * 1024 * 1024))
        assert child.frames(SOON) == {"alive": True}

    def test_what_is_sent_later_reaches_the_child(self, child: ChildProcess) -> None:
        self.start(child, ["echo"], ["echo"])
        assert child.send(b'{"first": 1}') is True
        assert child.frames(SOON) == {"echo": {"first": 1}}
        assert child.send('{"größe": "x"}'.encode()) is True
        assert child.frames(SOON) == {"echo": {"größe": "x"}}

    def test_fractions_arrive_digit_for_digit(self, child: ChildProcess) -> None:
        self.start(child, ["say_raw", '{"amount": 12345678901234567890.010}'])
        frame = child.frames(SOON)
        assert frame is not None
        assert str(frame["amount"]) == "12345678901234567890.010"

    def test_without_a_frame_the_wait_ends_by_its_timeout(self, child: ChildProcess) -> None:
        self.start(child, ["listen_for_ever"])
        assert child.frames(timedelta(milliseconds=10)) is None
        assert child.ended() is None

    @pytest.mark.parametrize("code", [0, 3, 70, 75])
    def test_the_exit_code_is_reported_and_stays(self, child: ChildProcess, code: int) -> None:
        self.start(child, ["exit", code])
        assert self.end_of(child) == ChildEnd(exit_code=code)
        assert child.ended() == ChildEnd(exit_code=code)

    def test_frames_sent_before_the_end_are_delivered_after_it(self, child: ChildProcess) -> None:
        self.start(child, ["say_many", 3], ["exit", 0])
        self.end_of(child)
        assert [frame["number"] for frame in self.read_frames(child)] == [0, 1, 2]
        assert child.frames(SOON) is None

    def test_a_supervisor_that_does_not_read_never_blocks_the_child(
        self, child: ChildProcess
    ) -> None:
        self.start(child, ["say_many", 50_000], ["exit", 0])
        assert self.end_of(child).exit_code == 0
        assert len(self.read_frames(child)) == 50_000

    def test_a_child_that_does_not_read_never_blocks_its_supervisor(
        self, child: ChildProcess
    ) -> None:
        self.start(child, ["say", {"deaf": True}], ["echo"], ["exit", 0])
        assert child.frames(SOON) == {"deaf": True}
        document = json.dumps({"text": "x" * 500_000}).encode()
        assert all(child.send(document) for _ in range(2))
        assert self.end_of(child).exit_code == 0

    def test_after_the_end_nothing_can_be_sent(self, child: ChildProcess) -> None:
        self.start(child, ["exit", 0])
        self.end_of(child)
        assert child.send(b"{}") is False

    def test_terminate_ends_a_child_that_listens_to_it(self, child: ChildProcess) -> None:
        self.start(child, ["say", {"up": True}], ["listen_for_ever"])
        child.frames(SOON)
        child.terminate()
        assert self.end_of(child) == ChildEnd(signal=signal.SIGTERM, killed_by_us=True)

    def test_kill_ends_a_child_that_ignores_terminate(self, child: ChildProcess) -> None:
        self.start(child, ["ignore_terminate"], ["say", {"up": True}], ["echo"], ["echo"])
        child.frames(SOON)
        child.terminate()
        child.send(b"{}")
        assert child.frames(SOON) == {"echo": {}}
        child.kill()
        assert self.end_of(child) == ChildEnd(signal=signal.SIGKILL, killed_by_us=True)

    def test_stopping_a_child_that_has_ended_changes_nothing(self, child: ChildProcess) -> None:
        self.start(child, ["exit", 0])
        end = self.end_of(child)
        for stop in (child.terminate, child.kill, child.kill):
            stop()
        assert child.ended() == end == ChildEnd(exit_code=0)

    def test_the_longest_allowed_frame_arrives(self, child: ChildProcess) -> None:
        self.start(child, ["say_long", MAX_CHILD_FRAME_BYTES])
        frame = child.frames(SOON)
        assert frame is not None
        assert len(str(frame["text"])) == MAX_CHILD_FRAME_BYTES - 12

    @pytest.mark.parametrize(
        "step",
        [
            ["say_long", MAX_CHILD_FRAME_BYTES + 1],
            ["say_raw", "no json"],
            ["say_raw", "[1]"],
            ["say_raw", '{"a": NaN}'],
            ["say_raw", "[" * 100_000],
        ],
        ids=["too long", "no JSON", "no object", "not a number", "too deep"],
    )
    def test_a_broken_frame_kills_the_child_and_is_reported(
        self, child: ChildProcess, step: Sequence[object]
    ) -> None:
        self.start(child, ["say", {"good": 1}], step, ["listen_for_ever"])
        end = self.end_of(child)
        assert (end.signal, end.killed_by_us) == (signal.SIGKILL, True)
        assert end.broken_frame is not None
        assert self.read_frames(child) == [{"good": 1}]

    def test_memory_is_held_while_it_runs_and_none_afterwards(self, child: ChildProcess) -> None:
        self.start(child, ["say", {"up": True}], ["listen_for_ever"])
        child.frames(SOON)
        assert child.memory_bytes() > 0
        child.kill()
        self.end_of(child)
        assert child.memory_bytes() == 0
