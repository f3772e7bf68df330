import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from datarecs_application.ports.delivery import (
    Mailer,
    OutgoingMail,
    RelayLost,
    RelayReplied,
    SendOutcome,
    SmtpUtf8Missing,
)
from datarecs_core.notifications.replies import ReplyClass, Stage, classify
from datarecs_outbound.smtp import RelayAccess, SmtpLimits, SmtpMailer
from datarecs_testing.certificates import Authority, an_authority
from datarecs_testing.conformance.mailer import MAIL, MailerConformance
from datarecs_testing.smtp_server import Script, TestRelay, free_port, smtp_relay

pytestmark = pytest.mark.integration

QUICK = SmtpLimits(
    connect=timedelta(seconds=2),
    command=timedelta(seconds=2),
    data=timedelta(seconds=1),
    total=timedelta(seconds=4),
)


def access(relay: TestRelay, **changes: object) -> RelayAccess:
    plain = RelayAccess(
        host=relay.host, port=relay.port, security="none", envelope_from="recs@mail.example.com"
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # a builder's table


def say(mailer: SmtpMailer, mail: OutgoingMail = MAIL) -> SendOutcome:
    return mailer.send(mail, may_send_data=lambda: True)


def replied(outcome: SendOutcome) -> tuple[Stage, int, ReplyClass]:
    assert isinstance(outcome, RelayReplied)
    return outcome.reply.stage, outcome.reply.code, classify(outcome.reply)


@pytest.fixture
def relay() -> Iterator[TestRelay]:
    with smtp_relay() as running:
        yield running


@pytest.fixture
def mailer(relay: TestRelay) -> Iterator[SmtpMailer]:
    made = SmtpMailer(access(relay), limits=QUICK)
    yield made
    made.close()


class TestSmtp(MailerConformance):
    @pytest.fixture(autouse=True)
    def _check_health(self, relay: TestRelay) -> None:
        self._relay = relay

    def stored(self, mailer: Mailer) -> list[bytes]:  # noqa: ARG002  the relay says it
        return [content for _, content in self._relay.script.stored]


def test_one_connection_serves_many_mails(relay: TestRelay, mailer: SmtpMailer) -> None:
    for _ in range(3):
        say(mailer)
    assert len(relay.script.stored) == 3
    assert relay.script.connections == 1


@pytest.mark.case("M15")
@pytest.mark.case("X84")
def test_refusals_are_reported_with_their_stage_and_the_connection_goes_on(
    relay: TestRelay, mailer: SmtpMailer
) -> None:
    relay.script.rcpt["ana@example.com"] = ["550 5.1.1 no such user", "451 4.7.1 later"]
    assert replied(say(mailer)) == (Stage.RCPT, 550, ReplyClass.PERMANENT)
    assert replied(say(mailer)) == (Stage.RCPT, 451, ReplyClass.RETRY)
    relay.script.data = ["554 5.7.1 spam", "452 4.2.2 full"]
    assert replied(say(mailer)) == (Stage.DATA, 554, ReplyClass.PERMANENT)
    assert replied(say(mailer)) == (Stage.DATA, 452, ReplyClass.RETRY)
    relay.script.mail = ["550 5.7.1 not you"]
    assert replied(say(mailer)) == (Stage.MAIL, 550, ReplyClass.CONFIGURATION)
    assert relay.script.stored == []
    assert replied(say(mailer)) == (Stage.DATA, 250, ReplyClass.ACCEPTED)
    assert relay.script.connections == 1


@pytest.mark.case("M17")
@pytest.mark.case("X84")
@pytest.mark.parametrize("way", ["drop", "late"])
def test_an_answer_that_is_lost_after_the_data_is_reported_as_lost(
    relay: TestRelay, mailer: SmtpMailer, way: str
) -> None:
    relay.script.data = [way]
    assert isinstance(say(mailer), RelayLost)
    assert len(relay.script.stored) == 1
    assert replied(say(mailer))[2] is ReplyClass.ACCEPTED


@pytest.mark.case("M20")
def test_nobody_at_the_port_is_a_lost_relay() -> None:
    gone = TestRelay(host="127.0.0.1", port=free_port(), script=Script())
    mailer = SmtpMailer(access(gone), limits=QUICK)
    assert isinstance(say(mailer), RelayLost)
    mailer.close()


def test_a_relay_that_was_restarted_between_two_mails_is_dialled_again(
    relay: TestRelay, mailer: SmtpMailer
) -> None:
    relay.script.data = ["drop"]
    say(mailer)
    assert replied(say(mailer))[2] is ReplyClass.ACCEPTED


def test_an_international_address_needs_a_relay_that_takes_it(
    relay: TestRelay, mailer: SmtpMailer
) -> None:
    mail = replace(MAIL, recipient="größe@example.com")
    assert isinstance(say(mailer, mail), SmtpUtf8Missing)
    assert relay.script.stored == []
    with smtp_relay(smtputf8=True) as willing:
        other = SmtpMailer(access(willing), limits=QUICK)
        assert replied(say(other, mail))[2] is ReplyClass.ACCEPTED
        assert willing.script.stored[0][0] == "größe@example.com"
        other.close()


@pytest.fixture
def authority() -> Authority:
    return an_authority()


@pytest.fixture
def ca_file(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
    return path


def over_tls(relay: TestRelay, ca_file: Path | None, **changes: object) -> SmtpMailer:
    chosen = access(relay, host="localhost", security="starttls", ca_file=ca_file, **changes)
    return SmtpMailer(chosen, limits=QUICK)


def test_starttls_and_login_come_before_the_mail(
    authority: Authority, ca_file: Path, tmp_path: Path
) -> None:
    script = Script(password="s3cret-of-the-relay")
    with smtp_relay(script, tls=authority.server(tmp_path, host="localhost")) as relay:
        mailer = over_tls(relay, ca_file, username="recs", password="s3cret-of-the-relay")
        outcome = say(mailer)
        mailer.close()
    assert isinstance(outcome, RelayReplied)
    assert replied(outcome)[2] is ReplyClass.ACCEPTED
    assert outcome.tls_version.startswith("TLSv1.")


@pytest.mark.case("M21")
def test_a_wrong_password_is_a_setting_to_correct_and_is_repeated_nowhere(
    authority: Authority, ca_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    script = Script(password="another")
    with smtp_relay(script, tls=authority.server(tmp_path, host="localhost")) as relay:
        mailer = over_tls(relay, ca_file, username="recs", password="s3cret-of-the-relay")
        outcome = say(mailer)
        mailer.close()
    assert replied(outcome) == (Stage.AUTH, 535, ReplyClass.CONFIGURATION)
    assert "s3cret" not in repr(outcome)
    assert "s3cret" not in caplog.text
    assert script.stored == []


@pytest.mark.case("M22")
def test_a_stripped_starttls_ends_the_attempt_in_front_of_the_mail(
    relay: TestRelay, ca_file: Path
) -> None:
    mailer = over_tls(relay, ca_file, username="recs", password="s3cret")
    outcome = say(mailer)
    mailer.close()
    assert isinstance(outcome, RelayLost)
    assert relay.script.commands == []


@pytest.mark.case("M22")
@pytest.mark.parametrize("flaw", ["expired", "other host", "unknown authority"])
def test_a_certificate_with_a_flaw_ends_the_attempt_in_front_of_the_mail(
    authority: Authority, ca_file: Path, tmp_path: Path, flaw: str
) -> None:
    signer = an_authority() if flaw == "unknown authority" else authority
    host = "other.example.com" if flaw == "other host" else "localhost"
    valid = timedelta(days=1) if flaw == "expired" else timedelta(days=365 * 100)
    with smtp_relay(tls=signer.server(tmp_path, host=host, valid=valid)) as relay:
        mailer = over_tls(relay, ca_file)
        outcome = say(mailer)
        mailer.close()
    assert isinstance(outcome, RelayLost)
    assert "MAIL" not in relay.script.commands


def test_a_login_is_never_sent_without_tls(relay: TestRelay) -> None:
    mailer = SmtpMailer(access(relay, username="recs", password="s3cret"), limits=QUICK)
    assert isinstance(say(mailer), RelayLost)
    assert "MAIL" not in relay.script.commands
    mailer.close()
