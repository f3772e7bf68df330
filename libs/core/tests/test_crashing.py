"""The hook of crash tests does nothing until a launcher binds it."""

import pytest

from datarecs_core import crashing
from datarecs_core.crashing import CrashPoint, crash_point, pass_by


def test_in_production_nothing_happens() -> None:
    assert crashing.hook is pass_by
    for point in CrashPoint:
        crash_point(point)


def test_a_bound_hook_receives_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[CrashPoint] = []
    monkeypatch.setattr(crashing, "hook", places.append)
    crash_point(CrashPoint.RELAY_AFTER_SEND)
    assert places == [CrashPoint.RELAY_AFTER_SEND]
