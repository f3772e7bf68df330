import stat
from pathlib import Path

import pytest

from datarecs_application.ports.delivery import Mailer, RelayLost
from datarecs_outbound.maildir import MaildirMailer, file_name
from datarecs_testing.conformance.mailer import MAIL, MailerConformance


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mail"


@pytest.fixture
def mailer(folder: Path) -> MaildirMailer:
    return MaildirMailer(folder)


class TestMaildir(MailerConformance):
    @pytest.fixture(autouse=True)
    def _check_health(self, folder: Path) -> None:
        self._folder = folder

    def stored(self, mailer: Mailer) -> list[bytes]:  # noqa: ARG002  the folder says it
        new = self._folder / "new"
        return [path.read_bytes() for path in sorted(new.iterdir())] if new.is_dir() else []


@pytest.mark.case("M17")
def test_a_mail_said_twice_is_one_file(mailer: MaildirMailer, folder: Path) -> None:
    for _ in range(2):
        mailer.send(MAIL, may_send_data=lambda: True)
    assert [path.name for path in (folder / "new").iterdir()] == ["run.1.abc.eml"]
    assert list((folder / "tmp").iterdir()) == []


def test_the_folders_are_the_owners_alone(mailer: MaildirMailer, folder: Path) -> None:
    mailer.send(MAIL, may_send_data=lambda: True)
    assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_written_is_reported_as_a_relay_that_is_away(
    mailer: MaildirMailer, folder: Path
) -> None:
    folder.write_text("in the way")
    outcome = mailer.send(MAIL, may_send_data=lambda: True)
    assert isinstance(outcome, RelayLost)


def test_a_message_id_cannot_leave_the_folder() -> None:
    assert file_name("<../../etc/x@mail.example.com>") == ".._.._etc_x.eml"
