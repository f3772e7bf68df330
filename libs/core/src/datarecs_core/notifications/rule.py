"""The declared NotificationRule and what makes one well formed.

Which outcomes of which jobs are mailed to whom. Separate from its evaluation, so that YAML, REST
and the stored row decode into one shape.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.faults import Fault, Step
from datarecs_core.errors.spec import SpecCode
from datarecs_core.notifications.address import address_fault
from datarecs_core.notifications.wall_clock import EVERY_DAY, Period, Weekday
from datarecs_core.runs.model import RunMode, RunResult

MAX_RECIPIENTS = 100
"""Entries of `to` in one rule."""
MAX_JOBS = 200
MAX_CONSECUTIVE = 10
MAX_MUTES = 50
MAX_PERIODS = 14
MAX_TIMES = 24

ERRORED = "ERRORED"
OUTCOMES = (
    *(result.value for result in RunResult),
    ERRORED,
    *(f"{ERRORED}:{code}" for code in RunErrorCode),
)
"""What `match.outcomes` may name; plain ERRORED means every code."""


class Channel(StrEnum):
    EMAIL = "email"


class Notify(StrEnum):
    ON_CHANGE = "on_change"
    """When the outcome differs from the one last mailed."""
    EVERY_RUN = "every_run"


class Detail(StrEnum):
    """How much a mail contains, least first."""

    MINIMAL = "minimal"
    """Verdict and link."""
    SUMMARY = "summary"
    FULL = "full"
    """Adds a table per stage and measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which runs; every declared part must hold."""

    jobs: tuple[str, ...] = ()
    """Names of reconciliation jobs; none means all."""
    job_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that the job must have, all of them."""
    triggers: tuple[RunMode, ...] = ()
    """IMMEDIATE, SCHEDULED; none means both."""
    outcomes: tuple[str, ...] = (RunResult.UNMATCHED.value, ERRORED)
    detail_codes: tuple[str, ...] = ()
    """Finer causes of ERRORED, such as COLUMN_NOT_FOUND; none means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    address: str
    """A mail address without display name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """No mail about these jobs until then."""

    jobs: tuple[str, ...] = ()
    """Names; none means all."""
    until: datetime
    """The first instant at which mails leave again."""
    reason: str = ""
    """The reason, for readers of the rule."""


class QuietBehaviour(StrEnum):
    HOLD = "hold"
    """Mails leave when the quiet ends; more than one of a recipient as one digest."""
    SKIP = "skip"
    """Mails are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """When mails are held or skipped."""

    periods: tuple[Period, ...]
    timezone: str = "UTC"
    """IANA name; periods are times of its wall clock."""
    exceptions: tuple[str, ...] = ()
    """Outcomes that are mailed at once."""
    behaviour: QuietBehaviour = QuietBehaviour.HOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Mails are collected and leave as one mail per recipient at these times."""

    at: tuple[str, ...]
    """Times of day, `HH:MM`."""
    days: tuple[Weekday, ...] = EVERY_DAY
    timezone: str = "UTC"
    """IANA name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRule:
    """Spec of the kind NotificationRule."""

    enabled: bool = True
    match: Match = field(default_factory=Match)
    channel: Channel = Channel.EMAIL
    notify: Notify = Notify.ON_CHANGE
    recovery: bool = True
    """Whether MATCHED after a mailed other outcome is mailed, even if it is not in `outcomes`."""
    remind_after: timedelta = timedelta()
    """With `on_change`: the same outcome is mailed again when the last mail is this old; zero:
    never."""
    after_consecutive: int = 1
    """The first mail leaves on this run in a row that did not match."""
    mutes: tuple[Mute, ...] = ()
    quiet_hours: QuietHours | None = None
    digest: Digest | None = None
    """None: each mail leaves at once."""
    to: tuple[Recipient, ...]
    """1 to 100 recipients."""
    detail: Detail = Detail.SUMMARY


def rule_faults(rule: NotificationRule) -> tuple[Fault, ...]:
    """All faults of the rule at once."""
    return (*_match_faults(rule.match), *_recipient_faults(rule.to), *_timing_faults(rule))


def _fault(code: SpecCode, message: str, *steps: Step) -> Fault:
    return Fault(code=code, path=("spec", *steps), message=message)


def _match_faults(match: Match) -> Iterator[Fault]:
    if len(match.jobs) > MAX_JOBS:
        message = f"{len(match.jobs)} names; at most {MAX_JOBS}"
        yield _fault(SpecCode.BAD_LENGTH, message, "match", "jobs")
    if not match.outcomes:
        message = "an empty list matches nothing; leave it out for the default"
        yield _fault(SpecCode.BAD_LENGTH, message, "match", "outcomes")
    for index, outcome in enumerate(match.outcomes):
        if outcome not in OUTCOMES:
            message = f"unknown outcome; one of {', '.join(OUTCOMES)}"
            yield _fault(SpecCode.NOT_IN_ENUM, message, "match", "outcomes", index)


def _recipient_faults(recipients: tuple[Recipient, ...]) -> Iterator[Fault]:
    if not 1 <= len(recipients) <= MAX_RECIPIENTS:
        message = f"{len(recipients)} recipients; 1 to {MAX_RECIPIENTS}"
        yield _fault(SpecCode.BAD_LENGTH, message, "to")
    for index, recipient in enumerate(recipients):
        if problem := address_fault(recipient.address):
            yield _fault(SpecCode.BAD_ADDRESS, problem, "to", index, "address")


def _timing_faults(rule: NotificationRule) -> Iterator[Fault]:
    if rule.remind_after and rule.notify is Notify.EVERY_RUN:
        message = "every run is mailed, so a reminder has no effect; use notify: on_change"
        yield _fault(SpecCode.WITHOUT_EFFECT, message, "remind_after")
    quiet = rule.quiet_hours
    for index, period in enumerate(quiet.periods if quiet else ()):
        if period.start == period.end:
            message = "start and end are equal; write the first and the last minute of the quiet"
            yield _fault(SpecCode.BAD_LENGTH, message, "quiet_hours", "periods", index)
