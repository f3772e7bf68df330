"""Who receives a mail about a finalised run, and why others do not.

The rules of a tenant against one run, with the state of each (rule, job): a pure function, run
inside the transaction that holds those states locked. The later states of a mail are in
`mail`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.notifications.address import address_fault, is_sendable, recipient_key
from datarecs_core.notifications.rule import (
    ERRORED,
    Detail,
    Match,
    NotificationRule,
    Notify,
    QuietBehaviour,
)
from datarecs_core.notifications.wall_clock import next_time, quiet_until
from datarecs_core.runs.model import Run, RunMode, RunResult
from datarecs_core.values import JobId, ResourceUid, RunId, TenantId

STALE_AFTER = timedelta(hours=24)
"""A new consumer group reads history, and old runs are not mailed."""
MAX_RECIPIENTS_PER_RUN = 200


class SkipReason(StrEnum):
    """Why a recipient was not mailed, in the order of the checks."""

    STALE = "STALE"
    NO_MATCHING_RULE = "NO_MATCHING_RULE"
    SUPERSEDED = "SUPERSEDED"
    NOT_CHANGED = "NOT_CHANGED"
    MUTED = "MUTED"
    BELOW_CONSECUTIVE = "BELOW_CONSECUTIVE"
    UNRESOLVED = "UNRESOLVED"
    UNVERIFIED = "UNVERIFIED"
    UNSUBSCRIBED = "UNSUBSCRIBED"
    SUPPRESSED = "SUPPRESSED"
    QUIET_HOURS = "QUIET_HOURS"
    RECIPIENT_CAP = "RECIPIENT_CAP"
    FOLDED = "FOLDED"
    """A digest took its place."""


class MailKind(StrEnum):
    OUTCOME = "OUTCOME"
    REMINDER = "REMINDER"
    """The same outcome again."""
    RECOVERY = "RECOVERY"
    DIGEST = "DIGEST"
    """One mail about several runs."""
    NOTICE = "NOTICE"
    """About no run: an alert of the platform."""
    TEST = "TEST"
    """Sent on request, as a sample of a rule's mails."""


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
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the job, as they are now."""
    detail_code: str | None = None
    """The finer cause of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who may be written to."""

    domains: Collection[str] = ()
    """Lower-case A-label domains of the tenant."""
    unsubscribed: Collection[tuple[str, str]] = ()
    """Pairs of recipient key and scope: a rule's uid, a job's uid, or `EVERYTHING`."""
    suppressed: Collection[str] = ()
    """Recipient keys that refused mail, or with an owner who did."""


EVERYTHING = "everything"
"""Scope of a recipient who unsubscribed from mails about all runs."""


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
    """The outcome last mailed, or last observed if the rule does not name it."""
    open_alert: bool = False
    """Set by a mailed outcome other than MATCHED, cleared by MATCHED; recovery needs it."""
    alert_outcome: str | None = None
    """The content of the first mail of the open alert."""
    consecutive: int = 0
    """Length of the current streak of other outcomes than MATCHED."""
    streak_since: datetime | None = None
    last_mailed_at: datetime | None = None
    last_mailed_outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """The previous state, for the text of a mail."""

    since: datetime | None = None
    """When the streak of outcomes other than MATCHED began."""
    runs: int = 0
    """How many runs it had, this one included unless it ends the streak."""
    alert_outcome: str | None = None
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
    rule_uids: tuple[ResourceUid, ...] = ()
    due_at: datetime | None = None
    """None: at once; else the end of the quiet hours or the time of the digest."""
    fold: str | None = None
    """Mails of one recipient with the same fold that are due together leave as one digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A rule that matched but sends no mail; or, without a rule, the whole run."""

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
    audience: Audience,
    now: datetime,
) -> Evaluation:
    """Every recipient of the run once, every reason for no mail, and the new states.

    Args:
        rules: of the run's tenant; disabled ones are ignored.
        run: a run that ended MATCHED, UNMATCHED or errored.
        states: by rule; a rule without one has no run of this job yet.
        audience: who may be written to.
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
    intents = _recipients(firing, run, audience, now)
    return Evaluation(states=tuple(changed), intents=intents, held=tuple(held))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Firing:
    rule: StoredRule
    kind: MailKind
    background: Background


def _concerns(rule: NotificationRule, run: RunFacts) -> bool:
    match = rule.match
    return (
        rule.enabled
        and (not match.jobs or run.job_name in match.jobs)
        and (not match.triggers or run.mode in match.triggers)
        and all(run.labels.get(name) == value for name, value in match.job_selector.items())
    )


def _names(match: Match, run: RunFacts) -> bool:
    """Whether the rule names the outcome; of errors also the finer cause."""
    if not _is_named(run.outcome, match.outcomes):
        return False
    return (
        run.detail_code is None or not match.detail_codes or run.detail_code in match.detail_codes
    )


def _reminds(rule: NotificationRule, before: RuleState, now: datetime) -> bool:
    """The last mail is old enough to repeat an unchanged outcome."""
    mailed = before.last_mailed_at
    return bool(rule.remind_after) and mailed is not None and now - mailed >= rule.remind_after


def _is_muted(rule: NotificationRule, run: RunFacts, now: datetime) -> bool:
    return any(
        now < mute.until and (not mute.jobs or run.job_name in mute.jobs) for mute in rule.mutes
    )


def _judge(
    rule: StoredRule, run: RunFacts, before: RuleState, *, now: datetime
) -> tuple[_Firing | Held | None, RuleState]:
    """The decision of the rule about the run, and its state afterwards.

    A run older than the state changes no state: it was overtaken.
    """
    spec = rule.spec
    overtaken = before.last_finalised_at is not None and run.finalised_at < before.last_finalised_at
    named = _names(spec.match, run)
    recovers = run.outcome == RunResult.MATCHED and before.open_alert and spec.recovery
    after = before if overtaken else _seen(before, run)
    if not named and not recovers:
        return None, after if overtaken else replace(after, announced=run.outcome)
    on_change = spec.notify is Notify.ON_CHANGE
    if on_change and overtaken:
        return Held(reason=SkipReason.SUPERSEDED, rule=rule.name), before
    is_repeated = on_change and run.outcome == before.announced and not recovers
    if is_repeated and not _reminds(spec, before, now):
        return Held(reason=SkipReason.NOT_CHANGED, rule=rule.name), after
    if _is_muted(spec, run, now):
        # An alert that is still open stays open, so that its recovery is mailed after the mute.
        return Held(reason=SkipReason.MUTED, rule=rule.name), replace(
            after, open_alert=before.open_alert, alert_outcome=before.alert_outcome
        )
    if run.outcome != RunResult.MATCHED and after.consecutive < spec.after_consecutive:
        return Held(reason=SkipReason.BELOW_CONSECUTIVE, rule=rule.name), after
    kind = MailKind.REMINDER if is_repeated else MailKind.OUTCOME
    firing = _Firing(
        rule=rule,
        kind=MailKind.RECOVERY if recovers else kind,
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
            since=before.streak_since, runs=before.consecutive, alert_outcome=before.alert_outcome
        )
    if run.outcome == RunResult.MATCHED:
        return Background()
    return Background(since=after.streak_since, runs=after.consecutive)


def _recipients(
    firing: Iterable[_Firing], run: RunFacts, audience: Audience, now: datetime
) -> tuple[Intent, ...]:
    """One intent per person: highest detail, every rule named, the first spelling stays."""
    intents: dict[str, Intent] = {}
    for fired in firing:
        for recipient in fired.rule.spec.to:
            intent = _intent(fired, recipient.address, run, audience, now)
            known = intents.get(intent.key)
            intents[intent.key] = intent if known is None else _joined(known, intent)
    allowed = [intent for intent in intents.values() if intent.skipped is None]
    too_many = {intent.key for intent in allowed[MAX_RECIPIENTS_PER_RUN:]}
    return tuple(
        replace(intent, skipped=SkipReason.RECIPIENT_CAP) if intent.key in too_many else intent
        for intent in intents.values()
    )


def _intent(
    fired: _Firing, address: str, run: RunFacts, audience: Audience, now: datetime
) -> Intent:
    rule, trimmed = fired.rule, address.strip()
    is_address = not address_fault(trimmed)
    key = recipient_key(trimmed) if is_address else trimmed.lower()
    intent = Intent(
        address=trimmed,
        key=key,
        rules=(rule.name,),
        rule_uids=(rule.uid,),
        kind=fired.kind,
        detail=rule.spec.detail,
        background=fired.background,
    )
    if not is_address:
        return replace(intent, skipped=SkipReason.UNRESOLVED)
    if refusal := _refusal(key, rule, run, audience):
        return replace(intent, skipped=refusal)
    return _timed(intent, rule, run, now)


def _refusal(key: str, rule: StoredRule, run: RunFacts, audience: Audience) -> SkipReason | None:
    if not is_sendable(key, audience.domains):
        return SkipReason.UNVERIFIED
    scopes = {str(rule.uid), str(run.job_id), EVERYTHING}
    if any((key, scope) in audience.unsubscribed for scope in scopes):
        return SkipReason.UNSUBSCRIBED
    return SkipReason.SUPPRESSED if key in audience.suppressed else None


def _timed(intent: Intent, rule: StoredRule, run: RunFacts, now: datetime) -> Intent:
    """The intent with its time: at once, at the next digest, or when the quiet is over."""
    digest, quiet = rule.spec.digest, rule.spec.quiet_hours
    due_at: datetime | None = None
    if digest is not None:
        due_at = next_time(digest.at, digest.days, digest.timezone, now)
    if quiet is not None and not _is_named(run.outcome, quiet.exceptions):
        end = quiet_until(quiet.periods, quiet.timezone, due_at or now)
        if end is not None and quiet.behaviour is QuietBehaviour.SKIP:
            return replace(intent, skipped=SkipReason.QUIET_HOURS)
        due_at = end or due_at
    return replace(intent, due_at=due_at, fold=None if due_at is None else f"rule:{rule.uid}")


def _is_named(outcome: str, names: Collection[str]) -> bool:
    return outcome in names or outcome.split(":", maxsplit=1)[0] in names


_DETAILS = list(Detail)
_KINDS = [MailKind.OUTCOME, MailKind.REMINDER, MailKind.RECOVERY]
"""Of two rules the kind that is first here wins."""


def _joined(known: Intent, also: Intent) -> Intent:
    """One mail for both: a rule that may write wins over one that may not, now over later."""
    if (known.skipped is None) is not (also.skipped is None):
        return known if known.skipped is None else also
    recovery = MailKind.RECOVERY in {known.kind, also.kind}
    first = known if known.kind is MailKind.RECOVERY or also.kind is MailKind.OUTCOME else also
    sooner = known if known.due_at is None or _is_sooner(known.due_at, also.due_at) else also
    return replace(
        known,
        rules=tuple(dict.fromkeys((*known.rules, *also.rules))),
        rule_uids=tuple(dict.fromkeys((*known.rule_uids, *also.rule_uids))),
        kind=MailKind.RECOVERY if recovery else min(known.kind, also.kind, key=_KINDS.index),
        detail=max(known.detail, also.detail, key=_DETAILS.index),
        background=first.background,
        due_at=sooner.due_at,
        fold=sooner.fold,
    )


def _is_sooner(one: datetime, other: datetime | None) -> bool:
    return other is not None and one <= other
