"""Re-drive: dead letters go to the same handler again, with their original id, through the inbox.

A command of a service, not a loop: an operator runs it after the cause is fixed. It reads the dead
letter topic with a separate group; nothing is republished, so other groups are not affected.
Letters that fail again or do not match return to the end of the dead letter topic.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from datarecs_application.ports.messaging import (
    LogClient,
    LogConsumer,
    LogRecord,
    Partition,
    Unreadable,
)
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.dead_letter import HANDLER_FAILED, DeadLetter, DeadLetters, letter_of
from datarecs_kafka.handling import Handled, Handling, Poison, TryLater, Unclassified

POLL = timedelta(milliseconds=500)
EMPTY_POLLS = 40
"""This number in a row (20 s) means that the broker assigns or delivers nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveWish:
    """The selected dead letters, and the action for them."""

    reason: str | None = None
    event_id: str | None = None
    limit: int | None = None
    """Maximum number of selected letters."""
    discard: bool = False
    """Drop them instead of handling them."""

    def means(self, letter: DeadLetter) -> bool:
        if self.reason is not None and letter.reason != self.reason:
            return False
        headers = {name.lower(): content for name, content in letter.record.headers}
        return self.event_id is None or headers.get("ce_id") == self.event_id.encode()


@dataclass(slots=True)
class RedriveReport:
    """Counts of dead letters by result."""

    handled: int = 0
    failed: int = 0
    """Returned with one more attempt."""
    skipped: int = 0
    """Not selected; returned unchanged."""
    discarded: int = 0
    unreadable: int = 0


@dataclass(slots=True, kw_only=True)
class Redrive:
    """Reads the dead letters that exist when it starts, each once."""

    log_client: LogClient
    handling: Handling
    _report: RedriveReport = field(default_factory=RedriveReport, init=False)

    @property
    def report(self) -> RedriveReport:
        """The results so far, also after an error."""
        return self._report

    def run(self, wish: RedriveWish) -> RedriveReport:
        """Safe to repeat and to interrupt: an effect happens once, a letter is never lost.

        Raises:
            LogUnavailableError: broker unavailable, or a letter could not be returned; finished
                letters are committed, the others wait.
            DatarecsError: a retryable failure of a handler, such as an unavailable database.
        """
        group = self.handling.group
        letters = DeadLetters(client=self.log_client, group=group, clock=self.handling.clock)
        member = self.log_client.consumer(group=f"{group}.redrive", topics=[letters.topic])
        try:
            self._read(member, letters, wish)
        finally:
            member.close()
            letters.close()
        return self._report

    def _read(self, member: LogConsumer, letters: DeadLetters, wish: RedriveWish) -> None:
        ends: dict[Partition, int] | None = None
        empty = 0
        while empty < EMPTY_POLLS and not self._enough(wish):
            batches = member.poll(POLL, max_records=100)
            empty = 0 if batches else empty + 1
            if ends is None and member.assignment():
                ends = {where: member.end_offset(where) for where in member.assignment()}
            for where, records in batches.items():
                for record in records:
                    if self._enough(wish) or record.offset >= (ends or {}).get(where, 0):
                        break
                    self._one(record, letters, wish)
                    member.commit({where: record.offset + 1})
            if ends is not None and all(self._at(member, w) >= end for w, end in ends.items()):
                return

    @staticmethod
    def _at(member: LogConsumer, where: Partition) -> int:
        return max(member.committed(where) or 0, member.begin_offset(where))

    def _enough(self, wish: RedriveWish) -> bool:
        report = self._report
        return wish.limit is not None and (
            report.handled + report.failed + report.discarded >= wish.limit
        )

    def _one(self, record: LogRecord | Unreadable, letters: DeadLetters, wish: RedriveWish) -> None:
        if isinstance(record, Unreadable):
            self._report.unreadable += 1
            return
        try:
            letter = letter_of(record)
        except ValueError:
            self._report.unreadable += 1
            return
        if not wish.means(letter):
            self._report.skipped += 1
            self._return(letters, letter)
        elif wish.discard:
            self._report.discarded += 1
        else:
            self._try(letters, letter)

    def _try(self, letters: DeadLetters, letter: DeadLetter) -> None:
        outcome = self.handling.handle(letter.record)
        match outcome:
            case Handled():
                self._report.handled += 1
            case TryLater(cause=cause):
                raise cause
            case Unclassified(error=error):
                self._again(letters, letter, Poison(HANDLER_FAILED, error))
            case Poison():
                self._again(letters, letter, outcome)

    def _again(self, letters: DeadLetters, letter: DeadLetter, poison: Poison) -> None:
        self._report.failed += 1
        self._return(
            letters,
            replace(
                letter,
                reason=poison.reason,
                error=poison.error,
                attempts=letter.attempts + 1,
                failed_at="",
            ),
        )

    @staticmethod
    def _return(letters: DeadLetters, letter: DeadLetter) -> None:
        refused = letters.park(letter)
        if refused is not None:
            raise LogUnavailableError(where=letters.topic, cause=refused)
