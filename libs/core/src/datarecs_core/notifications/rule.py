"""The declared NotificationRule and what makes one well formed.

Which outcomes of which jobs are mailed to whom. Kept apart from its evaluation, so that YAML, REST
and the stored row decode into one shape.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.faults import Fault, Step
from datarecs_core.errors.spec import SpecCode
from datarecs_core.notifications.address import address_fault
from datarecs_core.runs.model import RunMode, RunResult

MAX_RECIPIENTS = 100
"""Entries of `to` in one rule."""
MAX_JOBS = 200

ERRORED = "ERRORED"
OUTCOMES = (
    *(result.value for result in RunResult),
    ERRORED,
    *(f"{ERRORED}:{code}" for code in RunErrorCode),
)
"""What `match.outcomes` may name; plain ERRORED stands for every code."""


class Channel(StrEnum):
    EMAIL = "email"


class Notify(StrEnum):
    ON_CHANGE = "on_change"
    """When the outcome differs from the one last told."""
    EVERY_RUN = "every_run"


class Detail(StrEnum):
    """How much a mail says, least first."""

    MINIMAL = "minimal"
    """Verdict and link."""
    SUMMARY = "summary"
    FULL = "full"
    """Adds a table per stage and measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which runs; every part that is given must hold."""

    jobs: tuple[str, ...] = ()
    """Names of reconciliation jobs; none means all."""
    triggers: tuple[RunMode, ...] = ()
    """IMMEDIATE, SCHEDULED; none means both."""
    outcomes: tuple[str, ...] = (RunResult.UNMATCHED.value, ERRORED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    address: str
    """A mail address without display name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRule:
    """Spec of the kind NotificationRule."""

    enabled: bool = True
    match: Match = field(default_factory=Match)
    channel: Channel = Channel.EMAIL
    notify: Notify = Notify.ON_CHANGE
    recovery: bool = True
    """Whether MATCHED after a mailed other outcome is mailed, even when `outcomes` lacks it."""
    to: tuple[Recipient, ...]
    """1 to 100 recipients."""
    detail: Detail = Detail.SUMMARY


def rule_faults(rule: NotificationRule) -> tuple[Fault, ...]:
    """Everything wrong with the rule at once."""
    return (*_match_faults(rule.match), *_recipient_faults(rule.to))


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
