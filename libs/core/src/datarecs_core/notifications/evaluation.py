"""Who is mailed about a finalised run, and why everybody else is not.

The rules of a tenant against one run, with the state of each (rule, job): a pure function, run
inside the transaction that holds those states locked. What a mail's row then goes through stands in
`mail`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.notifications.address import address_fault, is_sendable, recipient_key
from datarecs_core.notifications.rule import ERRORED, Detail, NotificationRule, Notify
from datarecs_core.runs.model import Run, RunMode, RunResult
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId

STALE_AFTER = timedelta(hours=24)
"""A consumer group made anew reads history, and nobody wants mail about it."""
MAX_RECIPIENTS_PER_RUN = 200


class SkipReason(StrEnum):
    """Why somebody was not mailed, in the order in which it is asked."""

    STALE = "STALE"
    NO_MATCHING_RULE = "NO_MATCHING_RULE"
    SUPERSEDED = "SUPERSEDED"
    NOT_CHANGED = "NOT_CHANGED"
    UNRESOLVED = "UNRESOLVED"
    UNVERIFIED = "UNVERIFIED"
    RECIPIENT_CAP = "RECIPIENT_CAP"


class MailKind(StrEnum):
    OUTCOME = "OUTCOME"
    RECOVERY = "RECOVERY"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What rules read of a finalised run; from its row, which is ahead of the event."""

    tenant_id: TenantId
    run_id: RunId
    job_id: JobId
    job_name: str
    mode: RunMode
    outcome: str
    """MATCHED, UNMATCHED or `ERRORED:<code>`."""
    finalised_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    uid: ResourceUid
    name: str
    spec: NotificationRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """What a rule remembers of a job, in the order of `finalised_at`."""

    rule_uid: ResourceUid
    job_id: JobId
    last_run_id: RunId | None = None
    last_finalised_at: datetime | None = None
    announced: str | None = None
    """The outcome last mailed, or last seen while the rule does not name it."""
    open_alert: bool = False
    """Set by a mailed outcome other than MATCHED, cleared by MATCHED; recovery needs it."""
    alert_outcome: str | None = None
    """What the first mail of the open alert said."""
    consecutive: int = 0
    """Length of the current streak of other outcomes than MATCHED."""
    streak_since: datetime | None = None
    last_mailed_at: datetime | None = None
    last_mailed_outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What came before, for the text of a mail."""

    since: datetime | None = None
    """When the streak of outcomes other than MATCHED began."""
    runs: int = 0
    """How many runs it had, this one included unless it ends the streak."""
    first_told: str | None = None
    """For a recovery: the outcome the first mail named."""


NOTHING_BEFORE = Background()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One recipient of the run, with every rule that leads there."""

    address: str
    """As first spelt; used in RCPT TO."""
    key: str
    rules: tuple[str, ...]
    kind: MailKind
    detail: Detail
    background: Background = NOTHING_BEFORE
    skipped: SkipReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A rule that matched and was held back; or, without a rule, the whole run was."""

    reason: SkipReason
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    states: tuple[RuleState, ...] = ()
    """Those that changed."""
    intents: tuple[Intent, ...] = ()
    """One per recipient, skipped ones included."""
    held: tuple[Held, ...] = ()


def outcome_of(run: Run) -> str | None:
    """The outcome that rules name; None for a run that has none (open, or cancelled)."""
    if run.error is not None:
        return f"{ERRORED}:{run.error.code}"
    return None if run.result is None else run.result.value


def evaluate_rules(
    rules: Iterable[StoredRule],
    run: RunFacts,
    states: Mapping[ResourceUid, RuleState],
    *,
    domains: Collection[str],
    now: datetime,
) -> Evaluation:
    """Every recipient of the run once, every reason for silence, and the new states.

    Args:
        rules: of the run's tenant; disabled ones are ignored.
        run: a run that ended MATCHED, UNMATCHED or errored.
        states: by rule; a rule without one has seen nothing of this job.
        domains: lower-case A-label domains the tenant may write to.
        now: database time.
    """
    if now - run.finalised_at > STALE_AFTER:
        return Evaluation(held=(Held(reason=SkipReason.STALE),))
    changed: list[RuleState] = []
    held: list[Held] = []
    firing: list[_Firing] = []
    for rule in sorted(rules, key=lambda rule: rule.name):
        before = states.get(rule.uid, RuleState(rule_uid=rule.uid, job_id=run.job_id))
        if not _concerns(rule.spec, run):
            continue
        verdict, after = _judge(rule, run, before, now=now)
        if after != before:
            changed.append(after)
        if isinstance(verdict, Held):
            held.append(verdict)
        elif verdict is not None:
            firing.append(verdict)
    if not held and not firing:
        held.append(Held(reason=SkipReason.NO_MATCHING_RULE))
    intents = _recipients(firing, domains)
    return Evaluation(states=tuple(changed), intents=intents, held=tuple(held))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Firing:
    rule: StoredRule
    kind: MailKind
    background: Background


def _concerns(rule: NotificationRule, run: RunFacts) -> bool:
    jobs, triggers = rule.match.jobs, rule.match.triggers
    return (
        rule.enabled
        and (not jobs or run.job_name in jobs)
        and (not triggers or run.mode in triggers)
    )


def _judge(
    rule: StoredRule, run: RunFacts, before: RuleState, *, now: datetime
) -> tuple[_Firing | Held | None, RuleState]:
    """What the rule says about the run, and its state afterwards.

    A run older than the state changes no state: it was overtaken.
    """
    spec = rule.spec
    overtaken = before.last_finalised_at is not None and run.finalised_at < before.last_finalised_at
    named = run.outcome in spec.match.outcomes or run.outcome.split(":")[0] in spec.match.outcomes
    recovers = run.outcome == RunResult.MATCHED and before.open_alert and spec.recovery
    after = before if overtaken else _seen(before, run)
    if not named and not recovers:
        return None, after if overtaken else replace(after, announced=run.outcome)
    on_change = spec.notify is Notify.ON_CHANGE
    if on_change and overtaken:
        return Held(reason=SkipReason.SUPERSEDED, rule=rule.name), before
    if on_change and run.outcome == before.announced and not recovers:
        return Held(reason=SkipReason.NOT_CHANGED, rule=rule.name), after
    firing = _Firing(
        rule=rule,
        kind=MailKind.RECOVERY if recovers else MailKind.OUTCOME,
        background=_background(before, after, run, recovers=recovers),
    )
    return firing, after if overtaken else _mailed(before, after, run, now=now)


def _seen(before: RuleState, run: RunFacts) -> RuleState:
    matched = run.outcome == RunResult.MATCHED
    return replace(
        before,
        last_run_id=run.run_id,
        last_finalised_at=run.finalised_at,
        open_alert=before.open_alert and not matched,
        alert_outcome=None if matched else before.alert_outcome,
        consecutive=0 if matched else before.consecutive + 1,
        streak_since=None if matched else before.streak_since or run.finalised_at,
    )


def _mailed(before: RuleState, after: RuleState, run: RunFacts, *, now: datetime) -> RuleState:
    alert = run.outcome != RunResult.MATCHED
    return replace(
        after,
        announced=run.outcome,
        open_alert=alert,
        alert_outcome=(before.alert_outcome or run.outcome) if alert else None,
        last_mailed_at=now,
        last_mailed_outcome=run.outcome,
    )


def _background(
    before: RuleState, after: RuleState, run: RunFacts, *, recovers: bool
) -> Background:
    if recovers:
        return Background(
            since=before.streak_since, runs=before.consecutive, first_told=before.alert_outcome
        )
    if run.outcome == RunResult.MATCHED:
        return Background()
    return Background(since=after.streak_since, runs=after.consecutive)


def _recipients(firing: Iterable[_Firing], domains: Collection[str]) -> tuple[Intent, ...]:
    """One intent per person: highest detail, every rule named, the first spelling kept."""
    found: dict[str, Intent] = {}
    for fired in firing:
        for recipient in fired.rule.spec.to:
            intent = _intent(fired, recipient.address, domains)
            known = found.get(intent.key)
            found[intent.key] = intent if known is None else _joined(known, intent)
    allowed = [intent for intent in found.values() if intent.skipped is None]
    too_many = {intent.key for intent in allowed[MAX_RECIPIENTS_PER_RUN:]}
    return tuple(
        replace(intent, skipped=SkipReason.RECIPIENT_CAP) if intent.key in too_many else intent
        for intent in found.values()
    )


def _intent(fired: _Firing, address: str, domains: Collection[str]) -> Intent:
    trimmed = address.strip()
    skipped: SkipReason | None = None
    if address_fault(trimmed):
        key, skipped = trimmed.lower(), SkipReason.UNRESOLVED
    else:
        key = recipient_key(trimmed)
        skipped = None if is_sendable(key, domains) else SkipReason.UNVERIFIED
    return Intent(
        address=trimmed,
        key=key,
        rules=(fired.rule.name,),
        kind=fired.kind,
        detail=fired.rule.spec.detail,
        background=fired.background,
        skipped=skipped,
    )


_DETAILS = list(Detail)


def _joined(known: Intent, also: Intent) -> Intent:
    recovery = MailKind.RECOVERY in {known.kind, also.kind}
    first = known if known.kind is MailKind.RECOVERY or also.kind is MailKind.OUTCOME else also
    return replace(
        known,
        rules=tuple(dict.fromkeys((*known.rules, *also.rules))),
        kind=MailKind.RECOVERY if recovery else MailKind.OUTCOME,
        detail=max(known.detail, also.detail, key=_DETAILS.index),
        background=first.background,
    )
