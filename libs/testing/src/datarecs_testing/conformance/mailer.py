"""Conformance suite of Mailer; the test reads the received mails with `stored()`."""

from abc import ABC, abstractmethod

from datarecs_application.ports.delivery import Mailer, OutgoingMail, RelayReplied, Withheld
from datarecs_core.notifications.replies import ReplyClass, classify

MAIL = OutgoingMail(
    recipient="ana@example.com",
    message_id="<run.1.abc@mail.example.com>",
    mime=b"Subject: hello\r\n\r\n.dots\r\n..stay\r\n",
)


class MailerConformance(ABC):
    """Subclass with a fixture `mailer` and `stored`."""

    @abstractmethod
    def stored(self, mailer: Mailer) -> list[bytes]:
        """Received contents, read by the implementation."""

    def test_an_accepted_mail_is_stored_byte_for_byte_and_answered(self, mailer: Mailer) -> None:
        outcome = mailer.send(MAIL, may_send_data=lambda: True)
        assert isinstance(outcome, RelayReplied)
        assert classify(outcome.reply) is ReplyClass.ACCEPTED
        assert self.stored(mailer) == [MAIL.mime]

    def test_the_phase_is_committed_once_and_before_anything_is_stored(
        self, mailer: Mailer
    ) -> None:
        seen: list[list[bytes]] = []

        def may_send_data() -> bool:
            seen.append(self.stored(mailer))
            return True

        mailer.send(MAIL, may_send_data=may_send_data)
        assert seen == [[]]

    def test_without_the_commit_nothing_is_stored_and_the_next_mail_goes(
        self, mailer: Mailer
    ) -> None:
        assert isinstance(mailer.send(MAIL, may_send_data=lambda: False), Withheld)
        assert self.stored(mailer) == []
        assert isinstance(mailer.send(MAIL, may_send_data=lambda: True), RelayReplied)
        assert self.stored(mailer) == [MAIL.mime]
