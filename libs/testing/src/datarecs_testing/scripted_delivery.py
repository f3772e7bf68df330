"""A webhook client and a mailer in memory that follow a script.

They pass the same conformance suites as the real ones, so that loops are tested without a socket.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from datarecs_application.ports.delivery import (
    OutgoingMail,
    OutgoingWebhook,
    RelayReplied,
    SendOutcome,
    WebhookReport,
    Withheld,
)
from datarecs_core.notifications.replies import Reply, Stage
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome, outcome_of_status

OK = AttemptEnd(outcome=Outcome.OK, status=200)
ACCEPTED = RelayReplied(reply=Reply(stage=Stage.DATA, code=250, text="2.0.0 stored"))


def answered(status: int, *, retry_after: str | None = None) -> AttemptEnd:
    return AttemptEnd(outcome=outcome_of_status(status), status=status, retry_after=retry_after)


class ScriptedWebhookClient:
    """Port WebhookClient: each attempt ends at the next `ended`, unless it is held back."""

    def __init__(
        self, answer: Callable[[OutgoingWebhook], AttemptEnd | None] = lambda _: OK
    ) -> None:
        self.sent: list[OutgoingWebhook] = []
        """All sent items, in order."""
        self.most_in_flight = 0
        self.closed = False
        self.address_class: str | None = None
        """Of the address that is refused, where the script answers BLOCKED_ADDRESS."""
        self.headers: tuple[tuple[str, str], ...] = (("content-type", "text/plain"),)
        """Headers of the next answers."""
        self._answer = answer
        self._under_way: list[OutgoingWebhook] = []

    @property
    def in_flight(self) -> int:
        return len(self._under_way)

    def start(self, request: OutgoingWebhook) -> None:
        self.sent.append(request)
        self._under_way.append(request)
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def ended(self, timeout: timedelta) -> list[WebhookReport]:  # noqa: ARG002  nothing to wait for
        """Those that have an answer; None from the script keeps an attempt under way."""
        ends = [(request, self._answer(request)) for request in self._under_way]
        self._under_way = [request for request, end in ends if end is None]
        return [
            WebhookReport(
                ticket=request.ticket,
                end=end,
                response_headers=self.headers,
                address_class=self.address_class,
            )
            for request, end in ends
            if end is not None
        ]

    def close(self) -> None:
        self.closed = True


class ScriptedMailer:
    """Port Mailer: outcomes in order, then every mail is accepted.

    An outcome that answers the data or is lost after it stores the mail; others do not reach it.
    """

    relay = "scripted"

    def __init__(self, *outcomes: SendOutcome | Callable[[], SendOutcome]) -> None:
        self.stored: list[OutgoingMail] = []
        self.closed = False
        self._outcomes = list(outcomes)

    def send(self, mail: OutgoingMail, *, may_send_data: Callable[[], bool]) -> SendOutcome:
        outcome = self._outcomes.pop(0) if self._outcomes else ACCEPTED
        if not callable(outcome) and not _reaches_data(outcome):
            return outcome
        if not may_send_data():
            return Withheld()
        if callable(outcome) or outcome == ACCEPTED:
            self.stored.append(replace(mail))
        return outcome() if callable(outcome) else outcome

    def close(self) -> None:
        self.closed = True


def _reaches_data(outcome: SendOutcome) -> bool:
    return isinstance(outcome, RelayReplied) and outcome.reply.stage is Stage.DATA
