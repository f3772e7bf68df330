"""DR56: what ends deliveries and mails: events that are too large, and a mail relay that refuses.

A separate family because the rules of webhooks and mail raise them, and neither may import the
other.
"""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class DeliveryCode(ErrorCode):
    EVENT_TOO_LARGE_FOR_WEBHOOK = Entry(
        docs_id="DR5601",
        meaning="An event's data is larger than the event contract allows, so no webhook is sent.",
        causes="A record that the platform did not write; its events have less than 64 KiB.",
        remedy="Check the dead letter and who may write to the topic.",
    )
    RUN_NOT_FINISHED = Entry(
        docs_id="DR5602",
        meaning="A run.finalised names a run without an outcome.",
        causes="The database was restored to a time before the run's end, or the record is"
        " forged: the row is always committed before the event.",
        remedy="After a restore do nothing: the run ends again, with its mail. Else check the dead"
        " letter and who may write to the topic.",
    )
    MAIL_RELAY_REFUSES_US = Entry(
        docs_id="DR5603",
        meaning="The mail relay refuses login or sender, so no mail is sent; mails wait.",
        causes="A wrong user or password, a sender address the relay does not allow.",
        remedy="Correct DATARECS_MAIL__USERNAME, its password or DATARECS_MAIL__FROM; waiting "
        "mails are sent automatically within 24 h of their run.",
    )
    MAIL_RELAY_AWAY = Entry(
        docs_id="DR5604",
        meaning="The mail relay cannot be reached, or its TLS cannot be trusted; mails wait.",
        causes="Relay down, wrong host or port, STARTTLS not offered, certificate not valid.",
        remedy="Check DATARECS_MAIL__HOST, __PORT, __SECURITY and __CA_FILE; nothing is sent "
        "without TLS. Waiting mails are sent automatically within 24 h of their run.",
        retryable=True,
    )


class EventTooLargeError(DatarecsError):
    code = DeliveryCode.EVENT_TOO_LARGE_FOR_WEBHOOK

    def __init__(self, *, size_bytes: int, most: int) -> None:
        super().__init__(f"the event's data has {size_bytes} bytes; a webhook allows {most}")
        self.size_bytes, self.most = size_bytes, most


class RunNotFinishedError(DatarecsError):
    code = DeliveryCode.RUN_NOT_FINISHED

    def __init__(self, *, run_id: object) -> None:
        super().__init__(f"run {run_id} does not exist or has no outcome, so no mail is sent")
        self.run_id = run_id
