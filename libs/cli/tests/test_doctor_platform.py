"""`doctor --platform`: every part has a step, what fails has a fix, and nothing hangs."""

import json
from pathlib import Path

import pytest

from datarecs_cli import check_steps
from datarecs_cli.check_steps import CheckStep, Outcome, check_rows, failed, warned
from datarecs_cli.main import run
from datarecs_core.errors.process import SettingsError

Shown = pytest.CaptureFixture[str]
SECRET = "hunter2-secret"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_without_a_platform_the_machine_is_checked_and_the_rest_says_what_is_missing(
    capsys: Shown,
) -> None:
    assert run(["doctor", "--platform", "-o", "json"]) == 3
    rows = {
        (row["source"], row["step"]): row for row in json.loads(capsys.readouterr().out)["items"]
    }
    assert rows["machine", "python"]["state"] == "ok"
    server = rows["database", "server"]
    assert server["state"] == "fail"
    assert "DATARECS_DATABASE__URL" in server["seen"]
    assert rows["database", "outbox"]["state"] == "skipped"
    assert rows["kafka", "topics and rights"]["state"] == "fail"


@pytest.mark.integration
def test_a_database_that_nobody_serves_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.setenv("DATARECS_DATABASE__URL", f"postgresql://recs:{SECRET}@127.0.0.1:1/recs")
    assert run(["doctor", "--platform", "-o", "json"]) == 3
    output = capsys.readouterr()
    assert SECRET not in output.out + output.err
    rows = {(row["source"], row["step"]): row for row in json.loads(output.out)["items"]}
    assert rows["database", "server"]["state"] == "fail"
    assert "refused" in rows["database", "server"]["seen"]
    assert rows["database", "server"]["fix"]


def rows_of(*steps: CheckStep) -> list[tuple[object, object]]:
    return [(row["step"], row["state"]) for row in check_rows(steps)]


def test_a_failure_ends_the_steps_of_its_part_alone() -> None:
    assert rows_of(
        CheckStep("a", "1", lambda: failed("x", "y")),
        CheckStep("a", "2", lambda: Outcome(seen="never")),
        CheckStep("b", "3", lambda: warned("x", "y")),
        CheckStep("b", "4", lambda: Outcome(seen="z")),
    ) == [("1", "fail"), ("2", "skipped"), ("3", "warn"), ("4", "ok")]


def test_an_error_of_ours_comes_with_its_fix() -> None:
    def broken() -> Outcome:
        raise SettingsError(("DATARECS_X is wrong",))

    (row,) = check_rows([CheckStep("a", "1", broken)])
    assert (row["state"], "DATARECS_X is wrong" in str(row["seen"])) == ("fail", True)
    assert row["fix"]


def test_a_step_that_hangs_is_abandoned_and_later_parts_are_still_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from threading import Event

    release = Event()

    def hang() -> Outcome:
        release.wait(30)
        return Outcome(seen="late")

    monkeypatch.setattr(check_steps, "STEP_LIMIT_S", 0.05)
    rows = rows_of(CheckStep("a", "1", hang), CheckStep("b", "2", lambda: Outcome(seen="z")))
    release.set()
    assert rows == [("1", "fail"), ("2", "ok")]


def test_after_the_whole_limit_nothing_more_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_steps, "WHOLE_LIMIT_S", 0.0)
    assert rows_of(CheckStep("a", "1", lambda: Outcome(seen="z"))) == [("1", "skipped")]
