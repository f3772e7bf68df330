"""When a part that starts is late: after a limit without progress, whatever the clock says."""

import subprocess
from functools import partial
from threading import Event

from datarecs_cli.stack.process import tree_work_s
from datarecs_cli.stack.progress import MOST_LIMITS, Progress

LIMIT_S = 30.0


def late_after(seconds: int, *, log: float = 0, work: float = 0, answers: int = 1) -> bool:
    """Noted each second: bytes of the log and processor time a second, answers in turn."""
    progress = Progress()
    for now in range(seconds + 1):
        worked_s = partial(float, work * now)
        progress.note(int(log * now), f"answer {now % answers}", worked_s=worked_s, now=now)
        if progress.is_over(LIMIT_S, now=now):
            return True
    return False


def test_a_part_that_does_nothing_is_late_after_its_limit() -> None:
    assert not late_after(29)
    assert late_after(30)


def test_a_part_that_logs_works_or_answers_otherwise_is_not_late() -> None:
    assert not late_after(200, log=10)
    assert not late_after(200, work=0.05)
    assert not late_after(200, answers=2)


def test_the_processor_time_of_waiting_is_no_progress() -> None:
    assert late_after(60, work=0.01)


def test_a_part_that_works_for_ever_is_late_in_the_end() -> None:
    assert late_after(int(MOST_LIMITS * LIMIT_S), log=10, work=1)


def test_the_work_of_what_a_part_started_counts_as_work_of_the_part() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sh -c 'while :; do :; done' & wait"]) as part:
        tick = Event()
        for _ in range(600):
            if tree_work_s(part.pid) > 0:
                break
            tick.wait(0.05)
        worked = tree_work_s(part.pid)
        subprocess.run(["pkill", "-P", str(part.pid)], check=True)
    assert worked > 0
    assert tree_work_s(part.pid) == 0
