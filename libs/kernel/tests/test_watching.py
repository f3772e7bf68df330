"""The one thread beside a stage: what it checks, and how often."""

from threading import Event

import pytest

from datarecs_kernel import watching
from datarecs_kernel.watching import Watch

LIMIT_S = 30.0


class Seen:
    """Runs a number of times, and records the last run."""

    def __init__(self, enough: int | None = None) -> None:
        self.enough, self.lasts = enough, list[bool]()
        self.twice = Event()

    def __call__(self, *, last: bool) -> bool:
        self.lasts.append(last)
        if len(self.lasts) == 2:
            self.twice.set()
        return len(self.lasts) != self.enough


def test_work_that_is_done_at_once_is_checked_once() -> None:
    seen = Seen()
    with Watch([seen]):
        pass
    assert seen.lasts == [True]


def test_all_check_again_and_again_until_they_have_seen_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "CHECK_EVERY_S", 0.001)
    once, always = Seen(enough=1), Seen()
    with Watch([once, always]):
        assert always.twice.wait(LIMIT_S)
    assert once.lasts == [False]
    *before, last = always.lasts
    assert len(before) > 1
    assert last
    assert not any(before)


def test_nobody_checks_again_when_all_have_seen_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "CHECK_EVERY_S", 0.001)
    twice = Seen(enough=2)
    with Watch([twice]):
        assert twice.twice.wait(LIMIT_S)
    assert twice.lasts == [False, False]
