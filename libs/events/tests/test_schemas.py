"""The writer of `events-schema/`: it writes everything, notices everything, says the remedy."""

import json
from pathlib import Path

import pytest

from datarecs_events.publishing import published_files
from datarecs_events.schemas import main

NAME = "reconciliation.run.finalised/1.json"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    assert main(["--write", str(folder)]) == 0
    return folder


def test_a_written_folder_is_recognised_as_unchanged(written: Path) -> None:
    assert main(["--check", str(written)]) == 0
    assert main(["--against", str(written)]) == 0


@pytest.mark.case("STY-08")
def test_every_difference_is_named_with_the_command(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in published_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / NAME).unlink()
    (tmp_path / "README.md").write_text("other", encoding="utf-8")
    (tmp_path / "stale.json").write_text("{}", encoding="utf-8")
    assert main(["--check", str(tmp_path)]) == 1
    output = capsys.readouterr().err.splitlines()
    assert output == ["README.md", NAME, "stale.json", "run `make schemas`"]
    assert main(["--write", str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    assert written != tmp_path


@pytest.mark.case("L40")
def test_an_older_release_is_held_against_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = json.loads(published_files()[NAME])
    older["required"].remove("job_id")
    path = tmp_path / NAME
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(older), encoding="utf-8")
    gone = tmp_path / "reconciliation.run.failed" / "1.json"
    gone.parent.mkdir()
    gone.write_text("{}", encoding="utf-8")
    assert main(["--against", str(tmp_path)]) == 1
    output = capsys.readouterr().err
    assert "reconciliation.run.failed/1.json: the type is missing" in output
    assert f"{NAME}: job_id: now required" in output


def test_examples_show_decimals_as_they_are_sent() -> None:
    files = published_files()
    assert '"probe": 0.010' in files["webhook.test/examples/full.json"]


def test_subscriptions_are_filters_on_types() -> None:
    subscriptions = json.loads(published_files()["subscriptions.json"])
    mails = [one for one in subscriptions if one["subscriber"] == "email-notifier"]
    assert mails == [
        {
            "subscriber": "email-notifier",
            "topic": "datarecs.run.platform",
            "filter": {"attributes": {"type": "io.datarecs.reconciliation.run.finalised"}},
        }
    ]
    hooks = [one for one in subscriptions if one["subscriber"] == "webhook-service"]
    assert all("filter" not in one for one in hooks)


def test_the_page_names_every_type_and_topic() -> None:
    files = published_files()
    catalogue = json.loads(files["catalogue.json"])
    for one in catalogue:
        assert one["schema"] in files
        assert one["schema"].removesuffix("/1.json") in files["README.md"]
        assert one["topic"] is None or one["topic"] in files["README.md"]
